"""The objective of variational inference on fixed noise: minus the ELBO, and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from vicheck.model import Data, Program
from vicheck.vi.families.abilities import entropy_of
from vicheck.vi.families.family import Family

__all__ = ["objective_of_step"]


def objective_of_step(
    program: Program,
    anchor: Family,
    directions: jax.Array,
    noise: jax.Array,
    num_chunks: Any,
    data: Data,
) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """Return the negative ELBO and its gradient as a function of a step away from the anchor.

    ``noise`` has shape ``(chunks, n, k)``, of which the first ``num_chunks`` are used, each draw
    with its negative: their number can change without compiling again, and memory does not grow
    with it.
    """

    def of_chunk(step: jax.Array, half: jax.Array) -> jax.Array:
        q = anchor.displaced(step, directions)
        chunk = jnp.concatenate([half, -half])
        energies = -jax.vmap(lambda e: program.log_density(q.transform(e), data))(chunk)
        return energies.mean() - entropy_of(q, chunk)

    def value_and_grad(step: jax.Array) -> tuple[jax.Array, jax.Array]:
        def add(index: Any, total: Any) -> Any:
            part = jax.value_and_grad(of_chunk)(step, noise[index])
            return jax.tree.map(jnp.add, total, part)

        zero = (jnp.zeros((), step.dtype), jnp.zeros_like(step))
        total = lax.fori_loop(0, num_chunks, add, zero)
        return jax.tree.map(lambda part: part / num_chunks, total)

    return value_and_grad
