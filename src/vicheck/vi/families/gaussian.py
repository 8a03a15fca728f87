"""What all Gaussian families share: location, scales, entropy, exact marginals."""

from __future__ import annotations

import abc

import equinox as eqx
import jax
from jax.scipy.stats import norm

from vicheck.vi.families.family import Family

__all__ = ["LOG_2PI", "Gaussian", "moved"]

LOG_2PI = 1.8378770664093453


class Gaussian(Family):
    """A normal distribution of z."""

    loc: eqx.AbstractVar[jax.Array]

    @property
    def dim(self) -> int:
        return int(self.loc.shape[-1])

    @property
    @abc.abstractmethod
    def sd(self) -> jax.Array:
        """Marginal standard deviation of each coordinate."""

    @abc.abstractmethod
    def entropy(self) -> jax.Array:
        """Entropy in nats."""

    @abc.abstractmethod
    def covariance(self) -> jax.Array:
        """Covariance matrix, shape ``(d, d)``."""

    @property
    @abc.abstractmethod
    def step_dim(self) -> int:
        """How many numbers describe a step to another member of the family."""

    @abc.abstractmethod
    def displaced(self, step: jax.Array, directions: jax.Array) -> Gaussian:
        """Return the member a step away, measured in standard deviations; zero is no step.

        The first ``d`` entries move the location along ``directions``: the columns of a ``(d, d)``
        matrix, or the axes scaled by a ``(d,)`` vector. The others change the scales, by factors.
        The gradient of an objective with respect to the step, at zero, is its gradient in units
        of standard deviations.
        """

    def marginal_cdf(self, z: jax.Array) -> jax.Array:
        """Probability, exact, that each coordinate lies below ``z``, shape ``(..., d)``."""
        return norm.cdf(z, self.loc, self.sd)


def moved(loc: jax.Array, step: jax.Array, directions: jax.Array) -> jax.Array:
    """Move a location along scaled axes, or along the columns of a matrix."""
    return loc + (directions * step if directions.ndim == 1 else directions @ step)
