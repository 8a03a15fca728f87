"""What short chains from draws of q have shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from vicheck.results.record import Floats, Record

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Drift", "Heights", "ShortChains"]


@dataclass(frozen=True, eq=False, repr=False)
class Drift(Record):
    """How far each quantity has moved to the ends of chains, as arrays over the quantities."""

    shift: Floats
    """By how much the mean is higher at the ends, in sds of the ends: averaged over the last
    quarter of the steps, and relative to the mean of all draws that starts were taken from."""
    shift_error: Floats
    shift_p: Floats
    """p-value of the hypothesis that the mean has not moved at all, adjusted for many tests."""
    growth: Floats
    """By how much the log sd is larger at the ends, over the same steps and draws."""
    growth_error: Floats
    growth_p: Floats
    """p-value of the hypothesis that the spread has not changed at all, adjusted likewise."""


@dataclass(frozen=True, eq=False, repr=False)
class Heights(Record):
    """The log density along chains: no quantity forgets the starts more slowly."""

    memory: float
    """Correlation, over the chains, of log densities in the middle and at the end."""
    shift: float
    """By how much log densities are higher at the end, in their sds."""
    shift_error: float
    variance: float
    """Variance of those at the end, per parameter, from quantiles, so that no single chain
    decides. For a log-concave posterior it is at most 1."""


@dataclass(frozen=True, eq=False, repr=False)
class ShortChains(Record):
    """Where a few steps of MCMC lead from draws of q.

    If q, or q with its weights, is the posterior, things move only by chance. The drift is a lower
    bound on the error, with a sign: a mean that rises was too low by at least that much, as far as
    chains can see, because they do not pass from one mode to another. Where nested R-hat is about
    1, the chains have forgotten where they started, and the drift is the whole error, not a bound.
    """

    names: tuple[str, ...]
    """The quantities, in the order of all arrays."""
    starts: Literal["q", "weighted"]
    """Where chains started: at draws of q ("q"), or at draws resampled by their smoothed weights
    ("weighted") if khat is below its threshold and a thousand draws, or half of all, count."""
    num_chains: int
    num_left_out: int
    """Number of starts left out because the density or its gradient is not finite there."""
    num_steps: int
    """Steps of HMC that each chain has taken."""
    num_gradients: int
    """Gradients that each chain has taken, after the step size was found."""
    step_size: float
    """Size of the leapfrog steps, in sds of q; they are up to 40% shorter, at random."""
    acceptance: float
    """Mean probability of acceptance."""
    start_mean: Floats
    """Mean over all draws that starts were taken from, weighted if the starts are."""
    start_sd: Floats
    """Sd over the same draws."""
    end_mean: Floats
    """Mean over the last quarter of the steps, corrected for chance in the choice of starts."""
    end_sd: Floats
    """Sd over the last quarter of the steps."""
    from_starts: Drift
    """From the starts of the chains to their ends: what is wrong with the draws they started at."""
    from_q: Drift
    """From plain draws of q to the same ends; the same if the chains started at these."""
    settling: Drift
    """From the middle of the chains to their last quarter: nothing moves once they have arrived."""
    memory: Floats
    """Correlation of each quantity in the middle of the chains with its value in their last
    quarter; near 0, the chains have forgotten it by then, wherever they started."""
    heights: Heights
    rhat: Floats
    """Nested R-hat of each quantity: how much the ends still depend on the starts. See
    `vicheck.stats.drift.nested_rhat`."""

    def fits(self, names: tuple[str, ...]) -> bool:
        """Whether all arrays are of quantities with these names."""
        arrays = [
            value
            for record in (self, self.from_starts, self.from_q, self.settling)
            for value in vars(record).values()
            if isinstance(value, np.ndarray)
        ]
        return self.names == names and all(array.shape == (len(names),) for array in arrays)

    @property
    def drift(self) -> Floats:
        """How far the mean of each quantity has moved from the starts, in sds of the ends."""
        return self.from_starts.shift

    @property
    def drift_error(self) -> Floats:
        """Standard error of ``drift``."""
        return self.from_starts.shift_error

    @property
    def table(self) -> pd.DataFrame:
        """A row for each quantity, the largest drift first."""
        import pandas as pd

        columns = {
            "start_mean": self.start_mean,
            "start_sd": self.start_sd,
            "end_mean": self.end_mean,
            "end_sd": self.end_sd,
            "drift": self.drift,
            "drift_error": self.drift_error,
            "drift_p": self.from_starts.shift_p,
            "growth": self.from_starts.growth,
            "growth_error": self.from_starts.growth_error,
            "growth_p": self.from_starts.growth_p,
            "rhat": self.rhat,
        }
        rows = pd.DataFrame(columns, pd.Index(self.names))
        return rows.iloc[np.argsort(-np.abs(self.drift), kind="stable")]
