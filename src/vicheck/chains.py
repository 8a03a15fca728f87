"""Short chains: a few HMC steps of many chains that start at draws of q, all in one batch.

If q is the posterior, chains that leave its posterior alone leave its draws as they were, on
average. If not, they move towards the posterior, and how far they move in a few steps is a lower
bound on how far off q is, with a sign, quantity by quantity (after Wang, Kasprzak and Huggins,
2023). It needs no ratios, so it works in high dimension, where khat is high for every q. Chains do
not pass between modes either: what q never visits they will not see. Everything is NumPy on the
host but the density and its gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.runtime.timing import Timed, TooSlowError
from vicheck.stats.stretches import Stretch, StretchSums
from vicheck.vi.families.abilities import HasRoots
from vicheck.vi.families.family import MAX_DENSE_DIM, Family
from vicheck.vi.families.moments import covariance_of, sd_of

__all__ = [
    "Ends",
    "Plan",
    "Roots",
    "plan_chains",
    "resampled",
    "roots_of_draws",
    "roots_of_q",
    "run_chains",
]

Floats = NDArray[np.float64]
Evaluate = Callable[[Floats], tuple[Floats, Floats]]
"""Log densities and gradients at points, shape ``(n, d)``."""

NUM_CHAINS, FEWEST_CHAINS = 1024, 256
"""Chains of small models, and of those whose gradients are dear: with fewer, the error of a mean
would be above a tenth of an sd."""
NUM_GRADIENTS, FEWEST_GRADIENTS = 128, 32
"""Gradients for each chain, after the step size was found."""
_FREE = 2**29
"""Numbers, of parameters and data times gradients, that are worked through in about a second."""
_GRADIENT = 3
"""What a gradient costs, in densities."""

_ONE_THREAD, _FEWEST_ROWS = 2**18, 8
"""Multiplications up to which OpenBLAS uses one thread, and rows with which that is worth it."""
_TARGET = 0.75
"""Acceptance that the step size is adapted to; between 0.65 and 0.8 costs differ little."""
_SMALLEST, _LARGEST = 2.0**-20, 2.0**12
"""Bounds of the step size, in sds of q."""
_FIRST_STEPS = 4
"""Steps of a chain after which its surroundings are those that the step size has to suit."""
_JITTER = 0.4
"""Part of the step size by which it may be shorter, at random, in each chain and step."""


class Plan(NamedTuple):
    """How many chains to run, and for how long."""

    num_chains: int
    num_gradients: int
    """Of each chain."""
    is_affordable: bool = True


def plan_chains(num_numbers: int, num_draws: int) -> Plan:
    """Return how many chains to run so that they cost about a second, or as much as the check.

    It depends on sizes alone, never on the clock: the same seed gives the same bits. If the fewest
    chains worth running would cost more, these are returned as not affordable.

    Parameters
    ----------
    num_numbers
        Numbers that one evaluation of the density goes through: parameters and data.
    num_draws
        Draws of q whose density the check has evaluated.

    Examples
    --------
    >>> plan_chains(num_numbers=26, num_draws=100_000)
    Plan(num_chains=1024, num_gradients=128, is_affordable=True)
    >>> plan_chains(num_numbers=100_101, num_draws=100_000)
    Plan(num_chains=256, num_gradients=128, is_affordable=True)
    """
    affordable = max(_FREE // max(1, num_numbers), num_draws // _GRADIENT)
    wanted = NUM_CHAINS
    while wanted > FEWEST_CHAINS and wanted * NUM_GRADIENTS > affordable:
        wanted //= 2
    gradients = min(NUM_GRADIENTS, affordable // wanted)
    return Plan(wanted, max(FEWEST_GRADIENTS, gradients), gradients >= FEWEST_GRADIENTS)


@dataclass(frozen=True, eq=False)
class Roots:
    """A covariance as what it is made of, ``diag(D)^2 + F F'``: what chains are preconditioned by.

    Momenta are standard normal, one for each entry of D and each column of F; a chain moves along
    their image. That is HMC with this covariance as the inverse of the mass matrix, and never
    factors it.
    """

    diagonal: Floats
    """D, shape ``(d,)``, or empty."""
    factor: Floats
    """F, shape ``(d, k)``."""

    @property
    def num_momenta(self) -> int:
        """Length of a momentum."""
        return len(self.diagonal) + self.factor.shape[1]

    def moves(self, momenta: Floats) -> Floats:
        """Return the directions in which momenta, shape ``(n, m)``, move z."""
        own, shared = np.split(momenta, [len(self.diagonal)], axis=1)
        along = _product(shared, self.factor.T) if shared.shape[1] else 0.0
        return np.asarray(own * self.diagonal + along if len(self.diagonal) else along)

    def forces(self, gradients: Floats) -> Floats:
        """Return by how much gradients of the log density, shape ``(n, d)``, change momenta."""
        parts = [gradients * self.diagonal] if len(self.diagonal) else []
        if self.factor.shape[1]:
            parts.append(_product(gradients, self.factor))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _product(rows: Floats, matrix: Floats) -> Floats:
    """Return a product of matrices, a few rows at a time where that keeps it on one thread.

    Threads of BLAS and of the compiled density take turns here, several hundred times, and wait for
    each other longer than a small product takes.
    """
    some = _ONE_THREAD // max(1, matrix.size)
    if some < _FEWEST_ROWS:
        return rows @ matrix
    blocks = range(0, len(rows), some)
    return np.concatenate([rows[first : first + some] @ matrix for first in blocks])


def roots_of_q(q: Family) -> Roots:
    """Return what the covariance of q is made of; in high dimension perhaps its sds alone."""
    if isinstance(q, HasRoots):
        return Roots(*q.roots())
    if q.dim <= MAX_DENSE_DIM:
        return _factored(np.asarray(covariance_of(q)))
    return _scales(np.asarray(sd_of(q)))


def roots_of_draws(z: Floats) -> Roots:
    """Return the same, estimated from draws of q, of which there should be many."""
    z = z[np.isfinite(z).all(axis=1)]
    dim = z.shape[1]
    if dim > MAX_DENSE_DIM or len(z) < 10 * dim:
        return _scales(z.std(axis=0) if len(z) else np.ones(dim))
    return _factored(np.atleast_2d(np.cov(z, rowvar=False)))


def _factored(covariance: Floats) -> Roots:
    try:
        return Roots(np.empty(0), np.asarray(np.linalg.cholesky(covariance), np.float64))
    except np.linalg.LinAlgError:
        return _scales(np.sqrt(np.diagonal(covariance)))


def _scales(sd: Floats) -> Roots:
    usable = np.isfinite(sd) & (sd > 0.0)
    return Roots(np.where(usable, sd, 1.0), np.empty((len(sd), 0)))


def resampled(weights: Floats, num_starts: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return rows of weighted draws, as many of each as its weight asks for, up to rounding.

    One random number decides for all (systematic resampling): the expected number of each row is
    right, and no row comes twice whose share is below one.
    """
    shares = np.cumsum(weights)
    at = (np.arange(num_starts) + rng.random()) / num_starts * shares[-1]
    return np.minimum(np.searchsorted(shares, at, side="right"), len(shares) - 1)


class Ends(NamedTuple):
    """Where chains have come to."""

    kept: NDArray[np.intp]
    """Which starts had a finite density; chains began at no others."""
    values: Floats
    """What was looked at, at the end of each of these chains, shape ``(n, Q)``."""
    middle: Stretch
    """During an eighth of the steps, from the middle on."""
    late: Stretch
    """During the last quarter of the steps."""
    heights: tuple[Floats, Floats]
    """Log density of each chain, in the middle and at the end, shape ``(n,)`` each."""
    num_steps: int
    num_gradients: int
    """Of each chain, after the step size was found."""
    step_size: float
    """In sds of q."""
    acceptance: float
    """Mean over chains and steps."""


@dataclass
class _State:
    """Where chains are, with log density and gradient there."""

    z: Floats
    value: Floats
    gradient: Floats

    @classmethod
    def where_finite(cls, evaluate: Evaluate, z: Floats) -> tuple[NDArray[np.intp], _State]:
        """Return which points have a finite density and gradient, and the state of chains there."""
        state = cls(z, *evaluate(z))
        rows = np.flatnonzero(state.is_finite())
        return rows, cls(state.z[rows], state.value[rows], state.gradient[rows])

    def is_finite(self) -> NDArray[np.bool]:
        return np.isfinite(self.value) & np.isfinite(self.gradient).all(axis=1)

    def chosen(self, other: _State, where: NDArray[np.bool]) -> _State:
        """Return the other state where that is said, and this one elsewhere."""
        rows = where[:, None]
        return _State(
            np.where(rows, other.z, self.z),
            np.where(where, other.value, self.value),
            np.where(rows, other.gradient, self.gradient),
        )


def run_chains(
    evaluate: Evaluate,
    look: Callable[[Floats], Floats],
    starts: Floats,
    roots: Roots,
    num_gradients: int,
    rng: np.random.Generator,
    *,
    num_pilots: int | None = None,
    most_seconds: float = np.inf,
) -> Ends | None:
    """Run one chain from each start.

    The step size is adapted once, on chains that start at the same points and are thrown away, and
    stays as it is. All chains take the same number of leapfrog steps, newly drawn at random for
    each step of the chain; the lengths of these differ from chain to chain.

    Parameters
    ----------
    evaluate
        Returns log densities and gradients.
    look
        Returns quantities, shape ``(n, Q)``, at points.
    starts
        Shape ``(n, d)``.
    roots
        What chains are preconditioned by.
    num_gradients
        How often a chain may ask for the gradient.
    rng
        Where random numbers come from.
    num_pilots
        Chains with which the step size is found, if not with all.
    most_seconds
        If the gradients are foreseen to take longer, None is returned.
    """
    mean_leapfrogs = max(4, round(1.2 * starts.shape[1] ** 0.25))
    clock = Timed(evaluate, most_seconds / (len(starts) * num_gradients))
    with np.errstate(all="ignore"):  # trajectories may go anywhere; what is not finite is rejected
        try:
            for some in (starts[:num_pilots], starts):
                kept, state = _State.where_finite(clock, some)
                if len(kept):
                    break
            else:
                nothing = look(starts[:1])[:0]
                stretch = Stretch(nothing, nothing)
                heights = np.empty(0), np.empty(0)
                return Ends(kept, nothing, stretch, stretch, heights, 0, 0, np.nan, np.nan)
            step_size = _adapted(clock, state, roots, mean_leapfrogs, rng)
            if len(some) < len(starts):
                kept, state = _State.where_finite(clock, starts)
        except TooSlowError:
            return None
        schedule = _schedule(num_gradients, mean_leapfrogs, rng)
        steps = len(schedule)
        middle, late, accepted = StretchSums(), StretchSums(), 0.0
        first, last = (steps - 1) // 2, steps - max(1, steps // 4)
        halfway = range(first, first + max(1, steps // 8))
        for index, leapfrogs in enumerate(schedule):
            state, probability = _step(evaluate, state, roots, step_size, leapfrogs, rng)
            accepted += float(probability.mean())
            if index == first:
                midway = state.value
            if index in halfway or index >= last:
                values = look(state.z)
                if index in halfway:
                    middle.add(values)
                if index >= last:
                    late.add(values)
        stretches = middle.stretch(), late.stretch()
    heights, gradients = (midway, state.value), sum(schedule)
    return Ends(kept, values, *stretches, heights, steps, gradients, step_size, accepted / steps)


def _schedule(num_gradients: int, mean_leapfrogs: int, rng: np.random.Generator) -> list[int]:
    """Return the numbers of leapfrog steps of all steps of a chain, at random."""
    lengths: list[int] = []
    while (left := num_gradients - sum(lengths)) > 0:
        lengths.append(min(left, int(rng.integers(1, 2 * mean_leapfrogs))))
    return lengths


def _adapted(
    evaluate: Evaluate, state: _State, roots: Roots, leapfrogs: int, rng: np.random.Generator
) -> float:
    """Return the step size with which chains are accepted as often as they should.

    Where they begin it is found roughly, and once they have moved a little, closely: draws of a q
    that is too narrow, or misses the neck of a funnel, know nothing of where chains will go.
    """
    rough = _searched(evaluate, state, roots, 1.0, 1, leapfrogs, rng)
    for _ in range(_FIRST_STEPS):
        state, _ = _step(evaluate, state, roots, rough, leapfrogs, rng)
    return _searched(evaluate, state, roots, rough, 3, leapfrogs, rng)


def _searched(
    evaluate: Evaluate,
    state: _State,
    roots: Roots,
    step_size: float,
    halvings: int,
    leapfrogs: int,
    rng: np.random.Generator,
) -> float:
    """Return a step size by doubling or halving a first one, and closing in on what lies between.

    All are tried with the same random numbers, so that acceptance falls as the step size grows.
    """
    seed = int(rng.integers(2**63))

    def is_too_long(step_size: float) -> bool:
        again = np.random.default_rng(seed)
        _, probability = _step(evaluate, state, roots, step_size, leapfrogs, again)
        return bool(probability.mean() < _TARGET)

    too_long = is_too_long(step_size)
    factor = 0.5 if too_long else 2.0
    while _SMALLEST < step_size < _LARGEST:
        step_size *= factor
        if is_too_long(step_size) != too_long:
            break
    low, high = sorted((step_size, step_size / factor))
    for _ in range(halvings):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if is_too_long(middle) else (middle, high)
    return low


def _step(
    evaluate: Evaluate,
    state: _State,
    roots: Roots,
    step_size: float,
    leapfrogs: int,
    rng: np.random.Generator,
) -> tuple[_State, Floats]:
    """Return where one step of HMC leads, and the probabilities with which it was accepted."""
    size = len(state.z)
    sizes = step_size * (1.0 - _JITTER * rng.random((size, 1)))
    momenta = rng.standard_normal((size, roots.num_momenta))
    thresholds = np.log(rng.random(size))
    before = state.value - 0.5 * np.square(momenta).sum(axis=1)
    now, alive = state, np.ones(size, bool)
    momenta += 0.5 * sizes * roots.forces(now.gradient)
    for index in range(leapfrogs):
        z = now.z + sizes * roots.moves(momenta)
        alive &= np.isfinite(z).all(axis=1)
        z = np.where(alive[:, None], z, state.z)  # the density is asked for no nonsense
        there = _State(z, *evaluate(z))
        alive &= there.is_finite()
        now = state.chosen(there, alive)
        last = index == leapfrogs - 1
        momenta += (0.5 if last else 1.0) * sizes * roots.forces(now.gradient)
    gain = now.value - 0.5 * np.square(momenta).sum(axis=1) - before
    gain = np.where(alive & ~np.isnan(gain), gain, -np.inf)
    return state.chosen(now, thresholds < gain), np.exp(np.minimum(gain, 0.0))
