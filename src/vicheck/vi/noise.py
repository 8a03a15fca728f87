"""Fixed standard normal noise for the deterministic solver: antithetic, from scrambled Sobol."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular
from numpy.typing import ArrayLike, NDArray

__all__ = ["CHUNK", "base_noise", "standardised"]

Floats = NDArray[np.float64]

CHUNK = 32
"""Draws that are evaluated together: half of them noise, the other half its negative."""

_MAX_SOBOL_DIM = 1000
"""Above it, pseudo-random numbers: a few hundred points of Sobol cover no better, and cost more."""

_MAX_WHITENED_DIM = 256


def base_noise(num_draws: int, dim: int, seeds: ArrayLike) -> Floats:
    """Return half the noise, in chunks: shape ``(..., num_draws / CHUNK, CHUNK / 2, dim)``.

    The other half is its negative. The chunks of a short set begin those of a longer one, so that
    doubling the draws keeps the ones there are. Several seeds give sets that are independent.
    """
    half, seeds = num_draws // 2, np.asarray(seeds)
    generators = [np.random.default_rng((int(seed), dim)) for seed in seeds.ravel()]
    if dim <= _MAX_SOBOL_DIM:
        from scipy.special import ndtri

        # A random shift, modulo 1, of the scrambled points makes sets of different seeds
        # independent; the points themselves are kept, because making them costs more than a fit.
        shifts = np.stack([rng.random(dim) for rng in generators])
        points = (_sobol_points(half, dim) + shifts[:, None]) % 1.0
        noise = ndtri(np.clip(points, 1e-12, 1.0 - 1e-12))
    else:
        noise = np.stack([rng.standard_normal((half, dim)) for rng in generators])
    return np.asarray(noise.reshape(*seeds.shape, -1, CHUNK // 2, dim))


def standardised(noise: jax.Array, num_chunks: Any) -> jax.Array:
    """Give the first chunks of noise unit second moments: exactly one for each coordinate.

    When there are more than twice as many draws as coordinates, the moments of pairs are made zero
    too. On such noise the optimum for a Gaussian posterior is found exactly. The cost does not
    depend on the chunks that are not used; they become zero.
    """
    dim, count = noise.shape[-1], num_chunks * noise.shape[1]

    def total(of_chunk: Callable[[jax.Array], jax.Array], start: jax.Array) -> jax.Array:
        return lax.fori_loop(0, num_chunks, lambda i, so_far: so_far + of_chunk(noise[i]), start)

    def each(of_chunk: Callable[[jax.Array], jax.Array]) -> jax.Array:
        return lax.fori_loop(
            0, num_chunks, lambda i, done: done.at[i].set(of_chunk(noise[i])), jnp.zeros_like(noise)
        )

    def scaled() -> jax.Array:
        squares = total(lambda chunk: jnp.square(chunk).sum(0), jnp.zeros(dim, noise.dtype))
        return each(lambda chunk: chunk / jnp.sqrt(squares / count))

    def whitened() -> jax.Array:
        moments = total(lambda chunk: chunk.T @ chunk, jnp.zeros((dim, dim), noise.dtype)) / count
        identity = jnp.eye(dim, dtype=noise.dtype)
        inverse = solve_triangular(jnp.linalg.cholesky(moments), identity, lower=True)
        return each(lambda chunk: chunk @ inverse.T)

    if dim > _MAX_WHITENED_DIM:
        return scaled()
    return lax.cond(count >= 2 * dim, whitened, scaled)


@lru_cache(maxsize=8)
def _sobol_points(num_points: int, dim: int) -> Floats:
    from scipy.stats.qmc import Sobol

    return np.asarray(Sobol(dim, rng=np.random.default_rng(0)).random(num_points))
