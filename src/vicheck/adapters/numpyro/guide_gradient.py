"""Whether a guide is at an optimum of the ELBO: a test, on fresh draws, of its gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vicheck.adapters.gradient_test import STREAM, judged_gradient
from vicheck.indexing import Indexing
from vicheck.model import Data, double_precision
from vicheck.results.convergence import GradientTest
from vicheck.runtime.compiling import compiled

if TYPE_CHECKING:
    from vicheck.adapters.numpyro.guides import Guide

__all__ = ["gradient_of_guide"]

_DRAWS = 1024
"""As for fits of vicheck's own."""
_NUMBERS = 2**21
"""Numbers in the gradients that are held at a time."""


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
        key = jax.random.fold_in(jax.random.key(seed), STREAM)
        keys = jax.random.split(key, _DRAWS)
        places = np.asarray(_places(guide, keys, params, data))
        sd = places.std(axis=0)
        noise = np.random.default_rng((seed, STREAM)).standard_normal(places.shape)
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
    error = np.sqrt(np.maximum(square - mean**2, 0.0) / (_DRAWS - 1))
    return judged_gradient(mean, error, np.sqrt(moved), names, _DRAWS)


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
