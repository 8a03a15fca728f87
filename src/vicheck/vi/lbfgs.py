"""Quasi-Newton minimisation that evaluates its objective once an iteration.

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

__all__ = ["Memory", "Minimum", "minimise", "no_memory"]

_ARMIJO = 1e-4
_MAX_DENSE = 256
"""Up to this size the whole inverse Hessian is kept (BFGS), above it some pairs (L-BFGS)."""
_PAIRS = 16
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
    memory: Memory
    """What was learnt of the Hessian, for a later call on nearly the same function."""


class _Dense(NamedTuple):
    """The inverse Hessian as a matrix."""

    inverse: jax.Array
    num_pairs: jax.Array

    def learn(self, step: jax.Array, change: jax.Array) -> _Dense:
        curvature = step @ change
        # The first pair sets the scale, as is usual (Nocedal and Wright, equation 6.20).
        scale = jnp.where(self.num_pairs == 0, curvature / (change @ change), 1.0)
        inverse = scale * self.inverse
        image = inverse @ change
        along = (1.0 + change @ image / curvature) / curvature
        cross = jnp.outer(step, image) / curvature
        inverse = inverse - cross - cross.T + along * jnp.outer(step, step)
        return _Dense(inverse, self.num_pairs + 1)

    def direction(self, gradient: jax.Array) -> jax.Array:
        return -self.inverse @ gradient


class _Limited(NamedTuple):
    """The last accepted steps, newest last, and the changes of the gradient along them."""

    steps: jax.Array
    changes: jax.Array
    num_pairs: jax.Array

    def learn(self, step: jax.Array, change: jax.Array) -> _Limited:
        steps = jnp.roll(self.steps, -1, 0).at[-1].set(step)
        changes = jnp.roll(self.changes, -1, 0).at[-1].set(change)
        return _Limited(steps, changes, self.num_pairs + 1)

    def direction(self, gradient: jax.Array) -> jax.Array:
        """Return minus the inverse Hessian times the gradient (Nocedal's two loops)."""
        curvatures = jnp.sum(self.steps * self.changes, axis=1)
        inverse = jnp.where(curvatures > 0.0, 1.0 / curvatures, 0.0)
        pairs = (self.steps, self.changes, inverse)

        def backward(direction: jax.Array, pair: Any) -> tuple[jax.Array, jax.Array]:
            step, change, rho = pair
            alpha = rho * (step @ direction)
            return direction - alpha * change, alpha

        def forward(direction: jax.Array, pair: Any) -> tuple[jax.Array, None]:
            (step, change, rho), alpha = pair
            return direction + step * (alpha - rho * (change @ direction)), None

        direction, alphas = lax.scan(backward, gradient, pairs, reverse=True)
        newest = self.changes[-1] @ self.changes[-1]
        scale = jnp.where(newest > 0.0, curvatures[-1] / newest, 1.0)
        direction, _ = lax.scan(forward, scale * direction, (pairs, alphas))
        return -direction


Memory = _Dense | _Limited


class _State(NamedTuple):
    x: jax.Array
    value: jax.Array
    gradient: jax.Array
    direction: jax.Array
    fraction: jax.Array
    memory: Any
    num_evaluations: jax.Array
    stalled: jax.Array


def minimise(
    value_and_grad: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    x: jax.Array,
    *,
    tolerance: Any,
    max_evaluations: Any,
    longest: jax.Array,
    memory: Memory | None = None,
) -> Minimum:
    """Minimise a function until no entry of its gradient exceeds a tolerance.

    Parameters
    ----------
    value_and_grad
        The function and its gradient. Points where either is not finite are stepped back from.
    x
        Start; when the value there is not finite, that is where it ends.
    tolerance
        Stop when every entry of the gradient is smaller than this.
    max_evaluations
        Stop after this many evaluations.
    longest
        Largest change of each entry of ``x`` in one step.
    memory
        What an earlier call has learnt; nothing by default.
    """
    # The start is evaluated by the loop itself, as its first trial, to compile the function once.
    start = _State(
        x=x,
        value=jnp.array(jnp.inf, x.dtype),
        gradient=jnp.full_like(x, jnp.inf),
        direction=jnp.zeros_like(x),
        fraction=jnp.ones((), x.dtype),
        memory=no_memory(x) if memory is None else memory,
        num_evaluations=jnp.zeros((), jnp.int64),
        stalled=jnp.array(False),
    )

    def unfinished(state: _State) -> jax.Array:
        steep = ~(jnp.max(jnp.abs(state.gradient)) < tolerance)
        return steep & (state.num_evaluations < max_evaluations) & ~state.stalled

    def advance(state: _State) -> _State:
        first = state.num_evaluations == 0
        trial = state.x + state.fraction * state.direction
        value, gradient = value_and_grad(trial)
        slope = jnp.where(first, 0.0, state.direction @ state.gradient)
        allowed = state.value + _ARMIJO * state.fraction * slope + _rounding(state.value)
        finite = jnp.isfinite(value) & jnp.isfinite(gradient).all()
        state = state._replace(num_evaluations=state.num_evaluations + 1)
        after = lax.cond(
            finite & (value <= allowed),
            lambda: _accept(state, trial, value, gradient, longest, first),
            lambda: _step_back(state, value, slope, longest),
        )
        return after._replace(stalled=after.stalled | (first & ~finite))

    end = lax.while_loop(unfinished, advance, start)
    return Minimum(end.x, end.value, end.gradient, end.num_evaluations, end.stalled, end.memory)


def no_memory(x: jax.Array) -> Memory:
    """Return what is known of the Hessian before anything is learnt."""
    count = jnp.zeros((), jnp.int64)
    if x.size <= _MAX_DENSE:
        return _Dense(jnp.eye(x.size, dtype=x.dtype), count)
    zeros = jnp.zeros((_PAIRS, x.size), x.dtype)
    return _Limited(zeros, zeros, count)


def _accept(
    state: _State,
    trial: jax.Array,
    value: jax.Array,
    gradient: jax.Array,
    longest: jax.Array,
    first: jax.Array,
) -> _State:
    step = trial - state.x
    change = jnp.where(first, 0.0, gradient - state.gradient)
    # Only pairs with positive curvature keep the inverse Hessian positive definite.
    curved = step @ change > 1e-10 * jnp.sqrt((step @ step) * (change @ change))
    learnt = state.memory.learn(step, change)
    memory = jax.tree.map(lambda new, old: jnp.where(curved, new, old), learnt, state.memory)
    return state._replace(
        x=trial,
        value=value,
        gradient=gradient,
        direction=_shortened(memory.direction(gradient), longest),
        fraction=jnp.ones_like(state.fraction),
        memory=memory,
    )


def _step_back(state: _State, value: jax.Array, slope: jax.Array, longest: jax.Array) -> _State:
    # The minimum of the parabola through both values and the slope, kept within bounds.
    rise = (value - state.value - state.fraction * slope) / state.fraction**2
    vertex = -0.5 * slope / rise
    fraction = jnp.clip(
        jnp.where(jnp.isfinite(vertex), vertex, 0.0), 0.1 * state.fraction, 0.5 * state.fraction
    )
    # When the memory misleads, forget it and go downhill once; when that fails too, it is over.
    forget = fraction < _SHORTEST
    memory = jax.tree.map(
        lambda fresh, old: jnp.where(forget, fresh, old), no_memory(state.x), state.memory
    )
    return state._replace(
        direction=jnp.where(forget, _shortened(-state.gradient, longest), state.direction),
        fraction=jnp.where(forget, 1.0, fraction),
        memory=memory,
        stalled=forget & (state.memory.num_pairs == 0),
    )


def _shortened(direction: jax.Array, longest: jax.Array) -> jax.Array:
    return direction / jnp.maximum(1.0, jnp.max(jnp.abs(direction) / longest))


def _rounding(value: jax.Array) -> jax.Array:
    return 1e-13 * jnp.abs(value)
