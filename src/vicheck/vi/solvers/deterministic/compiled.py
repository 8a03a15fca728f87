"""The optimisation of a round in one compiled loop, for many fits of a small model.

It is the loop of `vicheck.vi.quasi_newton`, one fit after the other, for families with correlations
and for mean field before its draws tell the curvature (`compiled_guided` has that loop). `vsbc` of
1000 datasets of the eight schools takes 2.7 times the processor time without it at full rank.
Compiling takes half a second and more, so it is for many fits only.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from vicheck.model import Data, Program
from vicheck.runtime import tally
from vicheck.runtime.compiling import compiled
from vicheck.runtime.in_one_piece import in_one_piece
from vicheck.runtime.interrupts import check_interrupt
from vicheck.vi.density import Density
from vicheck.vi.families.abilities import entropy_of
from vicheck.vi.families.family import Family
from vicheck.vi.quasi_newton import ARMIJO, ROUNDING, SHORTEST, Dense, Memory, Minimum
from vicheck.vi.solvers.deterministic.objective import Objective

__all__ = ["CompiledLoop", "Counts", "Loop", "at", "shorter_fraction"]

Floats = NDArray[np.float64]

_LANES = 64
"""Fits in one call at most; room for more than there are is left empty."""
_MANY = 32
"""For fewer fits in a batch the loop is not worth compiling."""
_BLOCK, _MOST_BLOCKS = 16, 16
"""Rows of noise, each with its negative, that are evaluated together, and how many of them."""
_BLOCKS = 256
"""Blocks of noise in one call: fits with many draws are fewer in a call, because what is handed
over costs as much as a short round."""


class Loop(abc.ABC):
    """Does what `vicheck.vi.quasi_newton.minimise` does with an objective, from x = 0."""

    def __init__(self, density: Density) -> None:
        self.density = density
        self._code: Any = None

    @property
    @abc.abstractmethod
    def code(self) -> Any:
        """The compiled function."""

    @abc.abstractmethod
    def lanes(self, objective: Objective, tolerance: Floats, memory: Any) -> Any:
        """Return what the round of each fit depends on beside its noise and data."""

    @abc.abstractmethod
    def minimum(self, *end: Any) -> Minimum:
        """Return where fits end, from what the compiled function returns."""

    @property
    def is_worth_compiling(self) -> bool:
        """Whether there are enough fits of a model that is small enough."""
        return self.density.is_cheap and self.density.num_lanes >= _MANY

    def takes(self, objective: Objective, memory: Memory) -> bool:
        """Whether the loop can do this round, and is worth compiling."""
        return self.is_worth_compiling and objective.half.shape[1] <= _BLOCK * _MOST_BLOCKS

    def __call__(
        self,
        objective: Objective,
        *,
        tolerance: Floats,
        max_evaluations: int,
        longest: Floats,
        memory: Any,
    ) -> Minimum:
        """Minimise the objective of each fit."""
        count, num_rows, _ = objective.half.shape
        rounds = self.lanes(objective, tolerance, memory)
        width = min(_LANES, _BLOCKS * _BLOCK // num_rows)
        parts = [
            self._end(rounds, objective, slice(start, start + width), max_evaluations, longest)
            for start in range(0, count, width)
        ]
        sizes = [min(width, count - start) for start in range(0, count, width)]
        end = self.minimum(*(_joined(each, sizes) for each in zip(*parts, strict=True)))
        evaluated = end.num_evaluations * 2 * num_rows
        self.density.num_evaluations[objective.lanes] += evaluated
        tally.count(gradients=evaluated.sum())
        return end

    def _end(
        self, rounds: Any, objective: Objective, part: slice, max_evaluations: int, longest: Floats
    ) -> Any:
        """Return where some of the fits end; JAX returns before the numbers are there."""
        check_interrupt()
        half, lanes = objective.half[part], objective.lanes[part]
        count, num_rows, noise_dim = half.shape
        blocks = np.zeros((_BLOCKS, _BLOCK, noise_dim))
        used = half.reshape(-1, _BLOCK, noise_dim)
        blocks[: len(used)] = used
        room = np.minimum(np.arange(_LANES), count - 1)
        how_many = Counts(np.int64(count), np.int64(num_rows // _BLOCK), np.int64(max_evaluations))
        some = jax.tree.map(lambda leaf: leaf[part][room], rounds)
        args = (some, blocks, how_many, longest, *self.density.data_of(lanes[room]))
        if self._code is None:  # looked up once
            self._code = self.code.prepared(self.density.program, *args)
        return self._code(*args)


class CompiledLoop(Loop):
    """The loop of any fit whose inverse Hessian is kept as a matrix."""

    @property
    def code(self) -> Any:
        return _minimise_each

    def takes(self, objective: Objective, memory: Memory) -> bool:
        return isinstance(memory, Dense) and super().takes(objective, memory)

    def lanes(self, objective: Objective, tolerance: Floats, memory: Any) -> Lane:
        anchor, directions = objective.chart.anchors_and_directions()
        return Lane(
            anchor=anchor,
            directions=directions,
            excess=_excess(objective),
            tolerance=tolerance,
            inverse=memory.inverse,
            num_pairs=memory.num_pairs,
        )

    def minimum(self, *end: Any) -> Minimum:
        state = State(*end)
        return Minimum(
            state.x,
            state.value,
            state.gradient,
            state.num_evaluations,
            state.stalled,
            Dense(state.inverse, state.num_pairs),
        )


def _joined(parts: Sequence[Any], sizes: Sequence[int]) -> NDArray[Any]:
    """Return the results of all fits, without the room that was left empty."""
    arrays = [np.asarray(part)[:size] for part, size in zip(parts, sizes, strict=True)]
    return np.concatenate(arrays)


def _excess(objective: Objective) -> Floats:
    """Return what `Family.correction` takes, zero where nothing is to be corrected."""
    count, dim = len(objective.lanes), objective.density.dim
    return np.zeros((count, dim, dim)) if objective.excess is None else objective.excess


class Lane(NamedTuple):
    """What the round of a fit depends on beside its data; arrays have a leading axis over fits."""

    anchor: Family
    directions: Any
    excess: Any
    """What `Family.correction` takes."""
    tolerance: Any
    inverse: Any
    """What an earlier round has learnt: the inverse Hessian, from ``num_pairs`` steps."""
    num_pairs: Any


class Counts(NamedTuple):
    """Numbers that all fits of a call share."""

    lanes: Any
    """Fits, before the room that is left empty."""
    blocks: Any
    """Blocks of noise of each."""
    evaluations: Any
    """Evaluations of each at most."""


class State(NamedTuple):
    """Where the optimisation is, as in `vicheck.vi.quasi_newton`."""

    x: Any
    value: Any
    gradient: Any
    direction: Any
    fraction: Any
    reach: Any
    cut: Any
    num_evaluations: Any
    stalled: Any
    inverse: Any
    num_pairs: Any


@compiled("log_density")
def _minimise_each(
    program: Program,
    lanes: Lane,
    blocks: Any,
    how_many: Counts,
    longest: Any,
    own: Data,
    shared: Data,
) -> State:
    """Minimise minus the ELBO of each fit on its noise; return where each has ended."""
    one_by_one = partial(_one_by_one, program)
    return cast(State, in_one_piece(one_by_one, lanes, blocks, how_many, longest, own, shared))


def _one_by_one(
    program: Program,
    lanes: Lane,
    blocks: Any,
    how_many: Counts,
    longest: Any,
    own: Data,
    shared: Data,
) -> State:
    def of_lane(index: Any, states: State) -> State:
        lane, its_own, start = at(index, (lanes, own, states))

        def block(number: Any) -> jax.Array:
            half: jax.Array = at(index * how_many.blocks + number, blocks)
            return half

        objective = _objective(program, lane, block, how_many.blocks, shared | its_own)
        end = _minimise(objective, lane, start, how_many.evaluations, longest)
        put = lax.dynamic_update_index_in_dim
        return jax.tree.map(lambda leaf, new: put(leaf, new, index, 0), states, end)

    return cast(State, lax.fori_loop(0, how_many.lanes, of_lane, _start(lanes)))


def at(index: Any, tree: Any) -> Any:
    """Return one entry of arrays, of which no more is copied."""
    return jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, index, keepdims=False), tree)


def _objective(
    program: Program, lane: Lane, block: Callable[[Any], jax.Array], num_blocks: Any, data: Data
) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """Return minus the ELBO and its gradient, as a function of a step away from the anchor.

    ``block`` returns noise by its number, each row without its negative.
    """

    def of_block(step: jax.Array, half: jax.Array) -> jax.Array:
        q = lane.anchor.displaced(step, lane.directions)
        noise = jnp.concatenate([half, -half])
        log_p = jax.vmap(lambda e: program.log_density(q.transform(e), data))(noise)
        return lane.anchor.correction(step, lane.excess) - log_p.mean() - entropy_of(q, noise)

    def value_and_grad(step: jax.Array) -> tuple[jax.Array, jax.Array]:
        def add(number: Any, total: Any) -> Any:
            part = jax.value_and_grad(of_block)(step, block(number))
            return jax.tree.map(jnp.add, total, part)

        zero = (jnp.zeros((), step.dtype), jnp.zeros_like(step))
        total = lax.fori_loop(0, num_blocks, add, zero)
        return jax.tree.map(lambda part: part / num_blocks, total)

    return value_and_grad


def _start(lanes: Lane) -> State:
    """Return all fits before their first evaluation."""
    count, size, _ = lanes.inverse.shape
    dtype = lanes.inverse.dtype
    zero = jnp.zeros((count, size), dtype)
    return State(
        x=zero,
        value=jnp.full(count, jnp.inf, dtype),
        gradient=jnp.full_like(zero, jnp.inf),
        direction=zero,
        fraction=jnp.ones(count, dtype),
        reach=jnp.ones(count, dtype),
        cut=jnp.zeros(count, bool),
        num_evaluations=jnp.zeros(count, int),
        stalled=jnp.zeros(count, bool),
        inverse=lanes.inverse,
        num_pairs=lanes.num_pairs,
    )


def _minimise(
    value_and_grad: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    lane: Lane,
    start: State,
    max_evaluations: Any,
    longest: Any,
) -> State:
    size, dtype = len(start.x), start.x.dtype

    def unfinished(state: State) -> jax.Array:
        steep = ~(jnp.max(jnp.abs(state.gradient)) < lane.tolerance)
        return steep & (state.num_evaluations < max_evaluations) & ~state.stalled

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
        shorter = shorter_fraction(state.fraction, value - state.value, slope)
        forget = ~accepted & (shorter < SHORTEST)
        step = jnp.where(accepted, trial - state.x, 0.0)
        change = jnp.where(accepted & ~first, gradient - state.gradient, 0.0)
        inverse, num_pairs = _learnt(state, step, change)
        inverse = jnp.where(forget, jnp.eye(size, dtype=dtype), inverse)
        gradient = jnp.where(accepted, gradient, state.gradient)
        direction = -(inverse @ gradient)
        longer = jnp.where(state.cut & (state.fraction == 1.0), 2.0, 1.0) * state.reach
        reach = jnp.where(accepted, longer, 1.0)
        farthest = jnp.max(jnp.abs(direction) / longest) / reach
        direction /= jnp.maximum(1.0, farthest)
        anew = accepted | forget
        return State(
            x=jnp.where(accepted, trial, state.x),
            value=jnp.where(accepted, value, state.value),
            gradient=gradient,
            direction=jnp.where(anew, direction, state.direction),
            fraction=jnp.where(anew, 1.0, shorter),
            reach=reach,
            cut=jnp.where(anew, farthest > 1.0, state.cut),
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


def shorter_fraction(fraction: jax.Array, rise: jax.Array, slope: jax.Array) -> jax.Array:
    """Return how much of a step to try next, after one by whose fraction the function rose."""
    vertex = -0.5 * slope * fraction**2 / (rise - fraction * slope)
    vertex = jnp.where(jnp.isfinite(vertex), vertex, 0.0)
    return jnp.clip(vertex, 0.1 * fraction, 0.5 * fraction)
