"""Deterministic solver: the ELBO on fixed draws, optimised until its gradient vanishes.

With the noise fixed, the ELBO is an ordinary smooth function: a quasi-Newton method finds its
optimum to any accuracy, and there is no step size to tune and no question when to stop (Giordano,
Ingram and Broderick 2024). What is left is the error of the draws themselves. It is measured by
doubling them: when q from 2n draws differs from q from n, half of them the same, by some amount,
then that is the size of the error it still has.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ModelError
from vicheck.model import Model
from vicheck.records import FitStatus
from vicheck.vi.curvature import FLATTEST, MAX_DENSE_DIM, Curvature
from vicheck.vi.kinds import Kind
from vicheck.vi.noise import CHUNK, base_noise
from vicheck.vi.rounds import (
    SCOUT_EVALUATIONS,
    Progress,
    begin,
    climb_from,
    descend,
    run_rounds,
    status_of,
    with_status,
)
from vicheck.vi.solution import Optimum, Report, Solution

__all__ = ["Deterministic"]

Floats = NDArray[np.float64]

_FIRST_STEPS, _NEWTON_STEPS = 2, 40
"""Newton steps towards the mode before a fit: a few, because a mode may be at infinity, or many."""
_BUDGET = 20_000
"""Density evaluations of the first call; later calls are as long as a second or so allows."""
_SECONDS_A_CALL = 2.0
_ROUNDS, _PATIENCE = 12, 8
"""Rounds before the curvature is taken afresh, and how often that is done."""
_SPREAD = 4.0
"""Random starts lie within this of zero, on the unconstrained scale: over-dispersed."""
_FAR, _APART = 4.0, 1.0
"""Sds from which on a scout has left the fit, and an optimum is another one."""
_LEAST_PRECISION = 0.1
"""Curvature, in units of q's own precisions, below which the density counts as flat."""
_LOOSE = 0.1
"""Gradient, in sds, that is small enough before the units are right."""
_MAX_BUFFER = 2**26
"""Numbers in the largest set of noise: 256 MB, because half of the draws mirror the others."""
_BUFFER = 2**14
"""Numbers in the first set of noise; code is compiled again when a fit needs more."""


@dataclass(frozen=True)
class Deterministic:
    """Options of the solver.

    Parameters
    ----------
    tolerance
        The fit has converged when no entry of its gradient, in sd units, exceeds this, or when
        no step descends any more and none exceeds ``sampling_tolerance`` (a density with kinks).
    sampling_tolerance
        Draws are doubled until the error they cause, in sds, is below this.
    num_draws, max_draws
        Draws to begin with, and at most; powers of 2 from 32 on.
    num_starts
        Starts altogether; the others look for better optima and for other modes.
    """

    tolerance: float = 1e-3
    sampling_tolerance: float = 0.05
    num_draws: int = CHUNK
    max_draws: int = 16384
    num_starts: int = 4

    def __post_init__(self) -> None:
        for name in ("tolerance", "sampling_tolerance"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("num_draws", "max_draws"):
            value = getattr(self, name)
            if value < CHUNK or value & (value - 1):
                raise ValueError(f"{name} must be a power of 2 from {CHUNK} on, got {value}")
        if self.max_draws < self.num_draws:
            raise ValueError(
                f"max_draws must be at least num_draws, got {self.max_draws} and {self.num_draws}"
            )
        if self.num_starts < 1:
            raise ValueError(f"num_starts must be at least 1, got {self.num_starts}")

    def solve(self, model: Model, kind: Kind, seed: int, report: Report) -> Solution:
        """Fit a family to a model."""
        return _Run(self, model, kind, seed, report).solve()


class _Run:
    """One fit: the host's side of the solver, which chooses what compiled code does next."""

    def __init__(
        self, options: Deterministic, model: Model, kind: Kind, seed: int, report: Report
    ) -> None:
        self.options, self.kind, self.report = options, kind, report
        self.program = model.program
        self.data = jax.tree.map(jnp.asarray, model.data)
        self.seed = seed
        self.rng = np.random.default_rng((seed, 1))
        self.noise_dim = kind.noise_dim(model.dim)
        self.capacity = self._first_capacity()
        self.noise = jnp.asarray(base_noise(self.capacity, self.noise_dim, seed))
        self.budget = _BUDGET if model.dim <= MAX_DENSE_DIM else _BUDGET // 10
        self.latest: Progress | None = None
        """What there is to return when the fit is interrupted."""
        self.num_evaluations = 0
        self.elbo_trace: list[float] = []

    def _first_capacity(self) -> int:
        capacity = self.options.num_draws
        while capacity < self.options.max_draws and (
            2 * capacity * self.noise_dim <= _BUFFER or capacity < 16 * CHUNK
        ):
            capacity *= 2
        return capacity

    def solve(self) -> Solution:
        others: list[Progress] = []
        interrupted = False
        try:
            best, directions = self._first()
            self.latest = best
            if status_of(best) is FitStatus.CONVERGED:
                best, others = self._scout(best, directions)
        except KeyboardInterrupt:
            if self.latest is None:
                raise
            best, interrupted = self.latest, True
        status = status_of(best) or FitStatus.MAX_ITERATIONS
        error = float(best.error)
        if status is FitStatus.CONVERGED and not error < self.options.sampling_tolerance:
            status = FitStatus.SAMPLING_ERROR
        return Solution(
            q=best.q,
            status=FitStatus.INTERRUPTED if interrupted else status,
            elbo=-float(best.value),
            num_evaluations=self.num_evaluations,
            gradient_norm=float(best.norm),
            sampling_error=error,
            num_draws=int(best.num_chunks) * CHUNK,
            others=tuple(Optimum(other.q, -float(other.value)) for other in others),
            elbo_trace=np.array(self.elbo_trace),
        )

    def _first(self) -> tuple[Progress, Floats]:
        """Settle from z = 0 or, when that does not work, from the mode or from random starts."""
        zero = np.zeros(self.program.dim)
        # Newton steps by an estimated diagonal are no good guide.
        first_steps = _FIRST_STEPS if self.program.dim <= MAX_DENSE_DIM else 0
        starts = [(zero, first_steps), (zero, _NEWTON_STEPS)]
        starts += [(start, _NEWTON_STEPS) for start in self._random_starts()]
        ends = []
        for start, newton_steps in starts:
            end = self._from_start(start, newton_steps)
            if end is None:
                continue
            ends.append(end)
            if status_of(end[0]) in (FitStatus.CONVERGED, FitStatus.AT_INFINITY):
                return end
        if not ends:
            where = self.program.locate_trouble(jnp.asarray(zero), self.data)
            raise ModelError(
                f"the log density is not finite at any of {len(starts) - 1} starts; at z = 0 the "
                f"trouble is in {where}"
            )
        return min(ends, key=lambda end: float(end[0].value))

    def _from_start(self, z: Floats, newton_steps: int) -> tuple[Progress, Floats] | None:
        """Settle from a start, or return None when the density is not finite around it."""
        z, curvature = self._climb(z, newton_steps)
        for shrink in (1.0, 1e-2, 1e-4):
            progress = begin(self.kind.start(z, curvature, shrink), self._first_chunks())
            progress = self._call(progress, curvature.directions, 1, tolerance=_LOOSE)
            if status_of(progress) is not FitStatus.NOT_FINITE:
                break
        else:
            return None
        # One round has left the start behind; the curvature there says little about the optimum.
        directions = self._directions(progress)
        progress = self._run(begin(progress.q, self._first_chunks()), directions)
        return self._persist(progress, directions)

    def _persist(self, progress: Progress, directions: Floats) -> tuple[Progress, Floats]:
        """Take the curvature afresh where rounds got stuck, and more noise when it is used up."""
        sizes = [_size(progress)]
        for _ in range(_PATIENCE):
            status = status_of(progress)
            short = status is FitStatus.CONVERGED and not (
                float(progress.error) < self.options.sampling_tolerance
            )
            if (
                short
                and 4 * self.capacity * self.noise_dim <= _MAX_BUFFER
                and (self.capacity < self.options.max_draws)
            ):
                self.capacity = min(4 * self.capacity, self.options.max_draws)
                self.noise = jnp.asarray(base_noise(self.capacity, self.noise_dim, self.seed))
            elif status in (FitStatus.MAX_ITERATIONS, FitStatus.STALLED):
                directions = self._directions(progress)
            else:
                break
            fresh = begin(progress.q, int(progress.num_chunks))
            if short:
                fresh = fresh._replace(
                    num_chunks=2 * fresh.num_chunks,
                    former_loc=np.asarray(progress.q.loc),
                    former_sd=np.asarray(progress.sd),
                )
            progress = self._run(fresh, directions)
            sizes.append(_size(progress))
            if _runs_away(sizes):
                return with_status(progress, FitStatus.AT_INFINITY), directions
        return progress, directions

    def _run(self, progress: Progress, directions: Floats) -> Progress:
        """Run rounds, in calls short enough to be interrupted, until they have ended."""
        while status_of(progress) is None:
            start, before = time.perf_counter(), int(progress.num_evaluations)
            progress = self._call(progress, directions, self.budget)
            rate = (int(progress.num_evaluations) - before) / (time.perf_counter() - start)
            self.budget = max(self.budget, int(rate * _SECONDS_A_CALL))
        return progress

    def _call(
        self,
        progress: Progress,
        directions: Floats,
        budget: int,
        *,
        tolerance: float | None = None,
    ) -> Progress:
        before = int(progress.num_evaluations)
        progress = run_rounds(
            self.program,
            progress,
            directions,
            self.noise,
            self.data,
            tolerance or self.options.tolerance,
            self.options.sampling_tolerance,
            self.capacity // CHUNK,
            _ROUNDS,
            budget,
        )
        progress = jax.device_get(progress)  # all at once: each transfer costs a step of a fit
        elbo = -float(progress.value)
        self.num_evaluations += int(progress.num_evaluations) - before
        self.elbo_trace.append(elbo)
        if np.isfinite(elbo) and (self.latest is None or status_of(self.latest) is None):
            self.latest = progress
        draws = int(progress.num_chunks) * CHUNK
        self.report(f"ELBO {elbo:.3f} on {draws} draws, gradient {float(progress.norm):.2g} sd")
        return progress

    def _climb(
        self, z: Floats, newton_steps: int, floor: Floats | None = None
    ) -> tuple[Floats, Curvature]:
        floor = np.full(self.program.dim, FLATTEST) if floor is None else floor
        end, curvature = climb_from(self.program, z, self.data, newton_steps, floor)
        self.num_evaluations += 1
        return np.asarray(end), Curvature(*map(np.asarray, curvature))

    def _directions(self, progress: Progress) -> Floats:
        """Directions in which the mean moves: along the posterior's curvature where q has none."""
        if self.program.dim > MAX_DENSE_DIM or not self.kind.needs_directions:
            return np.asarray(progress.sd)
        floor = _LEAST_PRECISION / np.square(progress.sd)
        return np.asarray(self._climb(np.asarray(progress.q.loc), 0, floor)[1].directions)

    def _scout(self, best: Progress, directions: Floats) -> tuple[Progress, list[Progress]]:
        """Send scouts from over-dispersed starts, and settle where one ends far from the fit."""
        if self.options.num_starts == 1:
            return best, []
        starts = self._random_starts()
        ends = np.asarray(descend(self.program, starts, directions, self.data))
        self.num_evaluations += SCOUT_EVALUATIONS * len(starts)
        found = [best]
        for end in ends:
            if not np.isfinite(end).all() or not _far(end, found, _FAR):
                continue
            # A loose round is enough to see most scouts come back to the fit.
            q = self.kind.moved_to(best.q, end)
            settled = self._call(begin(q, self._first_chunks()), directions, 1, tolerance=_LOOSE)
            if not _far(np.asarray(settled.q.loc), found, _FAR):
                continue
            settled = self._run(begin(settled.q, self._first_chunks()), directions)
            settled, _ = self._persist(settled, directions)
            converged = status_of(settled) is FitStatus.CONVERGED
            if converged and _far(np.asarray(settled.q.loc), found, _APART):
                found.append(settled)
        found.sort(key=lambda end: float(end.value))
        return found[0], found[1:]

    def _random_starts(self) -> Floats:
        size = (self.options.num_starts - 1, self.program.dim)
        return np.asarray(self.rng.uniform(-_SPREAD, _SPREAD, size))

    def _first_chunks(self) -> int:
        return self.options.num_draws // CHUNK


def _far(z: Floats, ends: list[Progress], sds: float) -> bool:
    """Whether z differs from each optimum by some sds, in any coordinate."""
    return all((np.abs(z - np.asarray(e.q.loc)) > sds * np.asarray(e.sd)).any() for e in ends)


def _runs_away(sizes: list[float]) -> bool:
    """Whether the fit was stuck three times and has only grown meanwhile."""
    last = np.array(sizes[-4:])
    return len(last) == 4 and bool((np.diff(last) > 0.0).all()) and last[3] > 1.2 * last[0]


def _size(progress: Progress) -> float:
    """Return the largest mean or sd."""
    return float(max(np.abs(progress.q.loc).max(), np.max(progress.sd)))
