"""khat of the first draws, by their number: it can rise as more of the tail is seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.results.psis import PsisResult
from vicheck.stats.psis import psis_quietly

__all__ = ["KhatGrowth", "khat_growth"]

Floats = NDArray[np.float64]

_LEAST_DRAWS = 1000


class KhatGrowth(NamedTuple):
    """khat of the first draws, the fewest first and all of them last."""

    sizes: tuple[int, ...]
    """Numbers of draws."""
    results: tuple[PsisResult, ...]
    """PSIS of each, without weights but for all draws."""

    @property
    def khats(self) -> Floats:
        """The khat of each number of draws; NaN where it is undefined."""
        return np.array([float(result.khat) for result in self.results])

    @property
    def intervals(self) -> Floats:
        """90% intervals, one row for each number of draws."""
        return np.array([result.khat_interval() for result in self.results])

    def to_dict(self) -> dict[int, float]:
        """Return khat by the number of draws."""
        return dict(zip(self.sizes, self.khats.tolist(), strict=True))


def khat_growth(log_ratios: Floats, smoothed: PsisResult) -> KhatGrowth:
    """Return khat of the first quarter of the draws, of a sixteenth, and so on down to 1000.

    Parameters
    ----------
    log_ratios
        ``log_p - log_q``, in the order in which they were drawn.
    smoothed
        The PSIS of all of them.
    """
    sizes = []
    size = len(log_ratios) // 4
    while size >= _LEAST_DRAWS:
        sizes.append(size)
        size //= 4
    fewer = [psis_quietly(log_ratios[:size], with_weights=False) for size in reversed(sizes)]
    return KhatGrowth((*reversed(sizes), len(log_ratios)), (*fewer, smoothed))
