"""What is looked at along many chains, summed up step by step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Stretch", "StretchSums"]

Floats = NDArray[np.float64]


class Stretch(NamedTuple):
    """What was looked at during some steps of chains, shape ``(n, Q)`` each."""

    averages: Floats
    """Over these steps of each chain."""
    spreads: Floats
    """Squared deviations from the mean of all chains, averaged likewise."""


class StretchSums:
    """Adds up what is looked at, so that no step has to be kept."""

    def __init__(self) -> None:
        self._count, self._middle = 0, np.zeros(1)
        self._total = self._squares = np.zeros(1)

    def add(self, values: Floats) -> None:
        """Add one step of all chains, shape ``(n, Q)``."""
        if not self._count:
            self._middle = values[0]  # near all others: squares of large numbers lose no digits
        away = values - self._middle
        self._count += 1
        self._total = self._total + away
        self._squares = self._squares + np.square(away)

    def stretch(self) -> Stretch:
        """Return averages and spreads over the steps so far."""
        away, squares = self._total / self._count, self._squares / self._count
        mean = away.mean(axis=0)
        spreads = np.maximum(squares - 2.0 * mean * away + np.square(mean), 0.0)
        return Stretch(self._middle + away, spreads)
