"""Rounds: fits of the same number of draws, carried on together, until the draws are doubled.

The first round of a fit starts from the curvature of the posterior and is loose. Each later one
optimises the ELBO on fixed draws; once its gradient vanishes the draws are doubled, until q stays
the same. When rounds get stuck, the units are recomputed from the curvature at q.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.results.status import FitStatus
from vicheck.vi.charts.chart import Chart
from vicheck.vi.curvature import FLATTEST, Curvature, climb, precisions_by_draws
from vicheck.vi.density import Density, Lanes
from vicheck.vi.families.family import Family
from vicheck.vi.families.registry import Kind
from vicheck.vi.guided import Ended, Guided
from vicheck.vi.guided import guided as guided_memory
from vicheck.vi.quasi_newton import Memory, Minimum, minimise, no_memory
from vicheck.vi.solvers.deterministic.compiled import CompiledLoop
from vicheck.vi.solvers.deterministic.compiled_guided import GuidedLoop
from vicheck.vi.solvers.deterministic.noise import make_noise, standardised
from vicheck.vi.solvers.deterministic.objective import Evaluated, Objective
from vicheck.vi.solvers.deterministic.progress import (
    CODES,
    NEW,
    RUNNING,
    Progress,
    begin,
    take,
    takes_directions,
)

__all__ = ["Limits", "Rounds"]

Floats = NDArray[np.float64]

_CAUTIOUS = 0.5
"""Scale of a start, in those of its curvature, where that is told at each step: to grow is easier
than to be far out where the density is very steep."""
_WIDEST = 1.0
"""Widest scale of a start from which no Newton step was taken, before it is made smaller: the
logarithm of a scale may seem flat there, and a density of e to the ten is beyond all curvature."""
_NARROWING = 100.0
"""Factor by which a second derivative may grow in a Newton step to where such a fit begins."""
_LOOSE = 0.1
"""Gradient, in sds, that is small enough before the units are right."""
_COARSE = 0.2
"""Gradient, in errors of the draws that are tolerated, that is small enough before the last."""
_FIRST, _EVALUATIONS, _LONG = 12, 40, 100
"""Evaluations per round: few in the first, whose units are those of the start, and more where units
cannot be recomputed from the curvature."""
_NEAR = 1.0
"""After a step below this many sds the units of the gradient are still right."""
_UNMOVED = 1e-3
"""A round that has ended without an optimum, and has moved by less than this many sds, will not get
any further."""
_LONGEST_SHIFT, _LONGEST_GUIDED, _LONGEST_GROWTH = 100.0, 10.0, 1.0
"""Largest change of a mean, in sds, and of a log sd in one step; where sds are those of now, it is
smaller."""
_INFINITY = 1e8
"""A mean or sd beyond this many times its size at the start has run away."""
_LEAST_PRECISION = 0.1
"""Curvature, in units of q's own precisions, below which the density counts as flat."""
_AGREEING = 3.0
"""Factor up to which the curvature and q's scales agree."""
_ROUNDS, _PATIENCE, _ROUNDS_GUIDED, _PATIENCE_GUIDED = 12, 8, 2, 4
"""Rounds before the curvature is computed again, and how often that may happen; fewer where it is
always known."""


def _tolerances(now: Progress, limits: Limits, guided: bool) -> Floats:
    """Return how small each gradient has to become in this round.

    Before it is known that there are enough draws, their error hides what a small gradient adds.
    But not if rounds got stuck: on its way to infinity a gradient is small too, and more draws
    would only cost more.
    """
    last = (now.error < limits.sampling_tolerance) | (2 * now.num_draws > limits.max_draws)
    last |= now.num_retries > 0
    coarse = max(limits.tolerance, min(_LOOSE, _COARSE * limits.sampling_tolerance))
    tolerance = np.where(last, limits.tolerance, coarse)
    return tolerance if guided else np.where(now.code == NEW, _LOOSE, tolerance)


def _trusted(hessian: Floats, now: Progress) -> Floats:
    """Return Hessians with zeros where q's scales are not those of a density so curved.

    At the optimum of a quadratic density the curvature times the square of a scale is 1. And where
    rounds got stuck, the density is not quadratic enough: what is taken away can outweigh it.
    """
    curvature = np.diagonal(hessian, axis1=1, axis2=2) * np.square(now.sd)
    agrees = (curvature > 1.0 / _AGREEING) & (curvature < _AGREEING)
    agrees &= (now.num_retries == 0)[:, None]
    return np.where(agrees[:, :, None] & agrees[:, None, :], hessian, 0.0)


def _placed(now: Progress, chart: Chart) -> Progress:
    """Return the progress with the mean and sds of new fits, which have just got their q."""
    new = (now.code == NEW)[:, None]
    if not new.any():
        return now
    mean, sd = chart.mean_and_sd(np.zeros((len(new), chart.step_dim)))
    return now._replace(mean=np.where(new, mean, now.mean), sd=np.where(new, sd, now.sd))


def _tells_curvature(kind: Kind, dim: int) -> bool:
    """Whether charts of a family tell the curvature, and its matrices can be factored."""
    one = begin(kind, np.zeros((1, dim)), 1).q if takes_directions(kind, dim) else None
    return one is not None and one.chart(np.ones((1, dim))).tells_curvature


class Limits(NamedTuple):
    """When to stop."""

    tolerance: float
    sampling_tolerance: float
    max_draws: int


class Rounds:
    """Carries fits on, one round at a time.

    Parameters
    ----------
    density
        The log density, with a lane for each fit.
    kind
        The family.
    seeds
        Of the noise of each fit.
    """

    def __init__(self, density: Density, kind: Kind, seeds: NDArray[np.int64]) -> None:
        self.density, self.kind, self.seeds = density, kind, seeds
        self.dim = density.dim
        self.noise_dim = kind.noise_dim(density.dim)
        self._tells_curvature = _tells_curvature(kind, density.dim)
        self._loop, self._guided_loop = CompiledLoop(density), GuidedLoop(density)
        self._memory = no_memory(len(seeds), kind.shapes(density.dim).step_dim)
        """What the optimiser has learnt in the last round of each fit."""
        self._noise: tuple[Lanes, Floats] = (np.zeros(0, np.intp), np.zeros((0, 0, 0)))
        """Lanes of a recent round, in order, and the noise of half their draws."""
        self._evaluated: Evaluated | None = None
        """The draws where the only fit is, from the end of the last round."""

    def run(self, lanes: Lanes, now: Progress, limits: Limits) -> Progress:
        """Return the progress after one round; all these fits have the same number of draws."""
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            guided = self.is_guided(int(now.num_draws[0]))
            now = self._with_fresh_units(lanes, now, guided)
            chart = self._chart(now, guided)
            now = _placed(now, chart)
            most = _LONG
            if takes_directions(self.kind, self.dim) and not guided:
                most = _FIRST if (now.code == NEW).all() else _EVALUATIONS
            end = self._optimise(lanes, now, chart, limits, most, guided)
            after = self._judged(now, chart, end, limits, guided)
        if guided:
            return after
        near = np.abs(end.x).max(axis=1) < _NEAR
        self._remember(lanes, end.memory, near & ~after.stale)
        return after

    def compile(self, num_draws: int) -> bool:
        """Compile the loop of rounds that run in one, and evaluate nothing.

        Return whether fits can begin and end in it.
        """
        now = begin(self.kind, np.zeros((len(self.seeds), self.dim)), num_draws)
        lanes = np.arange(len(self.seeds))
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            guided = self.is_guided(num_draws)
            chart, limits = self._chart(now, guided), Limits(1.0, 1.0, num_draws)
            self._optimise(lanes, now, chart, limits, 0, guided)
        return self.begins_in_a_loop(num_draws)

    def begins_in_a_loop(self, num_draws: int) -> bool:
        """Whether fits begin in a compiled loop, and are best begun without any other code."""
        return self.is_guided(num_draws) and self._guided_loop.is_worth_compiling

    def is_guided(self, num_draws: int) -> bool:
        """Whether gradients at so many draws tell the curvature averaged over q."""
        return self._tells_curvature and num_draws // 2 >= self.noise_dim

    def forget(self, lanes: Lanes) -> None:
        """Forget what was learnt about some fits, which begin anew."""
        self._memory.forget(np.isin(np.arange(len(self.seeds)), lanes))
        self._evaluated = None

    def _recall(self, lanes: Lanes) -> Memory:
        return self._memory if len(lanes) == len(self.seeds) else self._memory.take(lanes)

    def _remember(self, lanes: Lanes, memory: Memory, valid: NDArray[np.bool_]) -> None:
        memory.forget(~valid)
        if memory is not self._memory:
            self._memory.put(lanes, memory)

    def _with_fresh_units(self, lanes: Lanes, now: Progress, guided: bool) -> Progress:
        """Return the progress with directions from the curvature, and new fits with their q."""
        stale = np.flatnonzero(now.stale)
        if not len(stale):
            return now
        first = now.code[stale] == NEW
        # Fits of one batch begin together, so that all of them are new or none is.
        fresh = bool(first.all())
        newton_steps = int(now.newton_steps[stale].max()) if fresh else 0
        if guided and fresh and not newton_steps:
            return self._begun_from_draws(lanes, now, stale)
        z, curvature = climb(
            self.density,
            lanes[stale],
            now.start[stale] if fresh else now.mean[stale],
            newton_steps,
            FLATTEST if fresh else _LEAST_PRECISION / np.square(now.sd[stale]),
            self.kind.is_dense(self.dim),
            _NARROWING if guided else np.inf,
        )
        now = jax.tree.map(np.array, now)
        if fresh:
            # Where no step was taken the curvature says little about what is farther away.
            held = guided & (z == now.start[stale]).all(axis=1)
            shrink = now.shrink[stale] * np.where(held, _CAUTIOUS, 1.0)
            started = self.kind.starts(z, curvature, shrink)
            for leaf, new in zip(jax.tree.leaves(now.q), jax.tree.leaves(started), strict=True):
                leaf[stale] = new
        if now.directions.size:
            now.directions[stale], now.hessian[stale] = curvature.directions, curvature.hessian
        return now

    def _begun_from_draws(self, lanes: Lanes, now: Progress, new: NDArray[np.intp]) -> Progress:
        """Return the progress with the q of new fits, whose scales draws around them tell."""
        z, some = now.start[new], take(now, new)

        def told(sd: Floats, which: NDArray[np.intp]) -> tuple[Floats, NDArray[np.bool_]]:
            near = take(some, which)._replace(q=self._around(z[which], sd**-2.0))
            chart, limits = self._chart(near, guided=True), Limits(1.0, 1.0, int(now.num_draws[0]))
            end = self._optimise(lanes[new][which], near, chart, limits, 1, True)
            self._evaluated = None  # which is of other draws than the fit begins with
            assert isinstance(end.memory, Guided | Ended)
            return np.diagonal(end.memory.hessian, axis1=1, axis2=2), np.isfinite(end.value)

        precisions = np.maximum(np.abs(precisions_by_draws(told, z)), _WIDEST**-2.0)
        shrink = now.shrink[new, None] * _CAUTIOUS
        q = self._around(z, precisions / np.square(shrink))
        now = jax.tree.map(np.array, now)
        for leaf, started in zip(jax.tree.leaves(now.q), jax.tree.leaves(q), strict=True):
            leaf[new] = started
        return now

    def _around(self, z: Floats, precisions: Floats) -> Family:
        curvature = Curvature(1.0 / np.sqrt(precisions), precisions)
        return self.kind.starts(z, curvature, np.ones(len(z)))

    def _chart(self, now: Progress, guided: bool) -> Chart:
        if not self.kind.needs_directions or (now.directions.size and not guided):
            return now.q.chart(now.directions)
        # Where no other directions are kept they are q's own units, which change as it does.
        still = np.zeros((len(now.code), self.kind.shapes(self.dim).step_dim))
        _, sd = now.q.chart(np.zeros_like(now.start)).mean_and_sd(still)
        return now.q.chart(sd)

    def _optimise(
        self,
        lanes: Lanes,
        now: Progress,
        chart: Chart,
        limits: Limits,
        most: int,
        is_guided: bool,
    ) -> Minimum:
        """Minimise minus the ELBO on fixed draws, with this many evaluations at most."""
        size = chart.step_dim
        half = self._half(lanes, int(now.num_draws[0]))
        exact = is_guided or half.shape[1] >= 2 * self.noise_dim
        objective = Objective(
            self.density,
            lanes,
            chart,
            half,
            None if exact or not now.hessian.size else _trusted(now.hessian, now),
            self._evaluated,
        )
        memory = guided_memory(len(lanes), self.dim) if is_guided else self._recall(lanes)
        how: dict[str, Any] = {
            "tolerance": _tolerances(now, limits, is_guided),
            "max_evaluations": most,
            "longest": np.where(
                np.arange(size) < chart.num_shifts,
                _LONGEST_GUIDED if is_guided else _LONGEST_SHIFT,
                _LONGEST_GROWTH,
            ),
            "memory": memory,
        }
        loop = self._guided_loop if is_guided else self._loop
        if loop.takes(objective, memory):
            return loop(objective, **how)
        function = objective.with_curvature if is_guided else objective
        end = minimise(function, np.zeros((len(lanes), size)), **how)
        last = objective.latest
        self._evaluated = last if last and np.array_equal(last.steps, end.x) else None
        return end

    def _half(self, lanes: Lanes, num_draws: int) -> Floats:
        """Return the noise of half the draws; that of the last round where it is the same."""
        kept, noise = self._noise
        if noise.shape[1] != num_draws // 2 or not np.isin(lanes, kept).all():
            noise = make_noise(num_draws, self.noise_dim, self.seeds[lanes])
            per_coordinate = 1 if self._tells_curvature else 2
            noise = standardised(noise, self.kind.is_dense(self.dim), per_coordinate)
            self._noise = lanes, noise
            return self._noise[1]
        return noise if len(lanes) == len(kept) else noise[np.searchsorted(kept, lanes)]

    def _judged(
        self, now: Progress, chart: Chart, end: Minimum, limits: Limits, guided: bool
    ) -> Progress:
        """Return where fits are after a round, which of them have ended, and how."""
        first = now.code == NEW
        mean, sd = chart.mean_and_sd(end.x)
        norm = end.memory.size(end.gradient)
        farthest = np.abs(end.x).max(axis=1)
        near = guided | (farthest < _NEAR) | (end.num_evaluations == 1)
        # Where a density has kinks, no step may be left that descends although the gradient is not
        # quite zero; what matters is that it is small against the error of the draws.
        flat = (norm < _tolerances(now, limits, guided)) | (
            end.stalled & (norm < limits.sampling_tolerance)
        )
        # A start that needs no step is an optimum in units that are right.
        unmoved_start = (end.num_evaluations == 1) & (norm < limits.tolerance)
        settled = flat & near & (guided | ~first | unmoved_start)
        shift = (np.abs(mean - now.former_mean) / sd).max(axis=1)
        growth = np.abs(np.log(sd / now.former_sd)).max(axis=1)
        error = np.where(settled, np.maximum(shift, growth), now.error)
        last = 2 * now.num_draws > limits.max_draws
        enough = settled & ((error < limits.sampling_tolerance) | last)
        doubled = settled & ~enough
        # Only the last draws are worth an exact optimum: the next round finds it.
        done = enough & ((norm < limits.tolerance) | end.stalled)
        largest = np.maximum(np.abs(mean).max(axis=1), sd.max(axis=1))
        first_size = np.where(now.num_rounds == 0, 1.0 + largest, now.first_size)
        unmoved = ~flat & (farthest < _UNMOVED)
        rounds, patience, num_rounds, ended = _ROUNDS, _PATIENCE, now.num_rounds + 1, done
        if guided:  # what counts is rounds on the way to the optimum on some draws
            rounds, patience = _ROUNDS_GUIDED, _PATIENCE_GUIDED
            num_rounds, ended = np.where(settled, 0, num_rounds), settled
        stuck = ~first & ~ended & (unmoved | (num_rounds >= rounds))
        pushed = np.concatenate([now.sizes[:, 1:], largest[:, None]], axis=1)
        sizes = np.where(stuck[:, None], pushed, now.sizes)
        # Stuck four times, and larger each time: there is no optimum.
        growing = stuck & (np.diff(sizes) > 0.0).all(axis=1) & (sizes[:, -1] > 1.2 * sizes[:, 0])
        again = (first & ~settled) | stuck
        code = np.select(
            [
                ~np.isfinite(end.value),
                done,
                ~first & (growing | ~(largest <= _INFINITY * first_size)),
                stuck & (now.num_retries >= patience),
            ],
            [
                CODES[FitStatus.NOT_FINITE],
                CODES[FitStatus.CONVERGED],
                CODES[FitStatus.AT_INFINITY],
                np.where(unmoved, CODES[FitStatus.STALLED], CODES[FitStatus.MAX_ITERATIONS]),
            ],
            RUNNING,
        )

        def former(latest: Floats, kept: Floats) -> Floats:
            return np.where(doubled[:, None], latest, np.where(again[:, None], np.inf, kept))

        trace = now.trace.copy()
        recorded = np.flatnonzero(now.num_traced < trace.shape[1])
        trace[recorded, now.num_traced[recorded]] = np.stack([-end.value, norm], -1)[recorded]
        # Far from where the units were computed they say little, least of all about an optimum.
        stale = (stuck | ~near) & (takes_directions(self.kind, self.dim) and not guided)
        return now._replace(
            q=chart.members(end.x),
            stale=stale,
            num_draws=np.where(doubled, 2 * now.num_draws, now.num_draws),
            former_mean=former(mean, now.former_mean),
            former_sd=former(sd, now.former_sd),
            mean=mean,
            sd=sd,
            value=end.value,
            norm=norm,
            error=error,
            first_size=first_size,
            sizes=sizes,
            num_rounds=np.where(again, 0, num_rounds),
            num_retries=now.num_retries + stuck,
            trace=trace,
            num_traced=now.num_traced + 1,
            code=code,
        )
