"""`Screening`: whether draws and densities are what they are taken for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vicheck.results.record import Record

__all__ = ["Screening"]


@dataclass(frozen=True, eq=False, repr=False)
class Screening(Record):
    """What was seen of draws that khat cannot see: independent, each its own, exact."""

    num_draws: int
    num_copies: int
    """Draws that repeat another in every number."""
    tail_length: int
    tail_copies: int
    """The same among the draws with the largest ratios."""
    num_clipped: int
    """Different draws that share the largest ratio, to the last bit, while others have their own;
    0 where that has another reason."""
    likeness: float
    """How much more the means of eight draws in a row vary than those of independent draws would:
    about 1 for these."""
    resolution: float
    """Distance, in nats, between numbers that the log densities can be told apart by."""
    swapped: bool = False
    """Whether ``log_p`` is seen to be the density of the draws, and ``log_q`` is not."""
    swapped_khat: float = np.nan
    """khat with the two the other way round, where they are suspected."""
