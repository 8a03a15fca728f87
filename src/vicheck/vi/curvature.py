"""The curvature of a posterior: where a fit starts, and in which units it moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from vicheck.model import Data, Program

__all__ = ["FLATTEST", "MAX_DENSE_DIM", "Curvature", "climb"]

MAX_DENSE_DIM = 256
"""Up to this dimension the whole Hessian is used, above it an estimate of its diagonal."""

FLATTEST = 1e-10
"""Second derivatives below it are raised to it where no better bound is known."""
_PROBES = 8
_FRACTIONS = 4.0 ** -np.arange(8.0)
"""A Newton step is tried whole and in these parts."""
_TOGETHER = 16
"""Columns of a Hessian that are computed together."""
_LEAST_GAIN = 1e-3
"""In nats; Newton's method ends there, because variational inference goes on from it."""


class Curvature(NamedTuple):
    """Size of the second derivatives of ``-log_p``, made positive."""

    directions: Any
    """A root of the inverse Hessian, ``(d, d)``, or the roots of its diagonal, ``(d,)``."""
    precisions: Any
    """Diagonal of the Hessian."""


class _Climb(NamedTuple):
    z: jax.Array
    value: jax.Array
    curvature: Curvature
    newton: jax.Array
    gain: jax.Array
    num_steps: jax.Array


def climb(
    program: Program, z: jax.Array, data: Data, max_steps: Any, floor: Any
) -> tuple[jax.Array, Curvature]:
    """Climb the log density from z by damped Newton steps; return the end and the curvature there.

    The end need not be a mode: the climb stops after ``max_steps``, and where no step gains. No
    steps at all give the curvature at z. Second derivatives below ``floor`` are raised to it: where
    the density is flat, its curvature says nothing about scales.
    """

    def unfinished(state: _Climb) -> jax.Array:
        return (state.num_steps <= max_steps) & (state.gain > _LEAST_GAIN)

    def advance(state: _Climb) -> _Climb:
        # The first round finds no step to try, only the curvature: compiled code is half as long.
        trials = state.z + _FRACTIONS[:, None] * state.newton
        values = jax.vmap(program.log_density, (0, None))(trials, data)
        values = jnp.where(jnp.isfinite(values), values, -jnp.inf)
        best = jnp.argmax(values)
        better = values[best] > state.value
        z = jnp.where(better, trials[best], state.z)
        gradient, curvature = _gradient_and_curvature(program, z, data, floor)
        roots = curvature.directions
        newton = -(roots**2 * gradient if roots.ndim == 1 else roots @ (roots.T @ gradient))
        gain = jnp.where(state.num_steps == 0, jnp.inf, values[best] - state.value)
        value = jnp.maximum(state.value, values[best])
        return _Climb(z, value, curvature, newton, gain, state.num_steps + 1)

    roots = jnp.zeros((z.size,) if z.size > MAX_DENSE_DIM else (z.size, z.size), z.dtype)
    start = _Climb(
        z=z,
        value=jnp.array(-jnp.inf, z.dtype),
        curvature=Curvature(roots, jnp.zeros_like(z)),
        newton=jnp.zeros_like(z),
        gain=jnp.array(jnp.inf, z.dtype),
        num_steps=jnp.array(0),
    )
    end = lax.while_loop(unfinished, advance, start)
    return end.z, end.curvature


def _gradient_and_curvature(
    program: Program, z: jax.Array, data: Data, floor: Any
) -> tuple[jax.Array, Curvature]:
    """Return the gradient of ``-log_p`` and the size of its second derivatives.

    Negative curvature counts by its size: what matters is the scale on which the density changes.
    """
    slope = jax.grad(lambda at: -program.log_density(at, data))
    if z.size > MAX_DENSE_DIM:
        probes = jax.random.rademacher(jax.random.key(0), (_PROBES, z.size), z.dtype)
        gradient, product = jax.linearize(slope, z)
        diagonal = _bounded(
            lax.map(lambda probe: probe * product(probe), probes).mean(axis=0), floor
        )
        return gradient, Curvature(1.0 / jnp.sqrt(diagonal), diagonal)
    gradient, product = jax.linearize(slope, z)
    hessian = _finite(_rows(product, z.size, z.dtype))
    # Scaled to a unit diagonal first: parameters may differ by many orders of magnitude.
    diagonal = _bounded(jnp.diagonal(hessian), floor)
    hessian = jnp.where(jnp.eye(z.size, dtype=bool), diagonal, hessian)
    scale = jnp.sqrt(diagonal)
    values, vectors = jnp.linalg.eigh(hessian / jnp.outer(scale, scale))
    values = jnp.maximum(jnp.abs(values), 1e-12)
    directions = vectors / jnp.sqrt(values) / scale[:, None]
    precisions = scale**2 * (vectors**2 @ values)
    return gradient, Curvature(directions, precisions)


def _rows(product: Callable[[jax.Array], jax.Array], size: int, dtype: Any) -> jax.Array:
    """Return the rows of a matrix from its products, some at a time: many would not fit a cache."""
    if size <= 2 * _TOGETHER:
        return jax.vmap(product)(jnp.eye(size, dtype=dtype))
    num_blocks = -(-size // _TOGETHER)
    units = jnp.eye(num_blocks * _TOGETHER, size, dtype=dtype)
    rows = lax.map(jax.vmap(product), units.reshape(num_blocks, _TOGETHER, size))
    return rows.reshape(-1, size)[:size]


def _bounded(diagonal: jax.Array, floor: Any) -> jax.Array:
    return jnp.maximum(jnp.abs(_finite(diagonal)), floor)


def _finite(array: jax.Array) -> jax.Array:
    return jnp.where(jnp.isfinite(array), array, 0.0)
