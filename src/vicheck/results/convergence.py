"""What is known of a fit besides its draws: convergence, and other optima."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vicheck.results.estimates import Measure
from vicheck.results.record import Floats, Record
from vicheck.results.status import FitStatus

__all__ = ["MAX_ITERATE_MCSE", "MAX_RHAT", "Convergence", "GradientTest", "PooledModes"]

MAX_RHAT, MAX_ITERATE_MCSE = 1.1, 0.05
"""Above these the iterates of a stochastic run have not settled (Dhaka et al. 2020). They are here
because the solver decides by them, and the verdict quotes them."""


@dataclass(frozen=True, eq=False, repr=False)
class GradientTest(Record):
    """Whether the expected gradient at q is zero, on fresh draws and up to a tolerance."""

    size: float
    """Largest entry of the mean gradient, in standard deviations of q."""
    p_value: float
    """p-value of the hypothesis that no entry exceeds the tolerance; Bonferroni over entries."""
    tolerance: float
    worst: str
    """The parameter with the largest entry."""
    num_draws: int


@dataclass(frozen=True, eq=False, repr=False)
class Convergence(Record):
    """What is known about whether a solver has found the best member of its family."""

    status: FitStatus
    solver: str
    gradient: GradientTest
    gradient_norm: float = np.nan
    """Gradient in sd units on the solver's own draws."""
    sampling_error: float = np.nan
    """Error of means and log sds, in sds, that comes from the solver's finite draws."""
    relative_change_mean: float = np.nan
    """Stan's criterion: mean relative change of the ELBO over its last evaluations."""
    relative_change_median: float = np.nan
    rhat: float = np.nan
    """Largest split R-hat of the last half of the iterates (Dhaka et al. 2020)."""
    iterate_mcse: float = np.nan
    """Largest Monte Carlo error of their average, in sds."""
    family: str = ""
    richer: str = "full_rank"
    """Family to try if this one is too poor; empty if there is none."""
    elbo_rise: float = np.nan
    """Nats by which the ELBO was still rising at the end of a run, if its course is known."""
    elbo_rise_steps: int = 0
    """Steps over which it rose by that; 0 if it was not seen to rise."""
    gradient_trace: Floats = field(default_factory=lambda: np.empty(0))
    """Largest entry of the gradient, in sds, after each round of the deterministic solver."""


@dataclass(frozen=True, eq=False, repr=False)
class PooledModes(Record):
    """The mixture of all optima that the starts have settled on, weighted by their ELBOs."""

    khat: float
    log_evidence: Measure
    missed: float
    """Share of the posterior that belongs to other optima, where the fit has no draws."""
    masses: Floats
    """Share of the posterior that belongs to each optimum, the fit itself first."""
    locations: Floats
    """Their means, one row each, on the unconstrained scale."""
    names: tuple[str, ...] = ()
    """Quantities for which the effect of the other optima is known."""
    shift: Floats = field(default_factory=lambda: np.empty(0))
    """By how many sds the other optima move the mean of each."""
    growth: Floats = field(default_factory=lambda: np.empty(0))
    """By how much they change the log of its sd."""
