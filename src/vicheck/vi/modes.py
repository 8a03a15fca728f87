"""Modes of the density, found by quasi-Newton steps in given units."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from vicheck.model import Data, Program
from vicheck.runtime.compiling import compiled
from vicheck.vi.families.gaussian import moved
from vicheck.vi.quasi_newton import minimise

__all__ = ["MAX_EVALUATIONS", "climb_to_mode", "find_modes"]

MAX_EVALUATIONS = 60
"""Evaluations of the density from one start."""
_ARRIVED = 0.1
"""Gradient, in sds, at which a mode is found."""
_LONGEST = 100.0
"""Largest change in one step, in sds."""


@compiled("log_density")
def find_modes(program: Program, starts: Any, directions: Any, data: Data) -> jax.Array:
    """Climb the log density from each start; return the modes, NaN where none was found."""

    def from_start(z: jax.Array) -> jax.Array:
        end, arrived = climb_to_mode(program, z, directions, data)
        return jnp.where(arrived, end, jnp.nan)

    return lax.map(from_start, jnp.asarray(starts))


def climb_to_mode(
    program: Program, z: jax.Array, directions: jax.Array, data: Data
) -> tuple[jax.Array, jax.Array]:
    """Climb from z; return the end, and whether it is a mode.

    One that is still on its way has found none: in a funnel there is none to be found. Directions
    of length zero lead nowhere.
    """
    end = minimise(
        jax.value_and_grad(lambda step: -program.log_density(moved(z, step, directions), data)),
        jnp.zeros_like(z),
        tolerance=_ARRIVED,
        max_evaluations=MAX_EVALUATIONS,
        longest=jnp.full_like(z, _LONGEST),
    )
    arrived = jnp.max(jnp.abs(end.gradient)) < _ARRIVED
    return moved(z, end.x, directions), arrived
