"""How often densities and gradients were evaluated, by whatever was called meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["Tally", "count", "tallied"]


@dataclass
class Tally:
    """Points at which a density was evaluated."""

    gradients: int = 0
    """With its gradient."""
    densities: int = 0
    """Without."""

    @property
    def evaluations(self) -> int:
        """Both together."""
        return self.gradients + self.densities


_CURRENT: ContextVar[Tally | None] = ContextVar("tally", default=None)


def count(*, gradients: int = 0, densities: int = 0) -> None:
    """Add to the tally that is kept, if any."""
    tally = _CURRENT.get()
    if tally is not None:
        tally.gradients += int(gradients)
        tally.densities += int(densities)


@contextmanager
def tallied(tally: Tally) -> Iterator[Tally]:
    """Add to a tally all that is evaluated in this thread meanwhile."""
    before = _CURRENT.set(tally)
    try:
        yield tally
    finally:
        _CURRENT.reset(before)
