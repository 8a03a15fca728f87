"""Full rank: a normal with any covariance."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from vicheck.vi.families.gaussian import LOG_2PI, Gaussian

__all__ = ["FullRank"]


class FullRank(Gaussian):
    """Normal with mean ``loc`` and covariance ``scale_tril @ scale_tril.T``."""

    loc: jax.Array
    scale_tril: jax.Array

    @property
    def noise_dim(self) -> int:
        return self.dim

    @property
    def sd(self) -> jax.Array:
        return jnp.sqrt(jnp.square(self.scale_tril).sum(axis=-1))

    def transform(self, noise: jax.Array) -> jax.Array:
        return self.loc + self.scale_tril @ noise

    def log_prob(self, z: jax.Array) -> jax.Array:
        noise = solve_triangular(self.scale_tril, z - self.loc, lower=True)
        return self._log_prob_of_noise(noise)

    def transform_and_log_prob(self, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.transform(noise), self._log_prob_of_noise(noise)

    def _log_prob_of_noise(self, noise: jax.Array) -> jax.Array:
        return -0.5 * (noise @ noise + self.dim * LOG_2PI) - self._log_det()

    def _log_det(self) -> jax.Array:
        return jnp.log(jnp.abs(jnp.diagonal(self.scale_tril))).sum()

    def entropy(self) -> jax.Array:
        return 0.5 * self.dim * (1.0 + LOG_2PI) + self._log_det()

    def covariance(self) -> jax.Array:
        return self.scale_tril @ self.scale_tril.T

    @property
    def step_dim(self) -> int:
        return self.dim + self.dim * (self.dim + 1) // 2

    def displaced(self, step: jax.Array, directions: jax.Array) -> FullRank:
        # In the basis of its own scale every direction has standard deviation 1, so `directions`
        # is not needed; a product of lower triangular matrices is lower triangular.
        del directions
        shift, change = step[: self.dim], step[self.dim :]
        rows, columns = np.tril_indices(self.dim, -1)
        factor = jnp.zeros((self.dim, self.dim), step.dtype)
        # Without a promise XLA looks at each index while it compiles: seconds for many parameters.
        factor = factor.at[rows, columns].set(change[self.dim :], mode="promise_in_bounds")
        factor += jnp.diag(jnp.exp(change[: self.dim] / jnp.sqrt(2.0)))
        return FullRank(self.loc + self.scale_tril @ shift, self.scale_tril @ factor)
