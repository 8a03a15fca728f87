"""The curvature of a posterior: where a fit starts, and in which units it moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from vicheck.model import Data, Program
from vicheck.runtime.compiling import is_large
from vicheck.vi.modes import climb_to_mode

__all__ = ["FLATTEST", "Curvature", "climb"]

FLATTEST = 1e-10
"""Second derivatives below it are raised to it where no better bound is known."""
_PROBES = 8
_FRACTIONS = 4.0 ** -np.arange(8.0)
"""Fractions of a Newton step that are tried, the whole step first."""
_TOGETHER = 40
"""Most columns of a Hessian that are computed together: more would not fit a cache."""
_LEAST_GAIN = 1e-3
"""In nats; Newton's method stops there, and variational inference continues."""


class Curvature(NamedTuple):
    """Size of the second derivatives of ``-log_p``, made positive."""

    directions: Any
    """A root of the inverse Hessian, ``(d, d)``, or the roots of its diagonal, ``(d,)``."""
    precisions: Any
    """Diagonal of the Hessian."""


class _Climb(NamedTuple):
    z: jax.Array
    value: jax.Array
    gradient: jax.Array
    """Of ``-log_p``."""
    curvature: Curvature
    gain: jax.Array
    num_steps: jax.Array


def climb(
    program: Program, z: jax.Array, data: Data, max_steps: Any, floor: Any, dense: bool = True
) -> tuple[jax.Array, Curvature]:
    """Climb the log density from z; return the end and the curvature there.

    By damped Newton steps or, where a Hessian costs more than many gradients, by quasi-Newton steps
    between one Hessian and the next. The end need not be a mode: the climb stops after
    ``max_steps``, and where no step gains. No steps at all give the curvature at z. Second
    derivatives below ``floor`` are raised to it: where the density is flat, its curvature says
    nothing about scales. Unless ``dense``, the diagonal of the Hessian is estimated, and no more.
    """
    step = _quasi_newton_steps if dense and is_large(program, data) else _newton_step

    def unfinished(state: _Climb) -> jax.Array:
        return (state.num_steps <= max_steps) & (state.gain > _LEAST_GAIN)

    def advance(state: _Climb) -> _Climb:
        # The first round has no step to try, it computes the curvature: this halves compiled code.
        best, value, arrived = step(program, state, data)
        better = value > state.value
        at = jnp.where(better, best, state.z)
        gradient, curvature = _gradient_and_curvature(program, at, data, floor, dense)
        gain = jnp.where(arrived, 0.0, value - state.value)
        gain = jnp.where(state.num_steps == 0, jnp.inf, gain)
        value = jnp.maximum(state.value, value)
        return _Climb(at, value, gradient, curvature, gain, state.num_steps + 1)

    roots = jnp.zeros((z.size, z.size) if dense else (z.size,), z.dtype)
    start = _Climb(
        z=z,
        value=jnp.array(-jnp.inf, z.dtype),
        gradient=jnp.zeros_like(z),
        curvature=Curvature(roots, jnp.zeros_like(z)),
        gain=jnp.array(jnp.inf, z.dtype),
        num_steps=jnp.array(0),
    )
    end = lax.while_loop(unfinished, advance, start)
    return end.z, end.curvature


def _newton_step(program: Program, state: _Climb, data: Data) -> tuple[jax.Array, jax.Array, Any]:
    """Return the best fraction of a Newton step, the log density there, and False: not a mode."""
    roots = state.curvature.directions
    gradient = state.gradient
    newton = -(roots**2 * gradient if roots.ndim == 1 else roots @ (roots.T @ gradient))
    trials = state.z + _FRACTIONS[:, None] * newton
    values = jax.vmap(program.log_density, (0, None))(trials, data)
    values = jnp.where(jnp.isfinite(values), values, -jnp.inf)
    best = jnp.argmax(values)
    return trials[best], values[best], False


def _quasi_newton_steps(
    program: Program, state: _Climb, data: Data
) -> tuple[jax.Array, jax.Array, Any]:
    """Return a mode or a point on the way, the log density there, and whether it is a mode."""
    end, arrived = climb_to_mode(program, state.z, state.curvature.directions, data)
    value = program.log_density(end, data)
    return end, jnp.where(jnp.isfinite(value), value, -jnp.inf), arrived


def _gradient_and_curvature(
    program: Program, z: jax.Array, data: Data, floor: Any, dense: bool
) -> tuple[jax.Array, Curvature]:
    """Return the gradient of ``-log_p`` and the size of its second derivatives.

    Negative curvature counts by its size: what matters is the scale on which the density changes.
    """
    slope = jax.grad(lambda at: -program.log_density(at, data))
    if not dense:
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
    """Return the rows of a matrix from its products, in blocks of equal size."""
    num_blocks = -(-size // _TOGETHER)
    width = -(-size // num_blocks)
    units = jnp.eye(num_blocks * width, size, dtype=dtype)
    if num_blocks == 1:
        return jax.vmap(product)(units)
    rows = lax.map(jax.vmap(product), units.reshape(num_blocks, width, size))
    return rows.reshape(-1, size)[:size]


def _bounded(diagonal: jax.Array, floor: Any) -> jax.Array:
    return jnp.maximum(jnp.abs(_finite(diagonal)), floor)


def _finite(array: jax.Array) -> jax.Array:
    return jnp.where(jnp.isfinite(array), array, 0.0)
