"""Mean, sds and covariance of any approximation: in closed form, or estimated from draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from vicheck.vi.families.abilities import HasMoments
from vicheck.vi.families.family import Family

__all__ = ["MOMENT_DRAWS", "covariance_of", "mean_and_sd", "mean_of", "normal_of", "sd_of"]

MOMENT_DRAWS = 2**14
"""Draws that moments without a closed form are estimated from: about 1% of error for an sd."""
_CHUNK = 2**8
"""Draws that are held at a time; half of them mirror the others. A solver, which asks again and
again and compares one answer with the next, uses no more."""


def mean_and_sd(q: Family, num_draws: int = _CHUNK) -> tuple[jax.Array, jax.Array]:
    """Return mean and standard deviation of each coordinate.

    Parameters
    ----------
    q
        The approximation.
    num_draws
        Draws to use where there is no closed form: always made from the same noise, so that the
        estimates are smooth functions of q's parameters.
    """
    if isinstance(q, HasMoments):
        return q.mean, q.sd
    mean, square = _estimated(_squares, num_draws, q)
    return mean, jnp.sqrt(square)


def mean_of(q: Family) -> jax.Array:
    """Return the mean of each coordinate, from `MOMENT_DRAWS` draws where there is no formula."""
    return mean_and_sd(q, MOMENT_DRAWS)[0]


def sd_of(q: Family) -> jax.Array:
    """Return the standard deviations, from `MOMENT_DRAWS` draws where there is no formula."""
    return mean_and_sd(q, MOMENT_DRAWS)[1]


def covariance_of(q: Family) -> jax.Array:
    """Return the covariance matrix, from `MOMENT_DRAWS` draws where there is no formula."""
    if isinstance(q, HasMoments):
        return q.covariance()
    return _estimated(_cross_products, MOMENT_DRAWS, q)[1]


def normal_of(mean: NDArray[np.float64], covariance: NDArray[np.float64]) -> Family:
    """Return the normal with a mean and a covariance matrix."""
    from vicheck.vi.families.full_rank import FullRank

    return FullRank(jnp.asarray(mean), jnp.asarray(np.linalg.cholesky(covariance)))


def _cross_products(rows: jax.Array) -> jax.Array:
    return rows.T @ rows


def _squares(rows: jax.Array) -> jax.Array:
    return jnp.square(rows).sum(axis=0)


@partial(jax.jit, static_argnums=(0, 1))
def _estimated(
    products: Callable[[jax.Array], jax.Array], num_draws: int, q: Family
) -> tuple[jax.Array, jax.Array]:
    """Return the mean of draws, and the mean product of their deviations from it."""

    def rows(key: jax.Array) -> jax.Array:
        half = jax.random.normal(key, (_CHUNK // 2, q.noise_dim), float)
        return jax.vmap(q.transform)(jnp.concatenate([half, -half]))

    keys = jax.random.split(jax.random.key(0), num_draws // _CHUNK)
    mean = lax.map(lambda key: rows(key).sum(axis=0), keys).sum(axis=0) / num_draws
    # Draws are made a second time, not kept; deviations from the mean lose no digits.
    total = lax.map(lambda key: products(rows(key) - mean), keys).sum(axis=0)
    return mean, total / num_draws
