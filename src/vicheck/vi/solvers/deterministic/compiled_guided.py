"""The optimisation of a round in one compiled loop, where gradients at draws tell the curvature.

It is what `vicheck.vi.quasi_newton.minimise` does with the memory of `vicheck.vi.guided`, one fit
after the other, in few operations: most of what a first call of `vsbc` takes goes into compiling.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from vicheck.model import Data, Program
from vicheck.runtime.compiling import compiled
from vicheck.runtime.in_one_piece import in_one_piece
from vicheck.vi.charts.mean_field import MeanFieldChart
from vicheck.vi.guided import (
    DAMPING,
    FARTHEST_GROWTH,
    LEAST_PIVOT,
    RAISED,
    STEEP,
    Ended,
    changed_damping,
    growth_from,
)
from vicheck.vi.quasi_newton import ARMIJO, ROUNDING, SHORTEST, Minimum
from vicheck.vi.solvers.deterministic.compiled import Counts, Loop, shorter_fraction
from vicheck.vi.solvers.deterministic.objective import Objective

__all__ = ["GuidedLoop"]

_ROOT_2, _LOG_2PI = float(np.sqrt(2.0)), float(np.log(2.0 * np.pi))


class GuidedLoop(Loop):
    """The loop of fits whose chart tells its curvature."""

    @property
    def code(self) -> Any:
        return _descend_each

    def lanes(self, objective: Objective, tolerance: Any, memory: Any) -> Any:
        chart = objective.chart
        assert isinstance(chart, MeanFieldChart)
        return np.concatenate([chart.loc, chart.log_scale, tolerance[:, None]], axis=1)

    def minimum(self, *end: Any) -> Minimum:
        (rows,) = end
        size = 2 * self.density.dim
        x, gradient, hessian, rest = np.split(rows, [size, 2 * size, -4], axis=1)
        value, decrement, count, stalled = rest.T
        bowl = hessian.reshape(-1, self.density.dim, self.density.dim)
        return Minimum(
            x, value, gradient, count.astype(np.int64), stalled > 0.0, Ended(decrement, bowl)
        )


class State(NamedTuple):
    """Where the optimisation is, as in `vicheck.vi.quasi_newton`."""

    x: Any
    value: Any
    gradient: Any
    hessian: Any
    direction: Any
    fraction: Any
    reach: Any
    cut: Any
    num_evaluations: Any
    stalled: Any
    pairs: Any
    """The last two steps and the changes of the gradient along them, older first, each with one
    over their product: zero where there is none."""
    damping: Any
    decrement: Any


@compiled("log_density")
def _descend_each(
    program: Program,
    lanes: Any,
    blocks: Any,
    how_many: Counts,
    longest: Any,
    own: Data,
    shared: Data,
) -> tuple[jax.Array]:
    """Minimise minus the ELBO of each fit on its noise; return where each has ended."""
    one_by_one = partial(_one_by_one, program)
    rows = in_one_piece(one_by_one, lanes, blocks, how_many, longest, own, shared)
    return (cast(jax.Array, rows),)


def _one_by_one(
    program: Program,
    lanes: Any,
    blocks: Any,
    how_many: Counts,
    longest: Any,
    own: Data,
    shared: Data,
) -> jax.Array:
    dim = program.dim

    def of_lane(index: Any, rows: jax.Array) -> jax.Array:
        lane, its_own = _at(index, (lanes, own))

        def told(x: jax.Array) -> tuple[jax.Array, ...]:
            first = index * how_many.blocks.astype(index.dtype)
            return _told(program, lane, blocks, first, how_many.blocks, shared | its_own, x)

        end = _descend(told, lane[-1], dim, how_many.evaluations, longest)
        rest = jnp.stack(
            [end.value, end.decrement, *(1.0 * part for part in (end.num_evaluations, end.stalled))]
        )
        row = jnp.concatenate([end.x, end.gradient, end.hessian.reshape(-1), rest])
        return lax.dynamic_update_slice(rows, row[None], (index, np.uint32(0)))

    rows = jnp.zeros((lanes.shape[0], 4 * dim + dim**2 + 4), lanes.dtype)
    return cast(
        jax.Array, lax.fori_loop(np.uint32(0), how_many.lanes.astype(np.uint32), of_lane, rows)
    )


def _at(index: Any, tree: Any) -> Any:
    """Return one entry of arrays, by an unsigned number: others are first seen to be positive."""
    return jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, index, keepdims=False), tree)


def _told(
    program: Program,
    lane: jax.Array,
    blocks: jax.Array,
    first: Any,
    num_blocks: Any,
    data: Data,
    x: jax.Array,
) -> tuple[jax.Array, ...]:
    """Return minus the ELBO, its gradient, and the Hessian by the means in units of the scales."""
    dim = program.dim
    unit = jnp.exp(lane[dim : 2 * dim])
    log_sd = lane[dim : 2 * dim] + x[dim:] / _ROOT_2
    mean, sd = lane[:dim] + unit * x[:dim], jnp.exp(log_sd)
    log_density = jax.vmap(jax.value_and_grad(program.log_density), (0, None))

    def add(number: Any, total: Any) -> Any:
        half = _at(first + number, blocks)
        spread = sd * half
        values, gradients = log_density(jnp.concatenate([mean + spread, mean - spread]), data)
        up, down = gradients[: len(half)], gradients[len(half) :]
        odd = half.T @ (down - up)
        return total[0] + values.sum(), total[1] + gradients.sum(axis=0), total[2] + odd

    zero = jnp.zeros((), x.dtype), jnp.zeros(dim, x.dtype), jnp.zeros((dim, dim), x.dtype)
    total, slope, products = lax.fori_loop(np.uint32(0), num_blocks.astype(np.uint32), add, zero)
    weight = 1.0 / (2 * blocks.shape[1] * num_blocks)
    products = products * (weight * sd)
    value = -weight * total - 0.5 * dim * (1.0 + _LOG_2PI) - log_sd.sum()
    growth = (jnp.diagonal(products) - 1.0) / _ROOT_2
    gradient = jnp.concatenate([-weight * unit * slope, growth])
    return value, gradient, 0.5 * (products + products.T)


def _start(dim: int, dtype: Any) -> State:
    zero, infinite = jnp.zeros(2 * dim, dtype), jnp.array(jnp.inf, dtype)
    one, none, no = jnp.ones((), dtype), jnp.zeros((), dtype), jnp.zeros((), bool)
    return State(
        x=zero,
        value=infinite,
        gradient=jnp.full(2 * dim, jnp.inf, dtype),
        hessian=jnp.eye(dim, dtype=dtype),
        direction=zero,
        fraction=one,
        reach=one,
        cut=no,
        num_evaluations=jnp.zeros((), int),
        stalled=no,
        pairs=((zero, zero, none), (zero, zero, none)),
        damping=jnp.array(DAMPING, dtype),
        decrement=infinite,
    )


def _descend(
    told: Any, tolerance: jax.Array, dim: int, max_evaluations: Any, longest: jax.Array
) -> State:
    def unfinished(state: State) -> jax.Array:
        going = ~(state.decrement < tolerance) & ~state.stalled
        return going & (state.num_evaluations < max_evaluations)

    def advance(state: State) -> State:
        first = state.num_evaluations == 0
        trial = state.x + state.fraction * state.direction
        value, gradient, hessian = told(trial)
        slope = lax.select(first, 0.0, state.direction @ state.gradient)
        allowed = state.value + ARMIJO * state.fraction * slope + ROUNDING * jnp.abs(state.value)
        finite = jnp.isfinite(value) & jnp.isfinite(gradient).all()
        accepted = finite & (value <= allowed)
        shorter = shorter_fraction(state.fraction, value - state.value, slope)
        forget = ~accepted & (shorter < SHORTEST)
        whole = state.fraction == 1.0
        foretold = state.fraction * (0.5 * state.fraction - 1.0) * slope
        damping = changed_damping(
            state.damping,
            (state.value - value) / foretold,
            ~accepted & ~first,
            accepted & ~first & ~state.cut & whole,
            jnp,
        )
        pairs = _learnt(state, trial, gradient, accepted & ~first, forget)
        x, value, gradient, hessian = (
            lax.select(accepted, new, old)
            for new, old in zip((trial, value, gradient, hessian), state[:4], strict=True)
        )
        direction, decrement, in_sds = _direction(x, gradient, hessian, pairs, damping)
        longer = lax.select(state.cut & whole, 2.0, 1.0) * state.reach
        reach = lax.select(accepted, longer, 1.0)
        excess = jnp.abs(in_sds) / longest
        growth = jnp.max(excess[dim:]) / jnp.minimum(reach, FARTHEST_GROWTH)
        farthest = jnp.maximum(jnp.max(excess[:dim]) / reach, growth)
        anew = accepted | forget
        return State(
            x=x,
            value=value,
            gradient=gradient,
            hessian=hessian,
            direction=lax.select(anew, direction / jnp.maximum(1.0, farthest), state.direction),
            fraction=lax.select(anew, 1.0, shorter),
            reach=reach,
            cut=lax.select(anew, farthest > 1.0, state.cut),
            num_evaluations=state.num_evaluations + 1,
            stalled=(forget & (state.pairs[1][2] == 0.0)) | (first & ~finite),
            pairs=pairs,
            damping=damping,
            decrement=decrement,
        )

    return lax.while_loop(unfinished, advance, _start(dim, longest.dtype))


def _learnt(
    state: State, trial: jax.Array, gradient: jax.Array, learning: jax.Array, forget: jax.Array
) -> Any:
    """Return the last two pairs, with the latest if it is curved."""
    step, change = trial - state.x, gradient - state.gradient
    product = step @ change
    curved = product > 1e-10 * jnp.sqrt((step @ step) * (change @ change))
    older, newer = state.pairs
    latest = step, change, 1.0 / product
    kept = (
        [lax.select(learning & curved, new, old) for new, old in zip(*pair, strict=True)]
        for pair in ((newer, older), (latest, newer))
    )
    return tuple((step, change, lax.select(forget, 0.0, rho)) for step, change, rho in kept)


def _direction(
    x: jax.Array, gradient: jax.Array, hessian: jax.Array, pairs: Any, damping: jax.Array
) -> tuple[jax.Array, ...]:
    """Return minus the damped inverse Hessian times the gradient, the decrement, and in sds."""
    dim = len(hessian)
    scale = jnp.exp(x[dim:] / _ROOT_2)
    ratio = jnp.diagonal(hessian)
    growth = growth_from(ratio, jnp)
    own = gradient[:dim] * scale
    steepest = jnp.maximum(jnp.max(jnp.abs(own)), jnp.max(jnp.abs(gradient[dim:])))
    damping = lax.select(steepest > STEEP, damping * jnp.sqrt(steepest), 0.0)
    (s0, y0, rho0), (s1, y1, rho1) = pairs
    one = rho1 * (s1 @ gradient)
    vector = gradient - one * y1
    zero = rho0 * (s0 @ vector)
    vector = vector - zero * y0
    means, newton = _solved(hessian, damping, jnp.stack([vector[:dim] * scale, own], axis=1))
    decrement = jnp.sqrt(own @ newton + (gradient[dim:] ** 2 / growth).sum())
    vector = jnp.concatenate([means * scale, vector[dim:] / (growth + damping)])
    vector = vector + (zero - rho0 * (y0 @ vector)) * s0
    vector = vector + (one - rho1 * (y1 @ vector)) * s1
    return -vector, decrement, jnp.concatenate([vector[:dim] / scale, vector[dim:]])


def _solved(matrix: jax.Array, damping: jax.Array, columns: jax.Array) -> jax.Array:
    """Solve for two columns by elimination, with pivots raised that are not positive."""
    dim = len(matrix)
    entries = np.arange(dim, dtype=np.uint32)
    rows = jnp.concatenate([matrix + damping * jnp.eye(dim), columns], axis=1)

    def eliminate(j: Any, rows: jax.Array) -> jax.Array:
        j = lax.convert_element_type(j, np.uint32)
        row = lax.dynamic_slice(rows, (j, np.uint32(0)), (1, dim + 2))
        column = lax.dynamic_slice(rows, (np.uint32(0), j), (dim, 1))
        pivot = lax.dynamic_slice(row, (np.uint32(0), j), (1, 1))
        pivot = lax.select(pivot > LEAST_PIVOT, pivot, jnp.maximum(jnp.abs(pivot), RAISED))
        own = (entries == j)[:, None]
        return rows - jnp.where(own, pivot - 1.0, column) * (row / pivot)

    solved = lax.fori_loop(0, dim, eliminate, rows)
    return cast(jax.Array, solved[:, dim:].T)
