"""Full rank: a normal with any covariance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from numpy.typing import NDArray

from vicheck.vi.families.gaussian import LOG_2PI, Gaussian

if TYPE_CHECKING:
    from vicheck.vi.charts.chart import Chart
    from vicheck.vi.curvature import Curvature

__all__ = ["FullRank"]


class FullRank(Gaussian):
    """Normal with mean ``loc`` and covariance ``scale_tril @ scale_tril.T``."""

    loc: jax.Array
    scale_tril: jax.Array

    @classmethod
    def start(cls, z: Any, curvature: Curvature, shrink: Any = 1.0) -> Self:
        return cls(z, _lower_triangular(shrink * np.asarray(curvature.directions)))

    @classmethod
    def is_dense(cls, dim: int) -> bool:
        return True

    @classmethod
    def needs_directions(cls) -> bool:
        return False  # its mean moves along the columns of its own scale

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

    def roots(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.empty(0), np.asarray(self.scale_tril)

    @property
    def step_dim(self) -> int:
        return self.dim + self.dim * (self.dim + 1) // 2

    def displaced(self, step: jax.Array, directions: jax.Array) -> Self:
        # In the basis of its own scale every direction has standard deviation 1, so `directions`
        # is not needed; a product of lower triangular matrices is lower triangular.
        del directions
        shift, change = step[: self.dim], step[self.dim :]
        rows, columns = np.tril_indices(self.dim, -1)
        factor = jnp.zeros((self.dim, self.dim), step.dtype)
        # Without a promise XLA looks at each index while it compiles: seconds for many parameters.
        factor = factor.at[rows, columns].set(change[self.dim :], mode="promise_in_bounds")
        factor += jnp.diag(jnp.exp(change[: self.dim] / jnp.sqrt(2.0)))
        return type(self)(self.loc + self.scale_tril @ shift, self.scale_tril @ factor)

    def chart(self, directions: Any) -> Chart:
        if type(self) is not FullRank:
            return super().chart(directions)  # another class may draw in another way
        from vicheck.vi.charts.full_rank import FullRankChart

        return FullRankChart(type(self), np.asarray(self.loc), np.asarray(self.scale_tril))

    def projected(self, gradient: Self) -> Self:
        return type(self)(gradient.loc, jnp.tril(gradient.scale_tril))

    def entry_name(
        self, entry: int, gradient: NDArray[np.float64], coordinates: tuple[str, ...]
    ) -> str:
        if entry < self.dim:
            moves = np.asarray(self.scale_tril) @ gradient[: self.dim] / np.asarray(self.sd)
            entry = int(np.argmax(np.abs(moves)))
        return super().entry_name(entry, gradient, coordinates)


def _lower_triangular(roots: NDArray[np.float64]) -> Any:
    """Return the Cholesky factor of ``roots @ roots.T`` without forming that product."""
    if roots.ndim == 1:
        return np.diag(roots)
    lower = np.swapaxes(np.linalg.qr(np.swapaxes(roots, -1, -2), mode="r"), -1, -2)
    return np.asarray(lower * np.sign(np.diagonal(lower, axis1=-2, axis2=-1))[..., None, :])
