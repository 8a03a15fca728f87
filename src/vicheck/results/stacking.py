"""`Stacking`: weights of the modes of a posterior by how well they predict together."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import UnreliableWarning, require_count
from vicheck.results.record import Floats
from vicheck.runtime.seeds import Seed, as_seed

if TYPE_CHECKING:
    import pandas as pd

    from vicheck.results.fit import Fit

__all__ = ["Stacking", "StackingStatus"]


class StackingStatus(Enum):
    """Whether the weights of stacked modes can be relied on."""

    OK = "there is a weight for each mode"
    ONE_MODE = "there is no fit at another mode, so nothing is stacked"
    HIGH_KHAT = "khat is too high: predictions by importance sampling cannot be relied on"
    UNDEFINED = "a predictive density is undefined, and so are the weights"

    def __repr__(self) -> str:
        return f"StackingStatus.{self.name}"


@dataclass(frozen=True, eq=False, repr=False)
class Stacking:
    """A mixture of a posterior's modes whose weights predict best: not the posterior.

    The arrays have a row for each mode: first the fit, then each fit at another mode.
    """

    fit: Fit
    status: StackingStatus
    weight: Floats
    """Weights of stacking."""
    mass: Floats
    """Share of the posterior that belongs to each mode, as a check estimates it."""
    khat: Floats
    """khat of each mode's own draws."""
    pointwise: pd.DataFrame
    """Log predictive density of each observation given all others: a column for each mode."""
    khat_loo: Floats
    """khat of each of these, shape ``(modes, n)``."""
    num_high: NDArray[np.int64]
    """For how many khat is high, and the largest ratio more than ten times their mean."""
    locations: pd.DataFrame
    """Mean of q at each mode, on the unconstrained scale."""
    z: Floats
    """Draws of q at each mode, on the unconstrained scale, shape ``(modes, S, d)``."""
    log_weights: Floats
    """Smoothed log weights of these draws, shape ``(modes, S)``."""
    notes: tuple[str, ...] = ()

    @property
    def weights(self) -> pd.DataFrame:
        """One row for each mode: weight, mass, and what the weight rests on.

        ``elpd_loo`` is the log predictive density by PSIS-LOO, summed over observations;
        ``khat_loo`` its largest khat, and ``num_high`` for how many observations khat is high and
        the largest ratio more than ten times their mean: where ratios are nearly equal, khat says
        nothing. ``khat`` is that of the mode's own draws.
        """
        import pandas as pd

        columns = {
            "weight": self.weight,
            "mass": self.mass,
            "elpd_loo": self.pointwise.to_numpy().sum(axis=0),
            "khat_loo": self.khat_loo.max(axis=1),
            "num_high": self.num_high,
            "khat": self.khat,
        }
        return pd.DataFrame(columns, self.pointwise.columns)

    @property
    def elpd(self) -> float:
        """Log predictive density of the stacked modes, each observation given all others."""
        return self._elpd_of(self.weight)

    @property
    def elpd_by_mass(self) -> float:
        """The same if the weights were the masses of the posterior."""
        return self._elpd_of(self.mass)

    def _elpd_of(self, weights: Floats) -> float:
        with np.errstate(divide="ignore"):
            terms = self.pointwise.to_numpy() + np.log(weights)
        return float(np.logaddexp.reduce(terms, axis=1).sum())

    def sample(self, num_draws: int = 1000, seed: Seed = 0) -> dict[str, Floats]:
        """Draw named parameters from the stacked modes, on their own scale, as `Fit.sample` does.

        A mode is drawn by the weights of stacking, and one of its draws, with replacement, by the
        smoothed weights that make them draws from the posterior there. Warns if khat is too high.

        Raises
        ------
        ValueError
            When the weights are undefined.
        """
        require_count("num_draws", num_draws)
        with np.errstate(under="ignore"):
            chances = (self.weight[:, None] * np.exp(self.log_weights)).ravel()
        if not np.isfinite(chances).all():
            raise ValueError(f"the stacked modes have no draws: {StackingStatus.UNDEFINED.value}")
        if self.status is StackingStatus.HIGH_KHAT:
            message = f"draws are taken from modes stacked by bad estimates: {self.status.value}"
            warnings.warn(message, UnreliableWarning, stacklevel=2)
        rng = np.random.default_rng(as_seed(seed))
        rows = rng.choice(len(chances), num_draws, p=chances / chances.sum())
        return self.fit.model.constrain(self.z.reshape(-1, self.z.shape[-1])[rows])

    def to_dict(self) -> dict[str, Any]:
        """Return status, weights and notes as plain values."""
        return {
            "status": self.status.name,
            "weights": self.weights.to_dict("index"),
            "elpd": self.elpd,
            "elpd_by_mass": self.elpd_by_mass,
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        num_observations, count = self.pointwise.shape
        what = f"{count} mode{'s' if count > 1 else ''}, {num_observations} observations"
        table = self.weights.to_string(float_format=lambda number: f"{number:.3g}")
        elpds = f"elpd {self.elpd:.1f}; by the masses of the posterior {self.elpd_by_mass:.1f}"
        return "\n".join([f"Stacking({self.status.name}, {what})", table, elpds, *self.notes])
