"""The compiled part of the deterministic solver: a fit, or many, from start to end in one call.

A fit runs in rounds. The first starts from the curvature of the posterior and is loose. Each later
one optimises the ELBO on fixed draws; once its gradient vanishes the draws are doubled, until q
stays the same. When rounds get stuck, the units are recomputed from the curvature at q.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from vicheck.model import Data, Program
from vicheck.results.status import FitStatus
from vicheck.runtime.compiling import compiled
from vicheck.vi.curvature import FLATTEST, climb
from vicheck.vi.families.family import Family
from vicheck.vi.families.moments import mean_and_sd
from vicheck.vi.families.registry import Kind
from vicheck.vi.quasi_newton import minimise, no_memory
from vicheck.vi.solvers.deterministic.noise import CHUNK, Noise, standardised
from vicheck.vi.solvers.deterministic.objective import objective_of_step
from vicheck.vi.solvers.deterministic.progress import (
    CODES,
    NEW,
    RUNNING,
    Progress,
    takes_directions,
)

__all__ = ["LOOSE", "Limits", "run_rounds"]

LOOSE = 0.1
"""Gradient, in sds, that is small enough before the units are right."""
_EVALUATIONS, _LONG = 40, 100
"""Evaluations per round; more where the units cannot be recomputed from the curvature."""
_NEAR = 1.0
"""After a step below this many sds the units of the gradient are still right."""
_UNMOVED = 1e-3
"""A stalled round that has moved by less than this many sds will not get any further."""
_LONGEST_SHIFT, _LONGEST_GROWTH = 100.0, 1.0
"""Largest change of a mean, in sds, and of a log sd in one step."""
_INFINITY = 1e8
"""A mean or sd beyond this many times its size at the start has run away."""
_LEAST_PRECISION = 0.1
"""Curvature, in units of q's own precisions, below which the density counts as flat."""
_ROUNDS, _PATIENCE = 12, 8
"""Rounds before the curvature is computed again, and how often that may happen."""


class Limits(NamedTuple):
    """When to stop."""

    tolerance: Any
    sampling_tolerance: Any
    max_chunks: Any
    budget: Any
    """Density evaluations of one call; the next call continues from there."""


@compiled("log_density")
def run_rounds(
    what: tuple[Program, Kind],
    progress: Progress,
    noise: Noise,
    own: Data,
    shared: Data,
    limits: Limits,
) -> Progress:
    """Continue fits, one after another, until each has ended or has used up its budget.

    One after another, because fits of one batch take very different numbers of steps, and
    because the draws of one fit fill a processor's registers already.
    """

    def of_lane(lane: tuple[Progress, Any, Data]) -> Progress:
        its_noise = noise._replace(shift=lane[1])
        return _run_rounds_of_one(*what, lane[0], its_noise, shared | lane[2], limits)

    return lax.map(of_lane, (progress, noise.shift, own))


def _run_rounds_of_one(
    program: Program, kind: Kind, progress: Progress, noise: Noise, data: Data, limits: Limits
) -> Progress:
    until = progress.num_evaluations + limits.budget

    def unfinished(now: Progress) -> jax.Array:
        return (now.code <= RUNNING) & (now.num_evaluations < until)

    def next_round(now: Progress) -> Progress:
        # Only what may change goes through the branches, which copy it.
        q, directions = lax.cond(
            now.stale,
            partial(_fresh_units, program, kind, data),
            lambda same: (same.q, same.directions),
            now,
        )
        now = now._replace(q=q, directions=directions)
        return _round(program, kind, now, noise, data, limits)

    return lax.while_loop(unfinished, next_round, progress)


def _fresh_units(
    program: Program, kind: Kind, data: Data, now: Progress
) -> tuple[Family, jax.Array]:
    """Return q, at the start made from the curvature, and directions from the curvature there."""
    first = now.code == NEW
    z, curvature = climb(
        program,
        jnp.where(first, now.start, now.mean),
        data,
        jnp.where(first, now.newton_steps, 0),
        jnp.where(first, FLATTEST, _LEAST_PRECISION / jnp.square(now.sd)),
        kind.is_dense(program.dim),
    )
    start = kind.start(z, curvature, now.shrink)
    q = jax.tree.map(lambda new, old: jnp.where(first, new, old), start, now.q)
    return q, curvature.directions if now.directions.size else now.directions


def _round(
    program: Program, kind: Kind, now: Progress, noise: Noise, data: Data, limits: Limits
) -> Progress:
    first = now.code == NEW
    # Where no directions are kept they are q's own units, which change as it does.
    moves = now.directions if now.directions.size else now.q.units()
    dim, size = now.q.dim, now.q.step_dim
    no_step = jnp.zeros(size, now.start.dtype)
    tolerance = jnp.where(first, LOOSE, limits.tolerance)
    draws = standardised(noise, now.num_chunks, kind.is_dense(dim))
    end = minimise(
        objective_of_step(program, now.q, moves, draws, now.num_chunks, data),
        no_step,
        tolerance=tolerance,
        max_evaluations=_EVALUATIONS if takes_directions(kind, dim) else _LONG,
        longest=jnp.where(jnp.arange(size) < now.q.num_shifts, _LONGEST_SHIFT, _LONGEST_GROWTH),
        memory=jax.tree.map(
            lambda kept, fresh: jnp.where(now.memory.num_pairs > 0, kept, fresh),
            now.memory,
            no_memory(no_step),
        ),
    )
    q = now.q.displaced(end.x, moves)
    mean, sd = mean_and_sd(q)
    norm = jnp.max(jnp.abs(end.gradient))
    farthest = jnp.max(jnp.abs(end.x))
    near = (farthest < _NEAR) | (end.num_evaluations == 1)
    # Where a density has kinks, no step may be left that descends although the gradient is not
    # quite zero; what matters is that it is small against the error of the draws.
    flat = (norm < tolerance) | (end.stalled & (norm < limits.sampling_tolerance))
    settled = flat & near & ~first
    shift = jnp.max(jnp.abs(mean - now.former_mean) / sd)
    growth = jnp.max(jnp.abs(jnp.log(sd / now.former_sd)))
    error = jnp.where(settled, jnp.maximum(shift, growth), now.error)
    done = settled & (
        (error < limits.sampling_tolerance) | (2 * now.num_chunks > limits.max_chunks)
    )
    doubled = settled & ~done

    largest = jnp.maximum(jnp.max(jnp.abs(mean)), jnp.max(sd))
    first_size = jnp.where(now.num_rounds == 0, 1.0 + largest, now.first_size)
    unmoved = end.stalled & (farthest < _UNMOVED) & ~settled
    stuck = ~first & ~done & (unmoved | (now.num_rounds + 1 >= _ROUNDS))
    sizes = jnp.where(stuck, jnp.roll(now.sizes, -1).at[-1].set(largest), now.sizes)
    # Stuck four times, and larger each time: there is no optimum.
    growing = stuck & (jnp.diff(sizes) > 0.0).all() & (sizes[-1] > 1.2 * sizes[0])
    again = first | stuck
    code = jnp.select(
        [
            ~jnp.isfinite(end.value),
            done,
            ~first & (growing | (largest > _INFINITY * first_size)),
            stuck & (now.num_retries >= _PATIENCE),
        ],
        [
            CODES[FitStatus.NOT_FINITE],
            CODES[FitStatus.CONVERGED],
            CODES[FitStatus.AT_INFINITY],
            jnp.where(unmoved, CODES[FitStatus.STALLED], CODES[FitStatus.MAX_ITERATIONS]),
        ],
        RUNNING,
    ).astype(jnp.int64)

    def former(latest: jax.Array, kept: jax.Array) -> jax.Array:
        return jnp.where(doubled, latest, jnp.where(again, jnp.inf, kept))

    # Far from where the units were computed they say little, least of all about an optimum.
    stale = (stuck | ~near) & takes_directions(kind, dim)
    known = jnp.where(near & ~stale, end.memory.num_pairs, 0)
    return now._replace(
        q=q,
        stale=stale,
        num_chunks=jnp.where(doubled, 2 * now.num_chunks, now.num_chunks),
        former_mean=former(mean, now.former_mean),
        former_sd=former(sd, now.former_sd),
        mean=mean,
        sd=sd,
        memory=end.memory._replace(num_pairs=known),
        value=end.value,
        norm=norm,
        error=error,
        first_size=first_size,
        sizes=sizes,
        num_evaluations=now.num_evaluations + end.num_evaluations * now.num_chunks * CHUNK,
        num_rounds=jnp.where(again, 0, now.num_rounds + 1),
        num_retries=now.num_retries + stuck,
        trace=now.trace.at[now.num_traced].set(jnp.stack([-end.value, norm]), mode="drop"),
        num_traced=now.num_traced + 1,
        code=code,
    )
