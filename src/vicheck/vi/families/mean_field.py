"""Mean field: independent normals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.vi.families.family import moved
from vicheck.vi.families.gaussian import LOG_2PI, Gaussian

if TYPE_CHECKING:
    from vicheck.vi.charts.chart import Chart
    from vicheck.vi.curvature import Curvature

__all__ = ["FARTHEST", "MeanField"]

FARTHEST = 1.0
"""Growth of a scale, in steps, up to which what is known of the curvature is used."""


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

    def roots(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.exp(np.asarray(self.log_scale)), np.empty((self.dim, 0))

    @property
    def step_dim(self) -> int:
        return 2 * self.dim

    def displaced(self, step: jax.Array, directions: jax.Array) -> Self:
        # Near the optimum of a Gaussian posterior the curvature in log_scale is 2: sqrt(2) makes
        # it 1 along every entry of the step.
        shift, growth = step[: self.dim], step[self.dim :] / jnp.sqrt(2.0)
        return type(self)(moved(self.loc, shift, directions), self.log_scale + growth)

    def correction(self, step: jax.Array, excess: jax.Array) -> jax.Array | float:
        growth = jnp.clip(step[self.dim :], -FARTHEST, FARTHEST) / jnp.sqrt(2.0)
        sd = jnp.exp(self.log_scale + growth)
        return 0.5 * sd @ excess @ sd

    def chart(self, directions: Any) -> Chart:
        if type(self) is not MeanField:
            return super().chart(directions)  # another class may draw in another way
        from vicheck.vi.charts.mean_field import MeanFieldChart

        anchors = (np.asarray(part) for part in (self.loc, self.log_scale, directions))
        return MeanFieldChart(type(self), *anchors)
