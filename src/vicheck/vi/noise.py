"""Fixed standard normal noise for the deterministic solver: antithetic, from scrambled Sobol."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular
from numpy.typing import NDArray

__all__ = ["CHUNK", "base_noise", "standardised"]

Floats = NDArray[np.float64]

CHUNK = 32
"""Draws that are evaluated together: half of them noise, the other half its negative."""

_MAX_SOBOL_DIM = 1000
"""Above it, pseudo-random numbers: a few hundred points of Sobol cover no better, and cost more."""

_MAX_WHITENED_DIM = 256


def base_noise(num_draws: int, dim: int, seed: int) -> Floats:
    """Return half the noise, in chunks: shape ``(num_draws / CHUNK, CHUNK / 2, dim)``.

    The other half is its negative. The chunks of a short set begin those of a longer one, so that
    doubling the draws keeps the ones there are.
    """
    half = num_draws // 2
    rng = np.random.default_rng((seed, dim))
    if dim <= _MAX_SOBOL_DIM:
        from scipy.special import ndtri

        # A random shift, modulo 1, of the scrambled points makes sets of different seeds
        # independent; the points themselves are kept, because making them costs more than a fit.
        points = (_sobol_points(half, dim) + rng.random(dim)) % 1.0
        noise = ndtri(np.clip(points, 1e-12, 1.0 - 1e-12))
    else:
        noise = rng.standard_normal((half, dim))
    return np.asarray(noise.reshape(-1, CHUNK // 2, dim))


def standardised(noise: jax.Array, num_chunks: Any) -> jax.Array:
    """Give the first chunks of noise unit second moments: exactly one for each coordinate.

    When there are more than twice as many draws as coordinates, the moments of pairs are made zero
    too. On such noise the optimum for a Gaussian posterior is found exactly.
    """
    dim, count = noise.shape[-1], num_chunks * noise.shape[1]
    used = jnp.where((jnp.arange(len(noise)) < num_chunks)[:, None, None], noise, 0.0)
    scaled = noise / jnp.sqrt(jnp.square(used).sum((0, 1)) / count)
    if dim > _MAX_WHITENED_DIM:
        return scaled

    def whitened() -> jax.Array:
        rows = used.reshape(-1, dim)
        factor = jnp.linalg.cholesky(rows.T @ rows / count)
        flat = noise.reshape(-1, dim)
        return solve_triangular(factor, flat.T, lower=True).T.reshape(noise.shape)

    return lax.cond(count >= 2 * dim, whitened, lambda: scaled)


@lru_cache(maxsize=8)
def _sobol_points(num_points: int, dim: int) -> Floats:
    from scipy.stats.qmc import Sobol

    return np.asarray(Sobol(dim, rng=np.random.default_rng(0)).random(num_points))
