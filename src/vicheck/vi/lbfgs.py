"""Limited-memory BFGS that evaluates its objective once an iteration.

A trial point that does not descend enough shortens the step, and that is an iteration of its own;
there is no line search inside. So compiled code holds the objective once, and a batch of problems
under `vmap` never waits for the longest line search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["Minimum", "minimise"]

_ARMIJO = 1e-4
_MEMORY = 16
_SHORTEST = 1e-9
"""A step cut to this fraction has failed: rounding hides any descent that is left."""


class Minimum(NamedTuple):
    """Where `minimise` ended."""

    x: jax.Array
    value: jax.Array
    gradient: jax.Array
    num_evaluations: jax.Array
    stalled: jax.Array
    """No descent could be found although the gradient is above the tolerance."""


class _State(NamedTuple):
    x: jax.Array
    value: jax.Array
    gradient: jax.Array
    direction: jax.Array
    fraction: jax.Array
    steps: jax.Array
    """Accepted steps, newest last; rows of zeros where there are none yet."""
    changes: jax.Array
    """Changes of the gradient along them."""
    num_evaluations: jax.Array
    stalled: jax.Array


def minimise(
    value_and_grad: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    x: jax.Array,
    *,
    tolerance: Any,
    max_evaluations: Any,
    longest: jax.Array,
) -> Minimum:
    """Minimise a function until no entry of its gradient exceeds a tolerance.

    Parameters
    ----------
    value_and_grad
        The function and its gradient. Points where either is not finite are stepped back from.
    x
        Start; the value there must be finite.
    tolerance
        Stop when every entry of the gradient is smaller than this.
    max_evaluations
        Stop after this many evaluations.
    longest
        Largest change of each entry of ``x`` in one step.
    """
    value, gradient = value_and_grad(x)
    zeros = jnp.zeros((_MEMORY, x.size), x.dtype)
    start = _State(
        x=x,
        value=value,
        gradient=gradient,
        direction=_shortened(-gradient, longest),
        fraction=jnp.ones((), x.dtype),
        steps=zeros,
        changes=zeros,
        num_evaluations=jnp.ones((), jnp.int64),
        stalled=~jnp.isfinite(value),
    )

    def unfinished(state: _State) -> jax.Array:
        steep = jnp.max(jnp.abs(state.gradient)) >= tolerance
        return steep & (state.num_evaluations < max_evaluations) & ~state.stalled

    def advance(state: _State) -> _State:
        trial = state.x + state.fraction * state.direction
        value, gradient = value_and_grad(trial)
        slope = state.direction @ state.gradient
        allowed = state.value + _ARMIJO * state.fraction * slope + _rounding(state.value)
        finite = jnp.isfinite(value) & jnp.isfinite(gradient).all()
        return lax.cond(
            finite & (value <= allowed),
            lambda: _accept(state, trial, value, gradient, longest),
            lambda: _step_back(state, value, slope, longest),
        )

    end = lax.while_loop(unfinished, advance, start)
    return Minimum(end.x, end.value, end.gradient, end.num_evaluations, end.stalled)


def _accept(
    state: _State, trial: jax.Array, value: jax.Array, gradient: jax.Array, longest: jax.Array
) -> _State:
    step, change = trial - state.x, gradient - state.gradient
    # Only pairs with positive curvature keep the inverse Hessian positive definite.
    curved = step @ change > 1e-10 * jnp.sqrt((step @ step) * (change @ change))
    steps = jnp.where(curved, jnp.roll(state.steps, -1, 0).at[-1].set(step), state.steps)
    changes = jnp.where(curved, jnp.roll(state.changes, -1, 0).at[-1].set(change), state.changes)
    return state._replace(
        x=trial,
        value=value,
        gradient=gradient,
        direction=_shortened(_newton_like(gradient, steps, changes), longest),
        fraction=jnp.ones_like(state.fraction),
        steps=steps,
        changes=changes,
        num_evaluations=state.num_evaluations + 1,
    )


def _step_back(
    state: _State, value: jax.Array, slope: jax.Array, longest: jax.Array
) -> _State:
    # The minimum of the parabola through both values and the slope, kept within bounds.
    rise = (value - state.value - state.fraction * slope) / state.fraction**2
    vertex = -0.5 * slope / rise
    fraction = jnp.clip(
        jnp.where(jnp.isfinite(vertex), vertex, 0.0), 0.1 * state.fraction, 0.5 * state.fraction
    )
    # When the memory misleads, forget it and go downhill once; when that fails too, it is over.
    forget = fraction < _SHORTEST
    empty = ~state.changes[-1].any()
    return state._replace(
        direction=jnp.where(forget, _shortened(-state.gradient, longest), state.direction),
        fraction=jnp.where(forget, 1.0, fraction),
        steps=jnp.where(forget, 0.0, state.steps),
        changes=jnp.where(forget, 0.0, state.changes),
        num_evaluations=state.num_evaluations + 1,
        stalled=forget & empty,
    )


def _newton_like(gradient: jax.Array, steps: jax.Array, changes: jax.Array) -> jax.Array:
    """Return minus the inverse Hessian in memory times the gradient (Nocedal's two loops)."""
    curvatures = jnp.sum(steps * changes, axis=1)
    inverse = jnp.where(curvatures > 0.0, 1.0 / curvatures, 0.0)

    def backward(direction: jax.Array, pair: Any) -> tuple[jax.Array, jax.Array]:
        step, change, rho = pair
        alpha = rho * (step @ direction)
        return direction - alpha * change, alpha

    def forward(direction: jax.Array, pair: Any) -> tuple[jax.Array, None]:
        step, change, rho, alpha = pair
        return direction + step * (alpha - rho * (change @ direction)), None

    direction, alphas = lax.scan(backward, gradient, (steps, changes, inverse), reverse=True)
    newest = changes[-1] @ changes[-1]
    scale = jnp.where(newest > 0.0, curvatures[-1] / newest, 1.0)
    direction, _ = lax.scan(forward, scale * direction, (steps, changes, inverse, alphas))
    return -direction


def _shortened(direction: jax.Array, longest: jax.Array) -> jax.Array:
    return direction / jnp.maximum(1.0, jnp.max(jnp.abs(direction) / longest))


def _rounding(value: jax.Array) -> jax.Array:
    return 1e-13 * jnp.abs(value)
