"""khat of products (h - center) r: the larger of both tails governs the error of h's mean."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vicheck.results.psis import PsisStatus
from vicheck.stats.columns import for_each_block
from vicheck.stats.gpd import fit_gpd, grid_size, quartile_index
from vicheck.stats.psis import default_tail_length, psis_quietly
from vicheck.stats.smoothing import MIN_DRAWS, ROUNDING, is_small
from vicheck.stats.tail import select_tail

__all__ = [
    "khats_by_numpy",
    "khats_of_columns",
    "khats_of_moments",
    "khats_of_rows",
    "scaled_ratios",
    "signed_khat",
]

Floats = NDArray[np.float64]

_NOT_POSITIVE = (PsisStatus.TOO_FEW_POSITIVE, PsisStatus.ALL_ZERO)
"""Statuses of tails whose cut-off is not positive."""


def khats_of_columns(
    values: Floats, centers: Floats, log_ratios: Floats, tail_length: int | None = None
) -> Floats:
    """Return the larger khat of the two tails of (h - center) r, for each column h of values.

    It is 0 for a column that is constant but for rounding, and NaN where neither tail can be fitted
    or a number is not finite. Draws of ratio zero are products of zero, whatever their value.
    """
    num_draws, num_columns = values.shape
    if not -np.inf < log_ratios.max() < np.inf:
        return np.full(num_columns, np.nan)
    if num_draws < MIN_DRAWS or is_small(num_columns, num_draws):
        return khats_by_numpy(values, centers, log_ratios, tail_length)
    khats = np.empty(num_columns)
    log_ratios = np.array(log_ratios)  # compiled code is for arrays of one kind: ours
    ratios = scaled_ratios(log_ratios)
    length = default_tail_length(num_draws) if tail_length is None else tail_length

    def work(block: slice, rows: Floats) -> None:
        khats[block] = khats_of_rows(rows, centers[block], log_ratios, ratios, length)

    for_each_block(values, work)
    return khats


def scaled_ratios(log_ratios: Floats) -> Floats:
    """Return the ratios in units of the largest, which must be finite."""
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(log_ratios - log_ratios.max()))


def khats_of_rows(
    rows: Floats, centers: Floats, log_ratios: Floats, ratios: Floats, tail_length: int
) -> Floats:
    """Return the khat of each row of quantities, contiguous and writable, by compiled code."""
    from vicheck.stats import rows_compiled

    each_tail = np.empty((len(rows), 2, tail_length + 1))
    each_code = np.empty((len(rows), 2), np.int64)
    rows_compiled.select_products(rows, centers, log_ratios, ratios, each_tail, each_code)
    return _khats_of_tails(each_tail, each_code)


def khats_of_moments(
    rows: Floats,
    means: Floats,
    variances: Floats,
    log_ratios: Floats,
    ratios: Floats,
    tail_length: int,
) -> tuple[Floats, Floats]:
    """Return the khats of the mean and of the variance of each row, which is overwritten.

    That is `khats_of_rows` of the rows and of their squared deviations, in one pass where it can be
    done so.
    """
    from vicheck.stats import rows_compiled

    tails = np.empty((len(rows), 4, tail_length + 1))
    certain = np.empty(len(rows), np.bool_)
    rows_compiled.select_moments(rows, means, variances, log_ratios, ratios, tails, certain)
    codes = np.full((2 * len(rows), 2), PsisStatus.OK.code, np.int64)
    codes[np.repeat(~certain, 2)] = PsisStatus.NOT_FINITE.code
    both = _khats_of_tails(tails.reshape(-1, 2, tail_length + 1), codes)
    khat, khat_sd = both[::2].copy(), both[1::2].copy()
    for row in np.flatnonzero(~certain):
        one = slice(row, row + 1)
        khat[one] = khats_of_rows(rows[one], means[one], log_ratios, ratios, tail_length)
        with np.errstate(invalid="ignore", over="ignore"):
            rows[row] -= means[row]
            rows[row] *= rows[row]
        khat_sd[one] = khats_of_rows(rows[one], variances[one], log_ratios, ratios, tail_length)
    return khat, khat_sd


def _khats_of_tails(each_tail: Floats, each_code: NDArray[np.int64]) -> Floats:
    """Return the larger khat of two tails, with what `select_products` found about them."""
    from vicheck.stats import rows_compiled

    tail_length = each_tail.shape[2] - 1
    tails, codes = each_tail.reshape(-1, tail_length + 1), each_code.reshape(-1)
    numbers = np.full((codes.size, 3), np.nan)
    numbers[codes == PsisStatus.CONSTANT.code, 0] = 0.0
    for row in np.flatnonzero(codes == PsisStatus.TOO_FEW_POSITIVE.code):
        numbers[row, 0] = _khat_above(tails[row], tail_length)
    # The M + 1 largest are a tail and its cut-off, which is all that khat depends on.
    grid = np.empty((codes.size, 2, grid_size(tail_length)))
    no_weights = np.empty((codes.size, 0))
    rows_compiled.smooth_rows(
        tails, np.zeros(codes.size), tail_length, codes, numbers, grid, no_weights
    )
    return np.asarray(np.fmax(numbers[::2, 0], numbers[1::2, 0]))  # NaN only where both are


def khats_by_numpy(
    values: Floats, centers: Floats, log_ratios: Floats, tail_length: int | None
) -> Floats:
    """Return the khat of each column by plain NumPy: for small input, and as a test of the rest."""
    khats = np.full(values.shape[1], np.nan)
    counted = log_ratios > -np.inf
    sizes = np.abs(values[counted]).max(axis=0)
    with np.errstate(invalid="ignore"):
        deviations = values - centers
        equal = np.abs(deviations) <= ROUNDING * sizes
    deviations[equal | ~counted[:, None]] = 0.0
    finite = np.isfinite(sizes) & np.isfinite(deviations).all(axis=0)
    khats[finite & equal.all(axis=0)] = 0.0
    which = np.flatnonzero(finite & deviations.any(axis=0))
    if not which.size:
        return khats
    some = np.ascontiguousarray(deviations.T[which])
    with np.errstate(divide="ignore"):
        log_size = np.log(np.abs(some)) + log_ratios
    both = np.empty((2, which.size))
    length = default_tail_length(log_ratios.size) if tail_length is None else tail_length
    for side, sign in enumerate((1.0, -1.0)):
        tails = np.where(sign * some > 0.0, log_size, -np.inf)
        result = psis_quietly(tails, tail_length=tail_length, with_weights=False)
        both[side] = result.khat
        for row in np.flatnonzero([status in _NOT_POSITIVE for status in result.status]):
            both[side, row] = signed_khat(sign * some[row], log_ratios, length)
    khats[which] = np.fmax(*both)  # NaN only where both are
    return khats


def signed_khat(deviation: Floats, log_ratios: Floats, tail_length: int) -> float:
    """Return khat of the right tail of deviation * r when its cut-off is not positive."""
    with np.errstate(under="ignore"):
        return _khat_above(deviation * scaled_ratios(log_ratios), tail_length)


def _khat_above(products: Floats, tail_length: int) -> float:
    tail = select_tail(products, tail_length)
    exceedances = tail.values - tail.cutoff
    if exceedances[0] == exceedances[-1] or exceedances[quartile_index(tail_length)] <= 0.0:
        return np.nan
    with np.errstate(divide="ignore"):
        return float(fit_gpd(np.log(exceedances)).k)
