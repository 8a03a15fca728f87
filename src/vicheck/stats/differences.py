"""By how much weighted estimates differ from plain ones, and how well that is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.stats.columns import for_each_block
from vicheck.stats.smoothing import is_small

__all__ = ["Difference", "differences", "differences_by_numpy"]

Floats = NDArray[np.float64]


class Difference(NamedTuple):
    """Weighted minus plain estimates of one quantity, with standard errors."""

    shift: float
    """Of the means, in sds of the weighted draws."""
    shift_error: float
    growth: float
    """Of the log sds."""
    growth_error: float


def differences(values: Floats, log_weights: Floats) -> list[Difference]:
    """Compare weighted with plain means and sds of quantities, from the same draws.

    Both estimates have errors from the same draws, so their difference is known better than either:
    for equal weights it is zero, without any error. By the delta method its error is the root of a
    sum of squares over draws: of ``w (h - mean) - (h - plain mean) / S``, for the means; of ``w
    ((h - mean)^2 / sd^2 - 1) / 2 - ((h - plain mean)^2 / plain sd^2 - 1) / (2 S)``, for the log
    sds. It holds where khat is below the threshold.

    Parameters
    ----------
    values
        The quantities at each draw, shape ``(S, Q)``.
    log_weights
        Normalised log weights of the draws.

    Examples
    --------
    >>> theta = np.random.default_rng(1).normal(size=(10_000, 1))
    >>> log_ratios = 0.1 * theta[:, 0]                              # p = N(0.1, 1)
    >>> (found,) = differences(theta, vicheck.psis(log_ratios).log_weights)
    >>> abs(found.shift - 0.1) < 3 * found.shift_error < 0.02
    True
    """
    num_draws, num_columns = values.shape
    with np.errstate(all="ignore"):  # tiny weights vanish, and constants have no log sd
        weights = np.exp(log_weights)
        if is_small(num_columns, num_draws):
            found = differences_by_numpy(values, weights)
        else:
            found = _by_compiled_code(values, weights)
    return [Difference(*each) for each in found.tolist()]


def _by_compiled_code(values: Floats, weights: Floats) -> Floats:
    """Return a row of four numbers for each quantity: all columns in cache, one after the other."""
    both = np.stack([np.full(len(values), 1.0 / len(values)), weights])
    sums, errors = np.empty((values.shape[1], 2, 4)), np.empty((values.shape[1], 2))
    constant = np.empty(values.shape[1], bool)

    def work(block: slice, rows: Floats) -> None:
        from vicheck.stats import rows_compiled

        rows_compiled.weigh_rows(rows, both, sums[block])
        rows_compiled.compare_rows(rows, both[1], sums[block], errors[block])
        constant[block] = rows.min(axis=1) == rows.max(axis=1)

    for_each_block(values, work)
    (mean, weighted_mean), (variance, weighted_variance) = sums[:, :, 0].T, sums[:, :, 1].T
    shift = (weighted_mean - mean) / np.sqrt(weighted_variance)
    growth = 0.5 * np.log(weighted_variance / variance)
    shift_error, growth_error = np.sqrt(errors).T
    return _settled(np.stack([shift, shift_error, growth, growth_error], axis=1), constant)


def differences_by_numpy(h: Floats, weights: Floats) -> Floats:
    """Do the same by plain NumPy: for small input, and as a test of the rest."""
    size, w = len(h), weights[:, None]
    mean = h.mean(axis=0)
    counted = np.where(w == 0.0, 0.0, h)  # zero times anything is nothing
    weighted_mean = weights @ counted
    plain, weighted = h - mean, counted - weighted_mean
    plain_variance, variance = (plain**2).mean(axis=0), weights @ weighted**2
    sd = np.sqrt(variance)
    shift = (weighted_mean - mean) / sd
    # What each draw contributes to the errors of the weighted log sd, of both and of the shift.
    of_sd = 0.5 * w * (weighted**2 / variance - 1.0)
    of_sds = of_sd - 0.5 / size * (plain**2 / plain_variance - 1.0)
    of_shift = (w * weighted - plain / size) / sd - shift * of_sd
    errors = (np.sqrt((each**2).sum(axis=0)) for each in (of_shift, of_sds))
    shift_error, growth_error = errors
    growth = 0.5 * np.log(variance / plain_variance)
    found = np.stack([shift, shift_error, growth, growth_error], axis=1)
    return _settled(found, h.min(axis=0) == h.max(axis=0))


def _settled(found: Floats, constant: NDArray[np.bool]) -> Floats:
    """Let nothing differ for constants, to which rounding would give an sd."""
    found[constant] = 0.0
    return found
