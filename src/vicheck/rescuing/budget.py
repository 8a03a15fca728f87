"""What a rescue may cost: evaluations of the density, and seconds."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from vicheck.errors import ArgumentError
from vicheck.runtime.tally import Tally

__all__ = ["Budget", "budget_for"]

_TIMES_THE_FIT = 20.0
_LEAST_SECONDS = 300.0
_LEAST_EVALUATIONS = 4_000_000


@dataclass
class Budget:
    """What may be used, and a count of what has been."""

    seconds: float
    evaluations: float
    used: Tally = field(default_factory=Tally)
    begun: float = field(default_factory=time.perf_counter)

    @property
    def elapsed(self) -> float:
        """Seconds since the rescue began."""
        return time.perf_counter() - self.begun

    @property
    def is_used_up(self) -> bool:
        """Whether nothing further may be begun."""
        return self.elapsed >= self.seconds or self.used.evaluations >= self.evaluations


def budget_for(seconds: float | None, fit_seconds: float, fit_evaluations: int) -> Budget:
    """Return the budget: so many seconds, or by default twenty times what the fit has taken.

    Raises
    ------
    ArgumentError
        For a budget that is not a number of seconds, zero or more.
    """
    evaluations = max(_LEAST_EVALUATIONS, _TIMES_THE_FIT * fit_evaluations)
    if seconds is None:
        return Budget(max(_LEAST_SECONDS, _TIMES_THE_FIT * fit_seconds), evaluations)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0.0:
        raise ArgumentError("budget", f"must be a number of seconds, zero or more, got {seconds!r}")
    return Budget(float(seconds), math.inf)
