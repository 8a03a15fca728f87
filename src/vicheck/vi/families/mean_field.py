"""Mean field: independent normals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from vicheck.vi.families.family import moved
from vicheck.vi.families.gaussian import LOG_2PI, Gaussian

if TYPE_CHECKING:
    from vicheck.vi.charts.chart import Chart
    from vicheck.vi.curvature import Curvature

__all__ = ["MeanField"]


class MeanField(Gaussian):
    """Independent normals with means ``loc`` and standard deviations ``exp(log_scale)``."""

    loc: jax.Array
    log_scale: jax.Array

    @classmethod
    def start(cls, z: Any, curvature: Curvature, shrink: Any = 1.0) -> Self:
        return cls(z, np.log(shrink / np.sqrt(curvature.precisions)))

    @property
    def num_fixed_draws(self) -> int:
        return 1  # independent scales cannot be turned: any number will do

    @property
    def sd(self) -> jax.Array:
        return jnp.exp(self.log_scale)

    def transform(self, noise: jax.Array) -> jax.Array:
        return self.loc + self.sd * noise

    def log_prob(self, z: jax.Array) -> jax.Array:
        return self._log_prob_of_noise((z - self.loc) / self.sd)

    def transform_and_log_prob(self, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.transform(noise), self._log_prob_of_noise(noise)

    def _log_prob_of_noise(self, noise: jax.Array) -> jax.Array:
        return -0.5 * (noise @ noise + self.dim * LOG_2PI) - self.log_scale.sum()

    def entropy(self) -> jax.Array:
        return 0.5 * self.dim * (1.0 + LOG_2PI) + self.log_scale.sum()

    def covariance(self) -> jax.Array:
        return jnp.diag(self.sd**2)

    @property
    def step_dim(self) -> int:
        return 2 * self.dim

    def displaced(self, step: jax.Array, directions: jax.Array) -> Self:
        # Near the optimum of a Gaussian posterior the curvature in log_scale is 2: sqrt(2) makes
        # it 1 along every entry of the step.
        shift, growth = step[: self.dim], step[self.dim :] / jnp.sqrt(2.0)
        return type(self)(moved(self.loc, shift, directions), self.log_scale + growth)

    def correction(self, excess: jax.Array) -> jax.Array | float:
        return 0.5 * self.sd @ excess @ self.sd

    def chart(self, directions: Any) -> Chart:
        from vicheck.vi.charts.mean_field import MeanFieldChart

        return MeanFieldChart(type(self), self.loc, self.log_scale, directions)
