"""Columns of a matrix of draws, handed out as contiguous rows: in which blocks, on which cores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from vicheck.stats.smoothing import MIN_THREADED_SIZE, num_cores

__all__ = ["for_each_block"]

Floats = NDArray[np.float64]

_BLOCK = 2**20
"""Numbers that a core works on at a time, unless one column has more: 8 MiB."""
_ROWS = 2048
"""Draws that are transposed together, so that what is read for one column serves the next."""


def for_each_block(values: Floats, work: Callable[[slice, Floats], None]) -> None:
    """Call ``work`` with every block of columns: which they are, and the block transposed.

    ``values`` has shape ``(S, Q)`` and any layout. Columns are independent: what comes out does not
    depend on the number of cores.
    """
    num_draws, num_columns = values.shape
    cores = num_cores() if values.size >= MIN_THREADED_SIZE else 1
    width = max(1, min(_BLOCK // num_draws, -(-num_columns // cores)))
    blocks = [
        slice(start, min(start + width, num_columns)) for start in range(0, num_columns, width)
    ]

    def run(block: slice) -> None:
        rows = np.empty((block.stop - block.start, num_draws))
        for start in range(0, num_draws, _ROWS):
            rows[:, start : start + _ROWS] = values[start : start + _ROWS, block].T
        work(block, rows)

    if cores == 1 or len(blocks) == 1:
        for block in blocks:
            run(block)
    else:
        with ThreadPoolExecutor(min(cores, len(blocks))) as threads:
            list(threads.map(run, blocks))
