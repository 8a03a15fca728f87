"""PSIS of each row of a matrix in NumPy: for small input, and as a test of the compiled one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vicheck.records import PsisStatus
from vicheck.stats.gpd import fit_gpd, log_quantiles, quartile_index
from vicheck.stats.tail import Tail, log_exceedances, select_tail

__all__ = ["smooth_rows"]

Floats = NDArray[np.float64]


def smooth_rows(
    rows: Floats,
    peaks: Floats,
    tail_length: int,
    codes: NDArray[np.int64],
    numbers: Floats,
    grid: Floats,
    log_weights: Floats,
) -> None:
    """Smooth and normalise each row; fill the arrays from ``codes`` on.

    ``peaks`` are the rows' maxima; the arrays to fill are those of `smoothing.SmoothedRows`. A
    row whose code is not OK keeps its raw ratios, and an OK row whose tail cannot be fitted gets
    another code. ``log_weights`` without columns skips the weights; it may be ``rows`` itself.
    """
    with_weights = log_weights.shape[1] > 0
    for row, peak in enumerate(peaks):
        largest = 0.0
        values = rows[row] - peak if np.isfinite(peak) else np.full(rows.shape[1], np.nan)
        if codes[row] == PsisStatus.OK.code:
            # Selected before the subtraction, which may round unequal ratios to equal ones.
            raw = select_tail(rows[row], tail_length)
            tail = Tail(raw.cutoff - peak, raw.values - peak, raw.indices)
            status, log_x = _exceed(tail)
            codes[row] = status.code
            if status is PsisStatus.OK:
                fit = fit_gpd(log_x)
                numbers[row, 0], grid[row, 0], grid[row, 1] = fit.k, fit.k_grid, fit.weights
                if with_weights:
                    smoothed = _expected_tail(tail, fit.k, fit.log_sigma)
                    values[tail.indices] = smoothed
                    largest = smoothed[-1]  # a lone giant may have come far down
        if not with_weights:
            continue
        values -= largest
        scaled = np.exp(values)
        total = scaled.sum()
        numbers[row, 1:] = peak + (largest + np.log(total)), total**2 / (scaled @ scaled)
        log_weights[row] = values - np.log(total)


def _exceed(tail: Tail) -> tuple[PsisStatus, Floats]:
    """Say whether a distribution can be fitted to a tail; return the logs of its exceedances."""
    if tail.cutoff == -np.inf:
        return PsisStatus.TOO_FEW_POSITIVE, np.empty(0)
    if tail.values[0] == tail.values[-1]:
        return PsisStatus.TIED_AT_MAXIMUM, np.empty(0)
    log_x = log_exceedances(tail)
    if log_x[quartile_index(log_x.size)] == -np.inf:
        return PsisStatus.TIED_AT_CUTOFF, log_x
    return PsisStatus.OK, log_x


def _expected_tail(tail: Tail, k: float, log_sigma: float) -> Floats:
    """Return the expected order statistics of the fitted tail, at most the raw maximum."""
    size = tail.values.size
    quantiles = log_quantiles((np.arange(size) + 0.5) / size, k, log_sigma)
    return np.asarray(np.minimum(np.logaddexp(quantiles, tail.cutoff), tail.values[-1]))
