"""PSIS of each row of a matrix in NumPy: for small input, and as a test of the compiled one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.results.psis import PsisStatus
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
    fitted, tail, log_x = _fittable(rows, tail_length, codes)
    fit = fit_gpd(log_x)
    numbers[fitted, 0], grid[fitted, 0], grid[fitted, 1] = fit.k, fit.k_grid, fit.weights
    if log_weights.shape[1] == 0:
        return
    probabilities = (np.arange(tail_length) + 0.5) / tail_length
    place = dict(zip(fitted.tolist(), range(fitted.size), strict=True))
    for row, peak in enumerate(peaks):
        largest = 0.0
        values = rows[row] - peak if np.isfinite(peak) else np.full(rows.shape[1], np.nan)
        if row in place:
            at = place[row]
            cutoff = tail.cutoff[at] - peak
            quantiles = log_quantiles(probabilities, float(fit.k[at]), float(fit.log_sigma[at]))
            # The expected order statistics, at most the raw maximum.
            smoothed = np.minimum(cutoff + np.logaddexp(quantiles, 0.0), 0.0)
            values[tail.indices[at]] = smoothed
            largest = smoothed[-1]  # a lone giant may have come far down
        values -= largest
        scaled = np.exp(values)
        total = scaled.sum()
        numbers[row, 1:] = peak + (largest + np.log(total)), total**2 / (scaled @ scaled)
        log_weights[row] = values - np.log(total)


def _fittable(
    rows: Floats, tail_length: int, codes: NDArray[np.int64]
) -> tuple[NDArray[np.intp], Tail, Floats]:
    """Return which rows have a tail to fit, these tails, and their log exceedances.

    Rows that were OK and turn out to have none get another code.
    """
    kept = np.flatnonzero(codes == PsisStatus.OK.code)
    tail = select_tail(rows[kept], tail_length)
    codes[kept] = np.select(
        [tail.cutoff == -np.inf, tail.values[:, 0] == tail.values[:, -1]],
        [PsisStatus.TOO_FEW_POSITIVE.code, PsisStatus.TIED_AT_MAXIMUM.code],
        PsisStatus.OK.code,
    )
    good = codes[kept] == PsisStatus.OK.code
    kept, tail = kept[good], _part(tail, good)
    log_x = log_exceedances(tail)
    tied = log_x[:, quartile_index(tail_length)] == -np.inf
    codes[kept[tied]] = PsisStatus.TIED_AT_CUTOFF.code
    return kept[~tied], _part(tail, ~tied), log_x[~tied]


def _part(tail: Tail, which: Any) -> Tail:
    return Tail._make(field[which] for field in tail)
