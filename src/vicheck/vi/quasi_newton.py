"""Quasi-Newton minimisation that evaluates its objective once per iteration.

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
    """What was learnt about the Hessian, for a later call on nearly the same function."""


class _Dense(NamedTuple):
    """The inverse Hessian as a matrix."""

    inverse: jax.Array
    num_pairs: jax.Array

    def learn(self, step: jax.Array, change: jax.Array) -> _Dense:
        curvature, curved = step @ change, _is_curved(step, change)
        rho = jnp.where(curved, 1.0 / curvature, 0.0)
        # The first pair sets the scale, as is usual (Nocedal and Wright, equation 6.20).
        new = curved & (self.num_pairs == 0)
        scale = jnp.where(new, curvature / (change @ change), 1.0)
        image = scale * (self.inverse @ change)
        along = rho * (1.0 + rho * (change @ image)) * step - rho * image
        inverse = scale * self.inverse - (rho * step)[:, None] * image + along[:, None] * step
        return _Dense(inverse, self.num_pairs + curved)

    def direction(self, gradient: jax.Array) -> jax.Array:
        return -(self.inverse @ gradient)


class _Limited(NamedTuple):
    """The last accepted steps, newest last, and the changes of the gradient along them."""

    steps: jax.Array
    changes: jax.Array
    num_pairs: jax.Array

    def learn(self, step: jax.Array, change: jax.Array) -> _Limited:
        steps = jnp.roll(self.steps, -1, 0).at[-1].set(step)
        changes = jnp.roll(self.changes, -1, 0).at[-1].set(change)
        learnt = _Limited(steps, changes, self.num_pairs + 1)
        curved = _is_curved(step, change)
        return jax.tree.map(lambda new, old: jnp.where(curved, new, old), learnt, self)

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
        accepted = finite & (value <= allowed)
        # Both ways to go on are computed and one is taken, by numbers: compiled branches would
        # copy the memory, which takes longer for small problems than the objective.
        shorter = _shorter_fraction(state, value, slope)
        # When the memory misleads, forget it and go downhill once; when that fails too, it is over.
        forget = ~accepted & (shorter < _SHORTEST)
        step = jnp.where(accepted, trial - state.x, 0.0)
        change = jnp.where(accepted & ~first, gradient - state.gradient, 0.0)
        memory = jax.tree.map(
            lambda fresh, learnt: jnp.where(forget, fresh, learnt),
            no_memory(state.x),
            state.memory.learn(step, change),
        )
        gradient = jnp.where(accepted, gradient, state.gradient)
        anew = accepted | forget
        return _State(
            x=jnp.where(accepted, trial, state.x),
            value=jnp.where(accepted, value, state.value),
            gradient=gradient,
            direction=jnp.where(
                anew, _shortened(memory.direction(gradient), longest), state.direction
            ),
            fraction=jnp.where(anew, 1.0, shorter),
            memory=memory,
            num_evaluations=state.num_evaluations + 1,
            stalled=(forget & (state.memory.num_pairs == 0)) | (first & ~finite),
        )

    end = lax.while_loop(unfinished, advance, start)
    return Minimum(end.x, end.value, end.gradient, end.num_evaluations, end.stalled, end.memory)


def no_memory(x: jax.Array) -> Memory:
    """Return what is known about the Hessian before anything is learnt."""
    count = jnp.zeros((), jnp.int64)
    if x.size <= _MAX_DENSE:
        return _Dense(jnp.eye(x.size, dtype=x.dtype), count)
    zeros = jnp.zeros((_PAIRS, x.size), x.dtype)
    return _Limited(zeros, zeros, count)


def _is_curved(step: jax.Array, change: jax.Array) -> jax.Array:
    """Whether a pair keeps the inverse Hessian positive definite."""
    return step @ change > 1e-10 * jnp.sqrt((step @ step) * (change @ change))


def _shorter_fraction(state: _State, value: jax.Array, slope: jax.Array) -> jax.Array:
    """Return the minimum of the parabola through both values and the slope, within bounds."""
    rise = (value - state.value - state.fraction * slope) / state.fraction**2
    vertex = -0.5 * slope / rise
    return jnp.clip(
        jnp.where(jnp.isfinite(vertex), vertex, 0.0), 0.1 * state.fraction, 0.5 * state.fraction
    )


def _shortened(direction: jax.Array, longest: jax.Array) -> jax.Array:
    return direction / jnp.maximum(1.0, jnp.max(jnp.abs(direction) / longest))


def _rounding(value: jax.Array) -> jax.Array:
    return 1e-13 * jnp.abs(value)
