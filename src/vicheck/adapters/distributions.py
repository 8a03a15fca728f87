"""Anything that has the methods ``sample`` and ``log_prob``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vicheck.draws import Draws
from vicheck.model import double_precision

__all__ = ["draws_of_distribution", "named"]

Floats = Any
_CHUNK = 4096


def draws_of_distribution(
    q: Any, log_density: Callable[[Any], Any], num_draws: int, seed: int
) -> Draws:
    """Draw from a distribution, with its own density and that of a function."""
    for method in ("sample", "log_prob"):
        if not callable(getattr(q, method, None)):
            raise TypeError(f"q must have a method {method}, which {type(q).__name__} lacks")
    with double_precision():
        draws = _sample(q, jax.random.key(seed), num_draws)
        log_q = np.asarray(q.log_prob(draws), np.float64)
        if log_q.shape != (num_draws,):
            raise ValueError(
                f"q.log_prob must return one number for each of {num_draws} draws, got shape "
                f"{log_q.shape}: make dimensions of the variable events (to_event in NumPyro)"
            )
        log_p = evaluate(log_density, draws, num_draws)
    return Draws(named(draws), log_p, log_q, title=f"{type(q).__name__} (sample and log_prob)")


def evaluate(log_density: Callable[[Any], Any], draws: Any, num_draws: int) -> Any:
    """Return the log density of each draw, in chunks that bound the memory."""
    vectorised = jax.jit(jax.vmap(log_density))
    shape = jax.eval_shape(log_density, jax.tree.map(lambda leaf: leaf[0], draws))
    if getattr(shape, "shape", None) != ():
        raise ValueError(f"log_density must return one number for a draw, got {shape}")
    size = min(_CHUNK, num_draws)
    padded = jax.tree.map(lambda leaf: _padded(np.asarray(leaf), size), draws)
    parts = [
        vectorised(jax.tree.map(lambda leaf: leaf[start : start + size], padded))  # noqa: B023
        for start in range(0, num_draws, size)
    ]
    return np.concatenate([np.asarray(part, np.float64) for part in parts])[:num_draws]


def named(draws: Any) -> dict[str, Any]:
    """Return draws by name: those of a dictionary, or of a tree by the path to each leaf."""
    if isinstance(draws, Mapping) and not any(isinstance(v, Mapping) for v in draws.values()):
        return {name: np.asarray(array, np.float64) for name, array in draws.items()}
    leaves = jax.tree_util.tree_leaves_with_path(draws)
    return {
        (jax.tree_util.keystr(path, simple=True, separator=".") or "x"): np.asarray(leaf, float)
        for path, leaf in leaves
    }


def _sample(q: Any, key: jax.Array, num_draws: int) -> Any:
    names = inspect.signature(q.sample).parameters
    if "seed" in names:  # Distrax and TensorFlow Probability
        return q.sample(seed=key, sample_shape=(num_draws,))
    return q.sample(key, (num_draws,))


def _padded(array: Any, size: int) -> Any:
    """Repeat the last row up to a multiple of the size: compiled code is for one length."""
    lacking = -len(array) % size
    return jnp.concatenate([array, np.repeat(array[-1:], lacking, axis=0)])
