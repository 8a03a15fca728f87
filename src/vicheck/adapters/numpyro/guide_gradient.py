"""Whether a guide is at an optimum of the ELBO: a test, on fresh draws, of its gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vicheck.indexing import Indexing
from vicheck.model import Data, double_precision
from vicheck.results.convergence import GradientTest
from vicheck.runtime.compiling import compiled

if TYPE_CHECKING:
    from vicheck.adapters.numpyro.guides import Guide

__all__ = ["UNTESTED", "gradient_of_guide"]

_DRAWS, _TOLERANCE = 1024, 0.1
"""As for fits of vicheck's own."""
_NUMBERS = 2**21
"""Numbers in the gradients that are held at a time."""
_STREAM = 7
"""Folded into the key: other draws than those that are checked."""
_NO_EFFECT = 1e-9
"""Parameters that move q by less than this part of what the others do are left out."""

UNTESTED = GradientTest(math.nan, math.nan, _TOLERANCE, "", num_draws=0)
"""For a guide whose draws have no derivatives."""


def gradient_of_guide(
    guide: Guide, params: Mapping[str, Any], data: Data, seed: int
) -> GradientTest:
    """Test whether the ELBO has zero gradient with respect to a guide's parameters.

    A parameter is measured by how far it moves draws, in sds of q on the unconstrained scale, so
    that an entry is about the distance from the optimum in these units, as for vicheck's own fits.
    The null hypothesis is that no entry exceeds the tolerance of 0.1.
    """
    free = {
        name: value
        for name, value in params.items()
        if jnp.issubdtype(jnp.result_type(value), jnp.floating)
    }
    with double_precision():
        key = jax.random.fold_in(jax.random.key(seed), _STREAM)
        keys = jax.random.split(key, _DRAWS)
        places = np.asarray(_places(guide, keys, params, data))
        sd = places.std(axis=0)
        noise = np.random.default_rng((seed, _STREAM)).standard_normal(places.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            pulls = np.where(sd > 0.0, noise / sd, 0.0)
        size = sum(int(np.size(value)) for value in free.values())
        # A power of 2 divides the draws: all pieces are of one shape, and compiled once.
        width = 2 ** int(np.log2(max(2, min(_DRAWS, _NUMBERS // max(1, size)))))
        sums = np.zeros((3, size))
        for start in range(0, _DRAWS, width):
            rows = slice(start, start + width)
            sums += np.asarray(_slopes(guide, keys[rows], pulls[rows], free, params, data))
    mean, square, moved = sums / _DRAWS
    names = Indexing.PYTHON.labels({name: np.shape(free[name]) for name in sorted(free)})
    return _judged(mean, square, np.sqrt(moved), names)


def _judged(mean: Any, square: Any, scale: Any, names: tuple[str, ...]) -> GradientTest:
    if not np.isfinite([mean, square, scale]).all():
        return GradientTest(math.nan, math.nan, _TOLERANCE, "", _DRAWS)
    moving = scale > _NO_EFFECT * scale.max(initial=0.0)
    if not moving.any():
        return UNTESTED
    names = tuple(name for name, moves in zip(names, moving, strict=True) if moves)
    error = np.sqrt(np.maximum(square - mean**2, 0.0) / (_DRAWS - 1))[moving] / scale[moving]
    mean = np.abs(mean[moving]) / scale[moving]
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(mean > _TOLERANCE, (mean - _TOLERANCE) / error, -np.inf)
    worst = int(np.argmax(mean))
    p_value = min(1.0, mean.size * math.erfc(float(excess.max()) / math.sqrt(2.0)))
    return GradientTest(float(mean[worst]), p_value, _TOLERANCE, names[worst], _DRAWS)


@compiled()
def _places(guide: Guide, keys: Any, params: Any, data: Data) -> Any:
    return jax.vmap(lambda key: guide.place(key, params, data))(keys)


@compiled()
def _slopes(guide: Guide, keys: Any, pulls: Any, free: Any, params: Any, data: Data) -> Any:
    """Return sums of the gradient, of its squares, and of squares of what each parameter moves.

    Pulls are random directions in sds: the square of what moves along one is, on average, that
    along all.
    """

    def of_one(key: Any, pull: Any) -> tuple[Any, Any]:
        def elbo(some: Any) -> Any:
            log_p, log_q, _ = guide.one(key, {**params, **some}, data)
            return log_p - log_q

        def moved(some: Any) -> Any:
            return guide.place(key, {**params, **some}, data) @ pull

        return ravel_pytree(jax.grad(elbo)(free))[0], ravel_pytree(jax.grad(moved)(free))[0]

    slopes, moves = jax.vmap(of_one)(keys, pulls)
    return jnp.stack([slopes.sum(axis=0), (slopes**2).sum(axis=0), (moves**2).sum(axis=0)])
