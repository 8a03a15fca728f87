"""`ModeSearch`: how the modes of a posterior were searched for, and what was found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicheck.results.record import Floats, Record

__all__ = ["NEGLIGIBLE", "ModeSearch"]

NEGLIGIBLE = 12.0
"""Nats by which a mode holds less than another to be passed over: one part in 160,000."""
_WITHOUT_PULL = 7.0
"""Nats by which its mass, times its squared distance in sds, must be below 1 besides: far away
even a mode that small would change an sd."""
_WIDEST = np.log(1000.0)
"""Log of how many times as wide as the highest a mode of unknown mass may be along each axis."""


@dataclass(frozen=True, eq=False, repr=False)
class ModeSearch(Record):
    """The search for modes of a posterior's density on the unconstrained scale.

    A *mode* is where climbs of the density end. The rows of the arrays are modes: first those that
    the approximation reaches, then the others, each group in order of falling density.
    """

    starts: dict[str, int]
    """Number of climbs by where they started."""
    num_arrived: int
    """Climbs that ended at a mode. The others ran out of evaluations: a funnel has no mode."""
    num_evaluations: int
    """Evaluations of the density with its gradient."""
    num_reached: int
    """Modes within reach of the approximation."""
    z: Floats
    """Where the modes are, shape ``(modes, d)``."""
    log_p: Floats
    """Log density there."""
    log_mass: Floats
    """Log of the integral over the mode by Laplace's method; NaN if that does not apply."""
    counts: Floats
    """Number of climbs that ended at each."""
    away: Floats
    """Distance of each from the approximation's mean: the largest over coordinates, in sds."""
    most_reached: float = np.nan
    """Lower bound on the log mass that the approximation itself holds: its ELBO, if known."""
    symmetry: str = ""
    """What turns some of the modes into each other, such as the order of the components of a
    mixture; empty where nothing was recognised."""
    endless: str = ""
    """A coordinate along which the density falls off no faster than 1 / |x|, 10,000 sds away: it
    has no integral; empty where none was found."""

    def __post_init__(self) -> None:
        if not self.z.size:  # a funnel has no mode: in a file that is an empty list
            object.__setattr__(self, "z", self.z.reshape(0, 0))

    @property
    def num_starts(self) -> int:
        """Number of all climbs."""
        return sum(self.starts.values())

    @property
    def num_others(self) -> int:
        """Number of modes that the approximation does not reach."""
        return len(self.log_p) - self.num_reached

    @property
    def is_negligible(self) -> NDArray[np.bool_]:
        """Which modes hold too little to change anything.

        By Laplace's method; where that does not apply, as in many dimensions, only if they are too
        low to hold anything even where they are a thousand times as wide as the highest.
        """
        log_shares = self.log_mass - _largest([*self.log_mass, self.most_reached])
        most = self.log_p - np.max(self.log_p, initial=-np.inf) + _WIDEST * self.z.shape[1]
        log_shares = np.where(np.isnan(self.log_mass), most, log_shares)
        pulls = log_shares + 2.0 * np.log(np.maximum(self.away, 1.0))
        return np.asarray((log_shares < -NEGLIGIBLE) & (pulls < -_WITHOUT_PULL))

    @property
    def others_are_negligible(self) -> bool:
        """Whether all modes beyond reach are so."""
        return bool(self.is_negligible[self.num_reached :].all())

    @property
    def share_of_others(self) -> float:
        """Share of the modes beyond reach in the sum of all, by Laplace's method; or NaN."""
        others = self.log_mass[self.num_reached :]
        own = _largest([*self.log_mass[: self.num_reached], self.most_reached])
        with np.errstate(under="ignore", over="ignore", divide="ignore"):
            return float(1.0 / (1.0 + 1.0 / np.exp(others - own).sum()))


def _largest(logs: list[float]) -> float:
    """Return the largest of the numbers that are known, or NaN."""
    known = [each for each in logs if not np.isnan(each)]
    return max(known, default=np.nan)
