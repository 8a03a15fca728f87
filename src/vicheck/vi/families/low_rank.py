"""Low rank plus diagonal: correlations along a few directions, at a cost linear in dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_factor, cho_solve
from numpy.typing import NDArray

from vicheck.vi.families.family import moved
from vicheck.vi.families.gaussian import LOG_2PI, Gaussian

if TYPE_CHECKING:
    from vicheck.vi.charts.chart import Chart
    from vicheck.vi.curvature import Curvature

__all__ = ["LowRank"]

Floats = NDArray[np.float64]


class LowRank(Gaussian):
    """Normal with mean ``loc`` and covariance ``diag(exp(2 log_diagonal)) + factor @ factor.T``."""

    loc: jax.Array
    log_diagonal: jax.Array
    factor: jax.Array

    @classmethod
    def start(cls, z: Any, curvature: Curvature, shrink: Any = 1.0, rank: int = 1) -> Self:
        scale = shrink / np.sqrt(curvature.precisions)
        roots = shrink * np.asarray(curvature.directions)
        return cls(z, np.log(scale), _widest(roots, scale, rank))

    @property
    def num_fixed_draws(self) -> int:
        # Where dimensions are too many to be spanned, the draws span the factor.
        return 4 * (self.noise_dim if self.is_dense(self.dim) else 2 * self.rank)

    @property
    def rank(self) -> int:
        """Number of columns of ``factor``."""
        return int(self.factor.shape[-1])

    @property
    def noise_dim(self) -> int:
        return self.dim + self.rank

    @property
    def sd(self) -> jax.Array:
        return jnp.sqrt(jnp.exp(2.0 * self.log_diagonal) + jnp.square(self.factor).sum(axis=-1))

    def transform(self, noise: jax.Array) -> jax.Array:
        own, shared = noise[: self.dim], noise[self.dim :]
        return self.loc + jnp.exp(self.log_diagonal) * own + self.factor @ shared

    def log_prob(self, z: jax.Array) -> jax.Array:
        # Woodbury: with V = D^-1 F the precision is D^-1 (I - V (I + V'V)^-1 V') D^-1.
        whitened, inner = self._whitened()
        deviation = (z - self.loc) * jnp.exp(-self.log_diagonal)
        projected = whitened.T @ deviation
        square = deviation @ deviation - projected @ cho_solve(inner, projected)
        return -0.5 * (square + self.dim * LOG_2PI) - self._log_det(inner)

    def _whitened(self) -> tuple[jax.Array, tuple[jax.Array, bool]]:
        whitened = self.factor * jnp.exp(-self.log_diagonal)[:, None]
        return whitened, cho_factor(jnp.eye(self.rank) + whitened.T @ whitened, lower=True)

    def _log_det(self, inner: tuple[jax.Array, bool]) -> jax.Array:
        return self.log_diagonal.sum() + jnp.log(jnp.diagonal(inner[0])).sum()

    def entropy(self) -> jax.Array:
        return 0.5 * self.dim * (1.0 + LOG_2PI) + self._log_det(self._whitened()[1])

    def covariance(self) -> jax.Array:
        return jnp.diag(jnp.exp(2.0 * self.log_diagonal)) + self.factor @ self.factor.T

    def roots(self) -> tuple[Floats, Floats]:
        return np.exp(np.asarray(self.log_diagonal)), np.asarray(self.factor)

    @property
    def step_dim(self) -> int:
        return self.dim * (2 + self.rank)

    def displaced(self, step: jax.Array, directions: jax.Array) -> Self:
        shift, growth, change = jnp.split(step, [self.dim, 2 * self.dim])
        scale = jnp.exp(self.log_diagonal)[:, None]
        return type(self)(
            moved(self.loc, shift, directions),
            self.log_diagonal + growth / jnp.sqrt(2.0),
            self.factor + scale * change.reshape(self.dim, self.rank),
        )

    def chart(self, directions: Any) -> Chart:
        if type(self) is not LowRank:
            return super().chart(directions)  # another class may draw in another way
        from vicheck.vi.charts.low_rank import LowRankChart

        parts = (self.loc, self.log_diagonal, self.factor, directions)
        return LowRankChart(type(self), *(np.asarray(part) for part in parts))


def _widest(roots: Floats, scale: Floats, rank: int) -> Any:
    """Return the directions in which the posterior is widest, compared with its own scales."""
    if roots.ndim == scale.ndim:
        # No directions are known. Zero would be a saddle point, so a little of everything.
        noise = np.random.default_rng(0).standard_normal((scale.shape[-1], rank))
        return np.asarray(0.1 * scale[..., None] * noise / np.sqrt(rank))
    widths = np.square(roots / scale[..., None]).sum(axis=-2)
    widest = np.argsort(-widths, axis=-1)[..., None, :rank]
    return np.take_along_axis(roots, widest, axis=-1)
