"""Means and sds of many quantities by several weightings of the same draws, each with its khat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.stats.columns import for_each_block
from vicheck.stats.estimates import expectation
from vicheck.stats.products import khats_of_columns, khats_of_moments, scaled_ratios
from vicheck.stats.psis import default_tail_length
from vicheck.stats.smoothing import MIN_DRAWS, is_small

__all__ = ["Moments", "moments_by_numpy", "weighted_moments"]

Floats = NDArray[np.float64]


class Moments(NamedTuple):
    """A row for each weighting and a column for each quantity."""

    mean: Floats
    sd: Floats
    mcse: Floats
    """By the delta method, from the draws that there are."""
    imbalance: Floats
    """The largest positive contribution of a draw, w (h - mean), less the largest negative one."""
    khat: Floats
    """That of each quantity's mean by the last weighting, shape ``(Q,)``."""
    khat_sd: Floats
    """That of its variance: of ((h - mean)^2 - variance) r."""


def weighted_moments(values: Floats, log_weights: Sequence[Floats], log_ratios: Floats) -> Moments:
    """Return mean, sd and error of the mean of each column, as `expectation` does, and its khat.

    What the error leaves out lies beyond the largest contributions: `vicheck.stats.unseen`.

    Parameters
    ----------
    values
        Quantities, shape ``(S, Q)``.
    log_weights
        Normalised log weights, shape ``(S,)`` each; what depends on undefined ones is NaN.
    log_ratios
        Log importance ratios; khat is that of (h - mean) r as from `khat_of`, the mean being the
        one by the last weighting.

    Notes
    -----
    A block of columns is transposed once, and goes through the compiled code while it is in cache:
    a pass for each mean, one for each sum of squares, and one that finds what may be in the tails
    of (h - mean) r and ((h - mean)^2 - variance) r. Only tails are sorted and fitted, about
    12 sqrt(S) numbers of each column.
    """
    num_draws, num_columns = values.shape
    if num_draws < MIN_DRAWS or is_small(num_columns, num_draws):
        return moments_by_numpy(values, log_weights, log_ratios)
    with np.errstate(under="ignore"):
        weights = np.stack(log_weights)
        np.exp(weights, out=weights)  # new memory would take longer than the exponentials
        sums_of_squares = np.einsum("ws,ws->w", weights, weights)
    log_r = np.array(log_ratios)  # compiled code is for arrays of one kind: ours
    known = not np.isnan(weights[-1]).any()
    ratios = scaled_ratios(log_r) if known else weights[-1]
    length = default_tail_length(num_draws)
    sums = np.empty((num_columns, len(weights), 4))
    khats, khats_sd = np.full((2, num_columns), np.nan)

    def work(block: slice, rows: Floats) -> None:
        from vicheck.stats import rows_compiled

        rows_compiled.weigh_rows(rows, weights, sums[block])
        if known:
            mean, variance = sums[block, -1, 0].copy(), sums[block, -1, 1].copy()
            khats[block], khats_sd[block] = khats_of_moments(
                rows, mean, variance, log_r, ratios, length
            )

    for_each_block(values, work)
    mean, spread, squared_error, imbalance = np.moveaxis(sums, (2, 1), (0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        sd = np.sqrt(spread / (1.0 - sums_of_squares)[:, None])
    return Moments(mean, sd, np.sqrt(squared_error), imbalance, khats, khats_sd)


def moments_by_numpy(values: Floats, log_weights: Sequence[Floats], log_ratios: Floats) -> Moments:
    """Do the same by plain NumPy, for small input."""
    mean, sd, mcse, imbalance = np.full((4, len(log_weights), values.shape[1]), np.nan)
    khats, khats_sd = np.full((2, values.shape[1]), np.nan)
    for way, each in enumerate(log_weights):
        if not np.isnan(each).any():
            estimate = expectation(values, each)
            mean[way], sd[way], mcse[way] = estimate.mean, estimate.sd, estimate.mcse
            imbalance[way] = _imbalance(values, np.exp(each), mean[way])
    if not np.isnan(log_weights[-1]).any():
        khats = khats_of_columns(values, mean[-1], log_ratios)
        with np.errstate(invalid="ignore", over="ignore"):
            squares = np.square(values - mean[-1])
            weights = np.exp(log_weights[-1])
            variance = weights @ np.where(weights[:, None] == 0.0, 0.0, squares)
        khats_sd = khats_of_columns(squares, variance, log_ratios)
    return Moments(mean, sd, mcse, imbalance, khats, khats_sd)


def _imbalance(values: Floats, weights: Floats, mean: Floats) -> Floats:
    counted = weights > 0.0
    with np.errstate(invalid="ignore", under="ignore"):
        products = weights[counted, None] * (values[counted] - mean)
    above, below = (np.maximum(side.max(axis=0), 0.0) for side in (products, -products))
    return np.asarray(above - below)
