"""Fixed standard normal noise for the deterministic solver: antithetic, from scrambled Sobol."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import ndtri
from numpy.typing import ArrayLike
from scipy.stats.qmc import Sobol

from vicheck.model import double_precision

__all__ = ["CHUNK", "Noise", "make_noise", "standardised"]

CHUNK = 32
"""Draws that are evaluated together: half of them noise, the other half its negative."""

_MAX_SOBOL_DIM = 1000
"""Above it, pseudo-random numbers: a few hundred Sobol points are no better, and cost more."""

_LEAST = 1e-12
"""No point is closer to a face of the cube, where normal numbers are infinite."""


class Noise(NamedTuple):
    """Points in the unit cube, and a shift of them, modulo 1, that makes a set of its own.

    Sets with different shifts are independent of each other as far as averages over them go; the
    points are kept, because making them costs more than a fit.
    """

    points: Any
    """Shape ``(chunks, CHUNK / 2, dim)``."""
    shift: Any
    """Shape ``(..., dim)``."""

    def normal(self, chunk: Any) -> jax.Array:
        """Return one chunk of standard normal numbers; its negative belongs to it."""
        return ndtri(jnp.clip((self.points[chunk] + self.shift) % 1.0, _LEAST, 1.0 - _LEAST))


def make_noise(num_draws: int, dim: int, seeds: ArrayLike) -> Noise:
    """Return noise for a number of draws, and a shift for each seed.

    Half of the draws mirror the others. The chunks of a short set are the first of a longer one, so
    that doubling the draws keeps the existing ones.
    """
    seeds = np.asarray(seeds)
    shifts = [np.random.default_rng((int(seed), dim)).random(dim) for seed in seeds.ravel()]
    return Noise(
        _points(num_draws // 2, dim),
        np.stack(shifts).reshape(*seeds.shape, dim),
    )


def standardised(noise: Noise, num_chunks: Any, pairs: bool = True) -> jax.Array:
    """Return chunks of normal numbers with unit second moments: exactly one for each coordinate.

    When there are four times as many draws as coordinates, half of them mirrored, the moments of
    ``pairs`` are made zero too. On such noise the optimum for a Gaussian posterior is found
    exactly. The cost does not depend on the chunks that are not used; they become zero.
    """
    dim, half = noise.points.shape[-1], noise.points.shape[1]
    count = num_chunks * half

    def each(of_chunk: Callable[[Any], jax.Array]) -> jax.Array:
        return lax.fori_loop(
            0,
            num_chunks,
            lambda i, done: done.at[i].set(of_chunk(i)),
            jnp.zeros(noise.points.shape, noise.shift.dtype),
        )

    normal = each(noise.normal)

    def total(of_chunk: Callable[[jax.Array], jax.Array], shape: tuple[int, ...]) -> jax.Array:
        start = jnp.zeros(shape, normal.dtype)
        return lax.fori_loop(0, num_chunks, lambda i, so_far: so_far + of_chunk(normal[i]), start)

    def scaled() -> jax.Array:
        squares = total(lambda chunk: jnp.square(chunk).sum(0), (dim,)) / count
        return each(lambda i: normal[i] / jnp.sqrt(squares))

    def whitened() -> jax.Array:
        moments = total(lambda chunk: chunk.T @ chunk, (dim, dim)) / count
        identity = jnp.eye(dim, dtype=normal.dtype)
        inverse = solve_triangular(jnp.linalg.cholesky(moments), identity, lower=True)
        return each(lambda i: normal[i] @ inverse.T)

    if not pairs:
        return scaled()
    return lax.cond(count >= 2 * dim, whitened, scaled)


@lru_cache(maxsize=4)
def _points(num_points: int, dim: int) -> jax.Array:
    """Return the points, in chunks, as arrays that compiled code reads without copying."""
    rng = np.random.default_rng(0)
    if dim > _MAX_SOBOL_DIM:
        points = rng.random((num_points, dim))
    else:
        points = Sobol(dim, rng=rng).random(num_points)
    with double_precision():
        return jax.device_put(points.reshape(-1, CHUNK // 2, dim))
