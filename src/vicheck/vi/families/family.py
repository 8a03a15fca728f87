"""What every family of approximations offers; a member of a family is a value, never changed."""

from __future__ import annotations

import abc

import equinox as eqx
import jax
import numpy as np
from numpy.typing import NDArray

__all__ = ["Family"]


class Family(eqx.Module):
    """An approximation q of the flat unconstrained vector z, made from standard normal noise."""

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Length of z."""

    @property
    @abc.abstractmethod
    def noise_dim(self) -> int:
        """How many standard normal numbers make one draw."""

    @abc.abstractmethod
    def transform(self, noise: jax.Array) -> jax.Array:
        """Turn standard normal noise, shape ``(k,)``, into a draw, shape ``(d,)``."""

    @abc.abstractmethod
    def log_prob(self, z: jax.Array) -> jax.Array:
        """Log density at one z, shape ``(d,)``."""

    def transform_and_log_prob(self, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return a draw and its log density; families override it where this saves work."""
        z = self.transform(noise)
        return z, self.log_prob(z)

    def draw_noise(self, rng: np.random.Generator, num_draws: int) -> NDArray[np.float64]:
        """Return noise for a number of draws, shape ``(num_draws, k)``."""
        return rng.standard_normal((num_draws, self.noise_dim))

    def sample_and_log_prob(self, key: jax.Array, num_draws: int) -> tuple[jax.Array, jax.Array]:
        """Draw from q: draws of shape ``(num_draws, d)`` and their log densities."""
        noise = jax.random.normal(key, (num_draws, self.noise_dim), float)
        return jax.vmap(self.transform_and_log_prob)(noise)
