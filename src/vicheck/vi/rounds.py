"""The compiled part of the deterministic solver: optimise, take new units, double the draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from vicheck.model import Data, Program
from vicheck.records import FitStatus
from vicheck.vi.compiling import compiled
from vicheck.vi.curvature import Curvature, climb
from vicheck.vi.family import Family, moved
from vicheck.vi.lbfgs import minimise
from vicheck.vi.noise import CHUNK, standardised
from vicheck.vi.objective import objective_of_step

__all__ = [
    "SCOUT_EVALUATIONS",
    "Progress",
    "begin",
    "climb_from",
    "descend",
    "run_rounds",
    "status_of",
    "with_status",
]

SCOUT_EVALUATIONS = 60
_ARRIVED = 0.1
"""Gradient, in sds, at which a scout has found a mode."""

_EVALUATIONS = 100
"""Evaluations from one anchor; then the units are taken afresh."""
_NEAR = 0.5
"""After a step below this many sds the units of the gradient are still right."""
_UNMOVED = 1e-3
"""A stalled round that has moved by less than this many sds will not get any further."""
_LONGEST_SHIFT, _LONGEST_GROWTH = 100.0, 1.0
"""Largest change of a mean, in sds, and of a log sd in one step."""
_INFINITY = 1e8
"""A mean or sd beyond this many times its size at the start has run away."""

_STATUSES = (
    None,  # still running
    FitStatus.CONVERGED,
    FitStatus.MAX_ITERATIONS,
    FitStatus.STALLED,
    FitStatus.AT_INFINITY,
    FitStatus.NOT_FINITE,
)
_RUNNING, _CONVERGED, _MAX_ITERATIONS, _STALLED, _AT_INFINITY, _NOT_FINITE = range(6)


class Progress(NamedTuple):
    """How far a fit has come; rounds can be interrupted after any and go on from here."""

    q: Family
    num_chunks: Any
    former_loc: Any
    """Means at the optimum with half the draws."""
    former_sd: Any
    sd: Any
    value: Any
    norm: Any
    """Largest entry of the gradient, in sds."""
    error: Any
    """Largest change of a mean or log sd, in sds, when the draws were last doubled."""
    first_size: Any
    num_evaluations: Any
    num_rounds: Any
    code: Any


def begin(q: Family, num_chunks: int) -> Progress:
    """Return the progress of a fit that has not begun."""
    # NumPy's numbers have one type each; Python's would compile the rounds twice.
    nothing = np.full(q.dim, np.inf)
    return Progress(
        q=jax.tree.map(lambda leaf: np.asarray(leaf, float), q),
        num_chunks=np.int64(num_chunks),
        former_loc=nothing,
        former_sd=nothing,
        sd=nothing,
        value=np.float64(np.inf),
        norm=np.float64(np.inf),
        error=np.float64(np.inf),
        first_size=np.float64(0.0),
        num_evaluations=np.int64(0),
        num_rounds=np.int64(0),
        code=np.int64(_RUNNING),
    )


def status_of(progress: Progress) -> FitStatus | None:
    """Return how the rounds have ended, or None while they go on."""
    return _STATUSES[int(progress.code)]


def with_status(progress: Progress, status: FitStatus) -> Progress:
    """Return the progress with another end."""
    return progress._replace(code=np.int64(_STATUSES.index(status)))


@compiled
def run_rounds(
    program: Program,
    progress: Progress,
    directions: Any,
    noise: Any,
    data: Data,
    tolerance: Any,
    sampling_tolerance: Any,
    max_chunks: Any,
    max_rounds: Any,
    budget: Any,
) -> Progress:
    """Optimise until the gradient vanishes, double the draws, and so on until q stays the same.

    Stops early after a number of density evaluations, the budget, and can then be called again.
    """
    until = progress.num_evaluations + budget

    def unfinished(now: Progress) -> jax.Array:
        return (now.code == _RUNNING) & (now.num_evaluations < until)

    def advance(now: Progress) -> Progress:
        # Directions that come as a vector are q's own scales, which change as it does.
        moves = directions if directions.ndim == 2 else now.q.sd
        chunks = standardised(noise, now.num_chunks)
        dim, size = now.q.dim, now.q.step_dim
        end = minimise(
            objective_of_step(program, now.q, moves, chunks, now.num_chunks, data),
            jnp.zeros(size, noise.dtype),
            tolerance=tolerance,
            max_evaluations=_EVALUATIONS,
            longest=jnp.where(jnp.arange(size) < dim, _LONGEST_SHIFT, _LONGEST_GROWTH),
        )
        q = now.q.displaced(end.x, moves)
        sd = q.sd
        norm = jnp.max(jnp.abs(end.gradient))
        farthest = jnp.max(jnp.abs(end.x))
        near = (farthest < _NEAR) | (end.num_evaluations == 1)
        # Where a density has kinks, no step may be left that descends although the gradient is
        # not quite zero; what matters is that it is small against the error of the draws.
        flat = (norm < tolerance) | (end.stalled & (norm < sampling_tolerance))
        settled = flat & near
        shift = jnp.max(jnp.abs(q.loc - now.former_loc) / sd)
        growth = jnp.max(jnp.abs(jnp.log(sd / now.former_sd)))
        error = jnp.where(settled, jnp.maximum(shift, growth), now.error)
        done = settled & ((error < sampling_tolerance) | (2 * now.num_chunks > max_chunks))
        doubled = settled & ~done
        largest = jnp.maximum(jnp.max(jnp.abs(q.loc)), jnp.max(sd))
        first_size = jnp.where(now.num_rounds == 0, 1.0 + largest, now.first_size)
        code = jnp.select(
            [
                ~jnp.isfinite(end.value),
                done,
                largest > _INFINITY * first_size,
                end.stalled & (farthest < _UNMOVED) & ~settled,
                now.num_rounds + 1 >= max_rounds,
            ],
            [_NOT_FINITE, _CONVERGED, _AT_INFINITY, _STALLED, _MAX_ITERATIONS],
            _RUNNING,
        ).astype(jnp.int64)
        return Progress(
            q=q,
            num_chunks=jnp.where(doubled, 2 * now.num_chunks, now.num_chunks),
            former_loc=jnp.where(doubled, q.loc, now.former_loc),
            former_sd=jnp.where(doubled, sd, now.former_sd),
            sd=sd,
            value=end.value,
            norm=norm,
            error=error,
            first_size=first_size,
            num_evaluations=now.num_evaluations + end.num_evaluations * now.num_chunks * CHUNK,
            num_rounds=now.num_rounds + 1,
            code=code,
        )

    return lax.while_loop(unfinished, advance, progress)


@compiled
def climb_from(
    program: Program, z: Any, data: Data, max_steps: Any, floor: Any
) -> tuple[jax.Array, Curvature]:
    """Climb the log density by Newton steps; see `vicheck.vi.curvature.climb`."""
    return climb(program, jnp.asarray(z), data, max_steps, floor)


@compiled
def descend(program: Program, starts: Any, directions: Any, data: Data) -> jax.Array:
    """Follow ``-log_p`` downhill from each start, in the units of a fit, to modes; else NaN."""

    def from_start(z: jax.Array) -> jax.Array:
        end = minimise(
            jax.value_and_grad(lambda step: -program.log_density(moved(z, step, directions), data)),
            jnp.zeros_like(z),
            tolerance=_ARRIVED,
            max_evaluations=SCOUT_EVALUATIONS,
            longest=jnp.full_like(z, _LONGEST_SHIFT),
        )
        # A scout that is still on its way has found no mode: down a funnel there is none.
        arrived = jnp.max(jnp.abs(end.gradient)) < _ARRIVED
        return jnp.where(arrived, moved(z, end.x, directions), jnp.nan)

    return lax.map(from_start, jnp.asarray(starts))
