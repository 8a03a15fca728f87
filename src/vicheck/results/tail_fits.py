"""`TailFits`: khats of tails of several lengths, where they contradict each other."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vicheck.results.record import Record

__all__ = ["TailFits"]


@dataclass(frozen=True, eq=False, repr=False)
class TailFits(Record):
    """What tails of other lengths say of ratios whose usual tail is not Pareto."""

    khats: dict[int, float]
    """khat by the length of the tail, the longest first."""
    khat: float
    """That of the longest tail which no shorter one contradicts; NaN where all are too short."""
    tail_length: int
    """The length of that tail, or 0."""
    largest: float
    """The largest ratio, in multiples of the mean ratio."""

    @property
    def low(self) -> float:
        """The khat less its standard error."""
        return self.khat - self._error

    @property
    def high(self) -> float:
        """The khat plus its standard error."""
        return self.khat + self._error

    @property
    def _error(self) -> float:
        if not self.tail_length:
            return math.nan
        return (1.0 + max(self.khat, 0.0)) / math.sqrt(self.tail_length)
