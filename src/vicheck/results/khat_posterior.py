"""`KhatPosterior`: how uncertain khat is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vicheck.results.record import Floats, Record

__all__ = ["KhatPosterior"]


@dataclass(frozen=True, eq=False, repr=False)
class KhatPosterior(Record):
    """Posterior of the Pareto shape k, from the grid on which khat was estimated.

    A mixture over the grid points theta_j with the profile weights. Given theta_j, k is
    k_j N / G, G a Gamma(N) variable: this is exact under a prior dk / |k|. The weak prior that
    moves khat towards 0.5 is left out, because intervals keep their coverage without it only.
    Arrays have shape ``(..., grid)``.
    """

    k_grid: Floats
    weights: Floats
    num_exceedances: int

    def exceeds(self, threshold: float) -> Any:
        """Return the posterior probability that k lies above a threshold."""
        cdf = self._cdf(np.full(self.k_grid.shape[:-1], threshold))
        return float(1.0 - cdf) if cdf.ndim == 0 else 1.0 - cdf

    def interval(self, level: float = 0.9) -> Floats:
        """Return the central interval of a level, shape ``(..., 2)``; NaN where no fit was made."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must lie between 0 and 1, got {level}")
        tails = (0.5 * (1.0 - level), 0.5 * (1.0 + level))
        return np.stack([self._quantile(probability) for probability in tails], axis=-1)

    def _cdf(self, k: Floats) -> Floats:
        from scipy.special import gammainc  # loaded late: importing vicheck stays light

        size, at = self.num_exceedances, k[..., None]
        same_sign = np.sign(at) * np.sign(self.k_grid) > 0.0
        # k <= t means G >= N k_j / t for positive k_j, and G <= N k_j / t for negative k_j.
        with np.errstate(over="ignore"):
            bound = size * np.where(same_sign, self.k_grid / np.where(same_sign, at, 1.0), 0.0)
        below = gammainc(size, bound)
        below = np.where(self.k_grid > 0.0, 1.0 - below, below)
        below = np.where(same_sign, below, at >= self.k_grid)
        return np.asarray((self.weights * below).sum(axis=-1))

    def _quantile(self, probability: float) -> Floats:
        """Invert the distribution function by bisection, all rows at once."""
        reach = 1.0 + 100.0 * np.minimum(np.abs(self.k_grid).max(axis=-1), 1e300)
        low, high = -reach, reach
        for _ in range(45):
            middle = 0.5 * (low + high)
            below = self._cdf(middle) < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(0.5 * (low + high))
