"""The optimisation of a round in one compiled loop, for many fits of a small model.

It is the loop of `vicheck.vi.quasi_newton`, one fit after the other. `vsbc` of 1000 datasets of the
eight schools takes 2.4 to 2.8 times the processor time without it, once it is compiled; that takes
a second, so it is for many fits only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from vicheck.model import Data, Program
from vicheck.runtime.compiling import compiled
from vicheck.runtime.interrupts import check_interrupt
from vicheck.vi.density import Density, Lanes
from vicheck.vi.families.abilities import entropy_of
from vicheck.vi.families.family import Family
from vicheck.vi.quasi_newton import ARMIJO, ROUNDING, SHORTEST, Dense, Memory, Minimum
from vicheck.vi.solvers.deterministic.objective import Objective

__all__ = ["CompiledLoop"]

Floats = NDArray[np.float64]

_LANES = 64
"""Fits in one call; fewer are filled up by some that end at once."""
_MANY = 32
"""For fewer fits in a batch the loop is not worth compiling."""
_BLOCK, _MOST_BLOCKS = 16, 16
"""Rows of noise, each with its negative, that are evaluated together, and how many of them."""


class CompiledLoop:
    """Does what `vicheck.vi.quasi_newton.minimise` does with an objective, from x = 0."""

    def __init__(self, density: Density) -> None:
        self.density = density
        self._code: Any = None

    def takes(self, objective: Objective, memory: Memory) -> bool:
        """Whether the loop can do this round, and is worth compiling."""
        return (
            self.density.is_cheap
            and self.density.num_lanes >= _MANY
            and objective.half.shape[1] <= _BLOCK * _MOST_BLOCKS
            and isinstance(memory, Dense)
        )

    def __call__(
        self,
        objective: Objective,
        *,
        tolerance: Floats,
        max_evaluations: int,
        longest: Floats,
        memory: Dense,
    ) -> Minimum:
        """Minimise the objective of each fit."""
        lanes, (count, num_rows, _) = objective.lanes, objective.half.shape
        anchor, directions = objective.chart.anchors_and_directions()
        rounds = Lane(
            anchor=anchor,
            directions=directions,
            half=objective.half,
            num_blocks=np.full(count, num_rows // _BLOCK),
            excess=_excess(objective),
            tolerance=tolerance,
            max_evaluations=np.full(count, max_evaluations),
            inverse=memory.inverse,
            num_pairs=memory.num_pairs,
        )
        parts = [self._end(rounds, lanes, i, longest) for i in range(0, count, _LANES)]
        end = State(*(np.concatenate(each)[:count] for each in zip(*parts, strict=True)))
        self.density.num_evaluations[lanes] += end.num_evaluations * 2 * num_rows
        return Minimum(
            end.x,
            end.value,
            end.gradient,
            end.num_evaluations,
            end.stalled,
            Dense(end.inverse, end.num_pairs),
        )

    def _end(self, rounds: Lane, lanes: Lanes, start: int, longest: Floats) -> State:
        """Return where some of the fits end; JAX returns before the numbers are there."""
        check_interrupt()
        wanted = np.arange(start, start + _LANES)
        some = np.minimum(wanted, len(lanes) - 1)
        part = jax.tree.map(lambda leaf: leaf[some], rounds)
        _, num_rows, noise_dim = part.half.shape
        half = np.zeros((_LANES, _MOST_BLOCKS * _BLOCK, noise_dim))
        half[:, :num_rows] = part.half
        part = part._replace(
            half=half.reshape(_LANES, _MOST_BLOCKS, _BLOCK, noise_dim),
            max_evaluations=np.where(wanted < len(lanes), part.max_evaluations, 0),
        )
        args = (part, longest, *self.density.data_of(lanes[some]))
        if self._code is None:  # looked up once
            self._code = _minimise_each.prepared(self.density.program, *args)  # type: ignore[attr-defined]
        end: State = self._code(*args)
        return end


def _excess(objective: Objective) -> Floats:
    """Return what `Family.correction` takes, zero where nothing is to be corrected."""
    count, dim = len(objective.lanes), objective.density.dim
    if objective.hessian is None or not objective.chart.is_corrected:
        return np.zeros((count, dim, dim))
    return np.asarray(objective.hessian * (np.eye(dim) - objective.moments))


class Lane(NamedTuple):
    """What the round of a fit depends on beside its data; arrays have a leading axis over fits."""

    anchor: Family
    directions: Any
    half: Any
    """Noise, shape ``(blocks, _BLOCK, k)``, of which the first ``num_blocks`` are used."""
    num_blocks: Any
    excess: Any
    """What `Family.correction` takes."""
    tolerance: Any
    max_evaluations: Any
    inverse: Any
    """What an earlier round has learnt: the inverse Hessian, from ``num_pairs`` steps."""
    num_pairs: Any


class State(NamedTuple):
    """Where the optimisation is, as in `vicheck.vi.quasi_newton`."""

    x: Any
    value: Any
    gradient: Any
    direction: Any
    fraction: Any
    num_evaluations: Any
    stalled: Any
    inverse: Any
    num_pairs: Any


@compiled("log_density")
def _minimise_each(program: Program, lanes: Lane, longest: Any, own: Data, shared: Data) -> State:
    """Minimise minus the ELBO of each fit on its noise; return where each has ended."""

    def of_lane(each: tuple[Lane, Data]) -> State:
        lane, its_own = each
        return _minimise(_objective(program, lane, shared | its_own), lane, longest)

    return lax.map(of_lane, (lanes, own))


def _objective(
    program: Program, lane: Lane, data: Data
) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """Return minus the ELBO and its gradient, as a function of a step away from the anchor."""

    def of_block(step: jax.Array, half: jax.Array) -> jax.Array:
        q = lane.anchor.displaced(step, lane.directions)
        noise = jnp.concatenate([half, -half])
        log_p = jax.vmap(lambda e: program.log_density(q.transform(e), data))(noise)
        return lane.anchor.correction(step, lane.excess) - log_p.mean() - entropy_of(q, noise)

    def value_and_grad(step: jax.Array) -> tuple[jax.Array, jax.Array]:
        def add(index: Any, total: Any) -> Any:
            part = jax.value_and_grad(of_block)(step, lane.half[index])
            return jax.tree.map(jnp.add, total, part)

        zero = (jnp.zeros((), step.dtype), jnp.zeros_like(step))
        total = lax.fori_loop(0, lane.num_blocks, add, zero)
        return jax.tree.map(lambda part: part / lane.num_blocks, total)

    return value_and_grad


def _minimise(
    value_and_grad: Callable[[jax.Array], tuple[jax.Array, jax.Array]], lane: Lane, longest: Any
) -> State:
    dtype, size = lane.inverse.dtype, len(lane.inverse)
    zero = jnp.zeros(size, dtype)
    start = State(
        x=zero,
        value=jnp.array(jnp.inf, dtype),
        gradient=jnp.full_like(zero, jnp.inf),
        direction=zero,
        fraction=jnp.ones((), dtype),
        num_evaluations=jnp.zeros((), int),
        stalled=jnp.array(False),
        inverse=lane.inverse,
        num_pairs=lane.num_pairs,
    )

    def unfinished(state: State) -> jax.Array:
        steep = ~(jnp.max(jnp.abs(state.gradient)) < lane.tolerance)
        return steep & (state.num_evaluations < lane.max_evaluations) & ~state.stalled

    def advance(state: State) -> State:
        first = state.num_evaluations == 0
        trial = state.x + state.fraction * state.direction
        value, gradient = value_and_grad(trial)
        slope = jnp.where(first, 0.0, state.direction @ state.gradient)
        rounding = ROUNDING * jnp.abs(state.value)
        allowed = state.value + ARMIJO * state.fraction * slope + rounding
        finite = jnp.isfinite(value) & jnp.isfinite(gradient).all()
        accepted = finite & (value <= allowed)
        # Both ways to go on are computed and one is taken, by numbers: compiled branches would
        # copy the matrix, which takes longer for small problems than the objective.
        shorter = _shorter_fraction(state, value, slope)
        forget = ~accepted & (shorter < SHORTEST)
        step = jnp.where(accepted, trial - state.x, 0.0)
        change = jnp.where(accepted & ~first, gradient - state.gradient, 0.0)
        inverse, num_pairs = _learnt(state, step, change)
        inverse = jnp.where(forget, jnp.eye(size, dtype=dtype), inverse)
        gradient = jnp.where(accepted, gradient, state.gradient)
        direction = -(inverse @ gradient)
        direction /= jnp.maximum(1.0, jnp.max(jnp.abs(direction) / longest))
        anew = accepted | forget
        return State(
            x=jnp.where(accepted, trial, state.x),
            value=jnp.where(accepted, value, state.value),
            gradient=gradient,
            direction=jnp.where(anew, direction, state.direction),
            fraction=jnp.where(anew, 1.0, shorter),
            num_evaluations=state.num_evaluations + 1,
            stalled=(forget & (state.num_pairs == 0)) | (first & ~finite),
            inverse=inverse,
            num_pairs=jnp.where(forget, 0, num_pairs),
        )

    return lax.while_loop(unfinished, advance, start)


def _learnt(state: State, step: jax.Array, change: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the inverse Hessian and its number of pairs, with one step more if it is curved."""
    curvature = step @ change
    curved = curvature > 1e-10 * jnp.sqrt((step @ step) * (change @ change))
    rho = jnp.where(curved, 1.0 / curvature, 0.0)
    scale = jnp.where(curved & (state.num_pairs == 0), curvature / (change @ change), 1.0)
    image = scale * (state.inverse @ change)
    along = rho * (1.0 + rho * (change @ image)) * step - rho * image
    inverse = scale * state.inverse - (rho * step)[:, None] * image + along[:, None] * step
    return inverse, state.num_pairs + curved


def _shorter_fraction(state: State, value: jax.Array, slope: jax.Array) -> jax.Array:
    rise = (value - state.value - state.fraction * slope) / state.fraction**2
    vertex = -0.5 * slope / rise
    vertex = jnp.where(jnp.isfinite(vertex), vertex, 0.0)
    return jnp.clip(vertex, 0.1 * state.fraction, 0.5 * state.fraction)
