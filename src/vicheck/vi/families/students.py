"""Mixtures of Student's t, each of them split along its axes: what a rescue draws from.

A split t (Geweke 1989) has two scales along each of its axes, one up and one down, so that it can
be skewed; with equal ones it is the usual multivariate t. No solver fits them: they are built from
weighted draws, and held against the posterior by importance sampling.
"""

from __future__ import annotations

from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, ndtr
from numpy.typing import NDArray

from vicheck.vi.families.abilities import HasMoments
from vicheck.vi.families.family import Family

__all__ = ["LEAST_DF", "MOST_DF", "Students"]

Floats = NDArray[np.float64]

LEAST_DF, MOST_DF = 3.0, 1000.0
"""Degrees of freedom of a part: with fewer it has no variance, with more it is all but normal."""


class Students(Family, HasMoments):
    """A mixture of split t distributions of z: ``z = loc + root @ x``, with x split by its signs.

    All arrays have a leading axis over the parts. Noise has two numbers beyond those of z: the
    last but one says which part a draw comes from, and the last is the factor that makes a normal
    draw one of a t.
    """

    locs: jax.Array
    roots: jax.Array
    inverses: jax.Array
    """Of the roots, so that no system has to be solved for a density."""
    log_dets: jax.Array
    """Of the roots."""
    ups: jax.Array
    """Scale of each entry of x where it is positive."""
    downs: jax.Array
    """Scale where it is negative."""
    dfs: jax.Array
    parts: jax.Array
    """Positive, with sum 1."""

    @classmethod
    def made_of(
        cls, locs: Any, roots: Any, dfs: Any, parts: Any, ups: Any = None, downs: Any = None
    ) -> Self:
        """Return the mixture with these locations, roots ``(k, d, d)``, df and parts.

        Scales up and down are ones by default.
        """
        roots, parts = np.asarray(roots, np.float64), np.asarray(parts, np.float64)
        ones = np.ones(np.shape(locs))
        arrays: dict[str, Any] = {
            "locs": np.asarray(locs, np.float64),
            "roots": roots,
            "inverses": np.linalg.inv(roots),
            "log_dets": np.linalg.slogdet(roots)[1],
            "ups": ones if ups is None else np.asarray(ups, np.float64),
            "downs": ones if downs is None else np.asarray(downs, np.float64),
            "dfs": np.clip(np.asarray(dfs, np.float64), LEAST_DF, MOST_DF),
            "parts": parts / parts.sum(),
        }
        return cls(**arrays)

    @property
    def dim(self) -> int:
        return int(self.locs.shape[-1])

    @property
    def noise_dim(self) -> int:
        return self.dim + 2

    def transform(self, noise: jax.Array) -> jax.Array:
        normal, stretch = noise[: self.dim], noise[-1]
        part = self._part_of(noise[-2])
        loc, root, up, down = (
            jnp.take(array, part, axis=0) for array in (self.locs, self.roots, self.ups, self.downs)
        )
        return loc + root @ (stretch * jnp.where(normal > 0.0, up, down) * normal)

    def log_prob(self, z: jax.Array) -> jax.Array:
        x = jnp.einsum("kij,kj->ki", self.inverses, z - self.locs)
        side = jnp.where(x > 0.0, self.ups, self.downs)
        square = jnp.square(x / side).sum(axis=1)
        log_volume = jnp.log(side).sum(axis=1) + self.log_dets
        half = 0.5 * (self.dfs + self.dim)
        log_t = (
            gammaln(half)
            - gammaln(0.5 * self.dfs)
            - 0.5 * self.dim * jnp.log(jnp.pi * self.dfs)
            - half * jnp.log1p(square / self.dfs)
        )
        log_probs: jax.Array = jax.nn.logsumexp(log_t - log_volume, b=self.parts)
        return log_probs

    def draw_noise(self, rng: np.random.Generator, num_draws: int) -> Floats:
        from scipy.special import ndtri

        normal = rng.standard_normal((num_draws, self.dim))
        parts = np.asarray(self.parts)
        part = rng.choice(len(parts), size=num_draws, p=parts / parts.sum())
        df = np.asarray(self.dfs)[part]
        middles = np.cumsum(parts) - 0.5 * parts
        return np.column_stack([normal, ndtri(middles[part]), np.sqrt(df / rng.chisquare(df))])

    def sample_and_log_prob(self, key: jax.Array, num_draws: int) -> tuple[jax.Array, jax.Array]:
        keys = jax.random.split(key)
        noise = jax.random.normal(keys[0], (num_draws, self.dim + 1), float)
        df = jnp.take(self.dfs, jax.vmap(self._part_of)(noise[:, -1]))
        stretch = jnp.sqrt(0.5 * df / jax.random.gamma(keys[1], 0.5 * df))
        return jax.vmap(self.transform_and_log_prob)(jnp.column_stack([noise, stretch]))

    def _part_of(self, noise: jax.Array) -> jax.Array:
        """Return which part a draw comes from, by a normal number."""
        inner_ends = jnp.cumsum(self.parts)[:-1]
        return jnp.searchsorted(inner_ends, ndtr(noise), side="right")

    @property
    def mean(self) -> jax.Array:
        return self.parts @ self._means()

    @property
    def sd(self) -> jax.Array:
        return jnp.sqrt(jnp.diagonal(self.covariance()))

    def covariance(self) -> jax.Array:
        apart = self._means() - self.mean
        # Entries of x are independent but for the factor that they share.
        first, second = self._factors()
        lean = (self.ups - self.downs) / jnp.sqrt(2.0 * jnp.pi)
        own = second[:, None] * (
            0.5 * (jnp.square(self.ups) + jnp.square(self.downs)) - jnp.square(lean)
        )
        shared = second - jnp.square(first)
        within = jnp.einsum("kij,kj,klj->kil", self.roots, own, self.roots)
        along = jnp.einsum("kij,kj->ki", self.roots, lean)
        within += shared[:, None, None] * along[:, :, None] * along[:, None, :]
        spread = apart[:, :, None] * apart[:, None, :]
        return jnp.einsum("k,kij->ij", self.parts, within + spread)

    def _means(self) -> jax.Array:
        lean = (self.ups - self.downs) / jnp.sqrt(2.0 * jnp.pi)
        return self.locs + self._factors()[0][:, None] * jnp.einsum("kij,kj->ki", self.roots, lean)

    def _factors(self) -> tuple[jax.Array, jax.Array]:
        """Return mean and mean square of the factor ``sqrt(df / chi-square)``."""
        half = 0.5 * self.dfs
        first = jnp.sqrt(half) * jnp.exp(gammaln(half - 0.5) - gammaln(half))
        return first, self.dfs / (self.dfs - 2.0)
