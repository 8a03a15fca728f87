"""PSIS of each row of a matrix: which rows have a tail to fit, in which blocks, by which code."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.results.psis import PsisStatus
from vicheck.stats import rows_numpy
from vicheck.stats.gpd import grid_size

__all__ = [
    "MIN_DRAWS",
    "MIN_TAIL",
    "MIN_THREADED_SIZE",
    "ROUNDING",
    "SmoothedRows",
    "implementation_for",
    "is_small",
    "num_cores",
    "smooth",
]

MIN_TAIL = 5
"""Fewest exceedances to which a generalised Pareto distribution is fitted."""

MIN_DRAWS = 21
"""Fewest draws whose default tail is that long."""

ROUNDING = 64.0 * float(np.finfo(np.float64).eps)
"""Numbers that differ by no more than this fraction, 64 rounding errors, count as equal."""

# For rows of so many draws, and so many numbers in all, NumPy takes a few milliseconds; a hundred
# such calls are done before the compiled code would be loaded.
_MAX_NUMPY_DRAWS = 4096
_MAX_NUMPY_SIZE = 65_536

# Short rows are worked on together, this many numbers at a time: half a MiB stays in cache.
_BLOCK = 65_536

MIN_THREADED_SIZE = 500_000
"""From this many numbers on, the rows of a batch are shared among the cores."""

Floats = NDArray[np.float64]
SmoothRows = Callable[..., None]
"""`rows_numpy.smooth_rows`, or the compiled function of the same name."""


class SmoothedRows(NamedTuple):
    """What is known of each row; the first dimension of every array counts the rows."""

    codes: NDArray[np.int64]
    """Codes of `PsisStatus`."""
    numbers: Floats
    """Columns khat, log normaliser and effective sample size."""
    counts: NDArray[np.int64]
    """Columns number of zeros, number of NaN or +inf, and index of the first of these or -1."""
    grid: Floats
    """Shapes and weights of the profile posterior of k, shape (rows, 2, grid)."""
    log_weights: Floats
    """Normalised log weights; without columns when they were not asked for."""

    @property
    def khat(self) -> Floats:
        """Estimated shape of each row's right tail."""
        return self.numbers[:, 0]


def smooth(
    rows: NDArray[Any], tail_length: int, smooth_rows: SmoothRows, *, with_weights: bool
) -> SmoothedRows:
    """Run PSIS on every row of a matrix of any real type; the matrix is not changed."""
    num_rows, num_draws = rows.shape
    result = SmoothedRows(
        codes=np.zeros(num_rows, np.int64),
        numbers=np.full((num_rows, 3), np.nan),
        counts=np.zeros((num_rows, 3), np.int64),
        grid=np.full((num_rows, 2, grid_size(tail_length)), np.nan),
        log_weights=np.empty((num_rows, num_draws if with_weights else 0)),
    )
    result.counts[:, 2] = -1

    def smooth_block(block: slice) -> None:
        part = SmoothedRows._make(array[block] for array in result)
        values = rows[block]
        if values.dtype != np.float64 or not values.flags.c_contiguous:
            # The weights' own memory holds the converted values: no further copy is needed.
            converted = part.log_weights if with_weights else np.empty(values.shape)
            converted[...] = values
            values = converted
        # Infinite logarithms and vanishing or overflowing exponentials are all meant.
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            peaks = _classify(values, part)
            smooth_rows(
                values, peaks, tail_length, part.codes, part.numbers, part.grid, part.log_weights
            )

    step = max(1, _BLOCK // num_draws)
    blocks = [slice(start, start + step) for start in range(0, num_rows, step)]
    if len(blocks) == 1 or rows.size < MIN_THREADED_SIZE:
        for block in blocks:
            smooth_block(block)
    else:  # rows are independent: the result does not depend on the number of threads
        with ThreadPoolExecutor(min(num_cores(), len(blocks))) as threads:
            list(threads.map(smooth_block, blocks))
    return result


def implementation_for(num_rows: int, num_draws: int) -> SmoothRows:
    """Return the NumPy version for small input, else the compiled one.

    The choice depends on the shape alone, so the same input always gives the same bits.
    """
    if is_small(num_rows, num_draws):
        return rows_numpy.smooth_rows
    from vicheck.stats import rows_compiled

    compiled: SmoothRows = rows_compiled.smooth_rows
    return compiled


def is_small(num_rows: int, num_draws: int) -> bool:
    """Whether NumPy is done before compiled code would be loaded."""
    return num_draws <= _MAX_NUMPY_DRAWS and num_rows * num_draws <= _MAX_NUMPY_SIZE


def _classify(values: Floats, result: SmoothedRows) -> Floats:
    """Set the status of rows whose tail is not worth a look; return the maxima of all rows."""
    num_draws = values.shape[1]
    codes, counts = result.codes, result.counts
    peaks = np.asarray(values.max(axis=-1))
    lows = values.min(axis=-1)
    with np.errstate(invalid="ignore"):  # inf - inf
        spans = peaks - lows
    rounding = ROUNDING * np.maximum(1.0, np.abs(peaks))
    regular = (spans > rounding) & (spans < np.inf)
    if num_draws >= MIN_DRAWS and regular.all():
        return peaks
    codes[spans <= rounding] = PsisStatus.CONSTANT.code
    if num_draws < MIN_DRAWS:
        codes[:] = PsisStatus.TOO_FEW_DRAWS.code
    codes[peaks == -np.inf] = PsisStatus.ALL_ZERO.code
    codes[~(peaks < np.inf)] = PsisStatus.NOT_FINITE.code
    result.khat[codes == PsisStatus.CONSTANT.code] = 0.0
    for row in np.flatnonzero(~regular):
        invalid = ~(values[row] < np.inf)
        counts[row, 0] = np.count_nonzero(values[row] == -np.inf)
        counts[row, 1] = np.count_nonzero(invalid)
        counts[row, 2] = np.argmax(invalid) if invalid.any() else -1
    return peaks


def num_cores() -> int:
    """Return how many cores this process may use, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
