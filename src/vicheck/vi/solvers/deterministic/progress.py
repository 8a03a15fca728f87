"""How far fits have come: what is carried from round to round."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.results.status import FitStatus
from vicheck.vi.families.family import Family
from vicheck.vi.families.registry import Kind

__all__ = [
    "CODES",
    "NEW",
    "RUNNING",
    "Progress",
    "begin",
    "choose",
    "elbos",
    "has_run_away",
    "is_running",
    "put",
    "status_of",
    "take",
    "takes_directions",
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
    """How far fits have come: they can stop after any round and continue from here.

    All arrays have a leading axis over the fits.
    """

    q: Family
    start: Any
    """Where a fit began."""
    directions: Any
    """Along these the mean moves, shape ``(d, d)``; empty where the units of q are used."""
    hessian: Any
    """Of ``-log_p``, where the directions were computed; empty where it is not known."""
    stale: Any
    """Whether the directions have to be recomputed."""
    newton_steps: Any
    """Steps towards the mode before the first round."""
    shrink: Any
    """Factor by which the first scales differ from what the curvature says."""
    num_draws: Any
    former_mean: Any
    """Means at the optimum with half the draws."""
    former_sd: Any
    mean: Any
    sd: Any
    value: Any
    norm: Any
    """Largest entry of the gradient, in sds."""
    error: Any
    """Largest change of a mean or log sd, in sds, when the draws were last doubled."""
    first_size: Any
    sizes: Any
    """Largest mean or sd at each of the last four times that rounds got stuck."""
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
    num_draws: int,
    newton_steps: int = 0,
    shrink: float = 1.0,
) -> Progress:
    """Return the progress of fits that have not begun, from starts of shape ``(n, d)``."""
    count, dim = z.shape
    dense = (count, dim, dim) if kind.is_dense(dim) else (count, dim)
    empty = (count, 0)
    zeros, infinite = np.zeros(count), np.full(count, np.inf)
    integers = np.zeros(count, np.int64)
    return Progress(
        q=jax.tree.map(lambda leaf: np.zeros((count, *leaf.shape)), kind.shapes(dim)),
        start=np.array(z, np.float64),
        directions=np.zeros(dense if takes_directions(kind, dim) else empty),
        hessian=np.zeros(dense if takes_directions(kind, dim) else empty),
        stale=np.ones(count, bool),
        newton_steps=np.full(count, newton_steps),
        shrink=np.full(count, shrink),
        num_draws=np.full(count, num_draws),
        former_mean=np.full(z.shape, np.inf),
        former_sd=np.full(z.shape, np.inf),
        mean=np.zeros(z.shape),
        sd=np.zeros(z.shape),
        value=infinite.copy(),
        norm=infinite.copy(),
        error=infinite.copy(),
        first_size=zeros,
        sizes=np.full((count, 4), np.nan),
        num_rounds=integers.copy(),
        num_retries=integers.copy(),
        trace=np.zeros((count, _TRACE, 2)),
        num_traced=integers.copy(),
        code=integers.copy(),
    )


def takes_directions(kind: Kind, dim: int) -> bool:
    """Whether the mean moves along directions of its own, not along q's scales."""
    return kind.needs_directions and kind.is_dense(dim)


def take(progress: Progress, which: Any) -> Progress:
    """Return the progress of some fits."""
    return jax.tree.map(lambda leaf: leaf[which], progress)


def put(progress: Progress, which: Any, some: Progress) -> Progress:
    """Replace the progress of some fits, given by their numbers."""
    if np.array_equal(which, np.arange(len(progress.code))):
        return some

    def replaced(leaf: Any, new: Any) -> Any:
        leaf = np.array(leaf)
        leaf[which] = new
        return leaf

    return jax.tree.map(replaced, progress, some)


def choose(mask: NDArray[np.bool_], one: Progress, other: Progress) -> Progress:
    """Take some fits from one progress and the rest from another."""
    if mask.all():
        return one
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
