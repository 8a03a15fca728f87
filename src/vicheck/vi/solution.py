"""What a solver returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vicheck.records import FitStatus
from vicheck.vi.family import Family

__all__ = ["Optimum", "Report", "Solution", "silent"]

Floats = NDArray[np.float64]

Report = Callable[[str], None]
"""Told, now and then, what a solver is doing."""


def silent(_: str) -> None:
    """Report nothing."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """A place where a start has settled."""

    q: Family
    elbo: float


@dataclass(frozen=True, eq=False)
class Solution:
    """A member of the family, and how the solver got there."""

    q: Family
    status: FitStatus
    elbo: float
    """The solver's own estimate, NaN for a fit that has run away: on the draws it was fitted to, no
    number is too high. A check estimates it again from fresh draws."""
    num_evaluations: int
    """How often the log density was evaluated, with its gradient or without."""
    gradient_norm: float = np.nan
    """Largest entry of the gradient in units of standard deviations, on the solver's own draws."""
    sampling_error: float = np.nan
    """Largest error of a mean or log sd, in sds, that comes from the solver's finite draws."""
    num_draws: int = 0
    """Draws in the objective: all of them, or in each step."""
    others: tuple[Optimum, ...] = ()
    """Other optima that other starts have settled on."""
    elbo_trace: Floats = field(default_factory=lambda: np.empty(0))
    """ELBO as the solver went along."""
    gradient_trace: Floats = field(default_factory=lambda: np.empty(0))
    """Largest entry of the gradient, in sds, after each round of the deterministic solver."""
    iterates: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """Means and log sds during the last part of a stochastic run, one row for each step kept."""
    settings: dict[str, float] = field(default_factory=dict)
    """What the solver chose itself, such as Stan's step size."""
