"""How far fits have come: the state that compiled code carries from round to round."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.results.status import FitStatus
from vicheck.vi.families.abilities import HasLocation
from vicheck.vi.families.family import Family
from vicheck.vi.families.registry import Kind
from vicheck.vi.quasi_newton import Memory, no_memory

__all__ = [
    "CODES",
    "NEW",
    "RUNNING",
    "Progress",
    "begin",
    "begin_beside",
    "choose",
    "elbos",
    "has_run_away",
    "is_running",
    "status_of",
    "takes_directions",
    "with_more_draws",
]

_TRACE = 64
"""Rounds whose ELBO and gradient are recorded."""

_STATUSES = (
    None,  # not begun
    None,  # still running
    FitStatus.CONVERGED,
    FitStatus.MAX_ITERATIONS,
    FitStatus.STALLED,
    FitStatus.AT_INFINITY,
    FitStatus.NOT_FINITE,
)
CODES = {status: code for code, status in enumerate(_STATUSES) if status is not None}
NEW, RUNNING = range(2)


class Progress(NamedTuple):
    """How far a fit has come: it can stop after any round and continue from here.

    Several fits share one progress, whose arrays then have a leading axis.
    """

    q: Family
    start: Any
    """Where the fit began."""
    directions: Any
    """Along these the mean moves, shape ``(d, d)``; empty where the units of q are used."""
    stale: Any
    """Whether the directions have to be recomputed."""
    newton_steps: Any
    """Steps towards the mode before the first round."""
    shrink: Any
    """Factor by which the first scales differ from what the curvature says."""
    num_chunks: Any
    former_mean: Any
    """Means at the optimum with half the draws."""
    former_sd: Any
    mean: Any
    sd: Any
    memory: Memory
    """What the optimiser knows about the Hessian; nothing when q has moved far since."""
    value: Any
    norm: Any
    """Largest entry of the gradient, in sds."""
    error: Any
    """Largest change of a mean or log sd, in sds, when the draws were last doubled."""
    first_size: Any
    sizes: Any
    """Largest mean or sd at each of the last four times that rounds got stuck."""
    num_evaluations: Any
    num_rounds: Any
    """Since the directions were computed."""
    num_retries: Any
    """How often rounds got stuck."""
    trace: Any
    """ELBO after each round, and the largest entry of its gradient, in sds."""
    num_traced: Any
    code: Any


def begin(
    kind: Kind,
    z: NDArray[np.float64],
    num_chunks: int,
    newton_steps: int = 0,
    shrink: float = 1.0,
) -> Progress:
    """Return the progress of fits that have not begun, from starts of shape ``(n, d)``."""
    return _template(kind, *z.shape)._replace(
        start=np.asarray(z, np.float64),
        newton_steps=np.full(len(z), newton_steps),
        shrink=np.full(len(z), shrink),
        num_chunks=np.full(len(z), num_chunks),
    )


@lru_cache(maxsize=32)
def _template(kind: Kind, num_fits: int, dim: int) -> Progress:
    empty = jax.tree.map(
        lambda leaf: np.zeros((num_fits, *leaf.shape), leaf.dtype), _shapes(kind, dim)
    )
    infinite: Any = np.full((num_fits, dim), np.inf)
    progress: Progress = empty._replace(
        stale=np.ones(num_fits, bool),
        former_mean=infinite,
        former_sd=infinite,
        value=infinite[:, 0],
        norm=infinite[:, 0],
        error=infinite[:, 0],
        sizes=np.full((num_fits, 4), np.nan),
    )
    return progress


def _shapes(kind: Kind, dim: int) -> Progress:
    """Return the shapes and types of the progress of one fit."""

    def of(shape: tuple[int, ...], dtype: Any = np.float64) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]

    one, whole, vector = of(()), of((), np.int64), of((dim,))
    dense = (dim, dim) if kind.is_dense(dim) else (dim,)
    q = kind.shapes(dim)
    return Progress(
        q=q,
        start=vector,
        directions=of(dense if takes_directions(kind, dim) else (0,)),
        stale=of((), bool),
        newton_steps=whole,
        shrink=one,
        num_chunks=whole,
        former_mean=vector,
        former_sd=vector,
        mean=vector,
        sd=vector,
        memory=jax.eval_shape(no_memory, of((q.step_dim,))),
        value=one,
        norm=one,
        error=one,
        first_size=one,
        sizes=of((4,)),
        num_evaluations=whole,
        num_rounds=whole,
        num_retries=whole,
        trace=of((_TRACE, 2)),
        num_traced=whole,
        code=whole,
    )


def takes_directions(kind: Kind, dim: int) -> bool:
    """Whether the mean moves along directions of its own, not along q's scales."""
    return kind.needs_directions and kind.is_dense(dim)


def begin_beside(
    settled: Progress, z: NDArray[np.float64], kind: Kind, num_chunks: int
) -> Progress:
    """Return the progress of a fit that begins with the scales of another, somewhere else.

    A family that cannot be moved begins with the curvature there.
    """
    fresh = begin(kind, z, num_chunks)
    if not isinstance(settled.q, HasLocation):
        return fresh
    return fresh._replace(
        q=settled.q.moved_to(z),
        directions=settled.directions,
        mean=z,
        sd=settled.sd,
        stale=np.zeros(len(z), bool),
        code=np.full(len(z), RUNNING),
    )


def with_more_draws(progress: Progress, some: NDArray[np.bool_]) -> Progress:
    """Let some fits continue with twice the draws they ended with."""
    doubled = progress._replace(
        num_chunks=2 * progress.num_chunks,
        former_mean=progress.mean,
        former_sd=progress.sd,
        num_rounds=np.zeros_like(progress.num_rounds),
        code=np.full_like(progress.code, RUNNING),
    )
    return choose(some, doubled, progress)


def choose(mask: NDArray[np.bool_], one: Progress, other: Progress) -> Progress:
    """Take some fits from one progress and the rest from another."""
    return jax.tree.map(
        lambda a, b: np.where(mask.reshape(-1, *(1,) * (np.ndim(a) - 1)), a, b), one, other
    )


def is_running(progress: Progress) -> NDArray[np.bool_]:
    """Say which fits have not ended."""
    return np.asarray(progress.code) <= RUNNING


def has_run_away(progress: Progress) -> NDArray[np.bool_]:
    """Say which fits have found no optimum at any finite place."""
    return np.asarray(progress.code) == CODES[FitStatus.AT_INFINITY]


def elbos(progress: Progress) -> NDArray[np.float64]:
    """Return the ELBO of each fit; NaN for one that has run away, because it was still rising."""
    return np.where(has_run_away(progress), np.nan, -np.asarray(progress.value))


def status_of(code: Any) -> FitStatus | None:
    """Return how a fit has ended, or None while it is running."""
    return _STATUSES[int(code)]
