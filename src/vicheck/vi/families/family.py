"""What every family of approximations offers; a member of a family is a value, never changed."""

from __future__ import annotations

import abc

import equinox as eqx
import jax
from jax.scipy.stats import norm

__all__ = ["LOG_2PI", "Family", "moved"]

LOG_2PI = 1.8378770664093453


class Family(eqx.Module):
    """A Gaussian approximation q of the flat unconstrained vector z, made from standard noise."""

    loc: eqx.AbstractVar[jax.Array]

    @property
    def dim(self) -> int:
        """Length of z."""
        return int(self.loc.shape[-1])

    @property
    @abc.abstractmethod
    def noise_dim(self) -> int:
        """How many standard normal numbers make one draw."""

    @property
    @abc.abstractmethod
    def sd(self) -> jax.Array:
        """Marginal standard deviation of each coordinate."""

    @abc.abstractmethod
    def transform(self, noise: jax.Array) -> jax.Array:
        """Turn standard normal noise, shape ``(k,)``, into a draw, shape ``(d,)``."""

    @abc.abstractmethod
    def log_prob(self, z: jax.Array) -> jax.Array:
        """Log density at one z, shape ``(d,)``."""

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
    def displaced(self, step: jax.Array, directions: jax.Array) -> Family:
        """Return the member a step away, measured in standard deviations; zero is no step.

        The first ``d`` entries move the location along ``directions``: the columns of a ``(d, d)``
        matrix, or the axes scaled by a ``(d,)`` vector. The others change the scales, by factors.
        The gradient of an objective with respect to the step, at zero, is its gradient in units
        of standard deviations.
        """

    def transform_and_log_prob(self, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return a draw and its log density; families override it where this saves work."""
        z = self.transform(noise)
        return z, self.log_prob(z)

    def sample_and_log_prob(self, key: jax.Array, num_draws: int) -> tuple[jax.Array, jax.Array]:
        """Draw from q: draws of shape ``(num_draws, d)`` and their log densities."""
        noise = jax.random.normal(key, (num_draws, self.noise_dim), self.loc.dtype)
        return jax.vmap(self.transform_and_log_prob)(noise)

    def marginal_cdf(self, z: jax.Array) -> jax.Array:
        """Probability, exact, that each coordinate lies below ``z``, shape ``(..., d)``."""
        return norm.cdf(z, self.loc, self.sd)


def moved(loc: jax.Array, step: jax.Array, directions: jax.Array) -> jax.Array:
    """Move a location along scaled axes, or along the columns of a matrix."""
    return loc + (directions * step if directions.ndim == 1 else directions @ step)
