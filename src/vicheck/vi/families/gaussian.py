"""What all Gaussian families share: location, scales, entropy, exact marginals."""

from __future__ import annotations

import abc
from typing import Any, Self

import equinox as eqx
import jax
import numpy as np
from jax.scipy.stats import norm
from numpy.typing import NDArray

from vicheck.vi.families.abilities import HasEntropy, HasMarginals, HasMoments, HasRoots
from vicheck.vi.families.family import Family

__all__ = ["LOG_2PI", "Gaussian"]

Floats = NDArray[np.float64]

LOG_2PI = 1.8378770664093453


class Gaussian(Family, HasEntropy, HasMarginals, HasMoments, HasRoots):
    """A normal distribution of z.

    The first ``d`` entries of a step move the location along ``directions``: the columns of a
    ``(d, d)`` matrix, or the axes scaled by a ``(d,)`` vector. The others change the scales, by
    factors, and then the correlations.
    """

    loc: eqx.AbstractVar[jax.Array]

    @property
    def dim(self) -> int:
        return int(self.loc.shape[-1])

    @property
    def mean(self) -> jax.Array:
        return self.loc

    def roots(self) -> tuple[Floats, Floats]:
        return np.empty(0), np.linalg.cholesky(np.asarray(self.covariance()))

    def marginal_cdf(self, z: jax.Array) -> jax.Array:
        return norm.cdf(z, self.loc, self.sd)

    def marginal(self, index: int) -> Any:
        from scipy import stats

        return stats.norm(float(self.loc[index]), float(self.sd[index]))

    @classmethod
    def needs_directions(cls) -> bool:
        return True

    @property
    @abc.abstractmethod
    def step_dim(self) -> int:
        """How many numbers describe a step to another member of the family."""

    @property
    def num_shifts(self) -> int:
        return self.dim

    def units(self) -> jax.Array:
        return self.sd

    @abc.abstractmethod
    def displaced(self, step: jax.Array, directions: jax.Array) -> Self:
        """Return the member a step away, measured in standard deviations; zero is no step."""

    def entry_name(self, entry: int, gradient: Floats, coordinates: tuple[str, ...]) -> str:
        if entry >= 2 * self.dim:
            return "correlations"
        if entry >= self.dim:
            return f"the scale of {coordinates[entry - self.dim]}"
        return coordinates[entry]
