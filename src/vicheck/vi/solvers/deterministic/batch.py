"""Fits of one family to many sets of data: the host's side of the deterministic solver.

It chooses what compiled code does next: from which starts, on how many draws, and for how long.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.model import Data, Program
from vicheck.results.status import FitStatus
from vicheck.runtime.interrupts import piece
from vicheck.vi.families.family import MAX_DENSE_DIM, Family
from vicheck.vi.families.registry import Kind
from vicheck.vi.modes import random_starts
from vicheck.vi.solvers.deterministic.noise import CHUNK, make_noise
from vicheck.vi.solvers.deterministic.options import Options
from vicheck.vi.solvers.deterministic.progress import (
    CODES,
    Progress,
    begin,
    begin_beside,
    choose,
    elbos,
    has_run_away,
    is_running,
    status_of,
    with_more_draws,
)
from vicheck.vi.solvers.deterministic.rounds import LOOSE, Limits, run_rounds
from vicheck.vi.solvers.reporting import Report

__all__ = ["Batch", "BatchSolution"]

Floats = NDArray[np.float64]

_FIRST_STEPS, _NEWTON_STEPS = 2, 40
"""Newton steps towards the mode before a fit: a few, because a mode may be at infinity, or many."""
_SHRINK = (1.0, 1e-2, 1e-4)
"""Scales of a start, in those of its curvature: smaller ones where the density is not finite."""
_BUDGET = 20_000
"""Density evaluations of the first call; later calls are as long as a second or so allows."""
_SECONDS_PER_CALL = 2.0
_MORE_DRAWS = 3
"""How often noise may be extended, by a factor of four each time."""
_MAX_BUFFER = 2**26
"""Numbers in the largest set of noise: 256 MB, because half of the draws mirror the others."""
_BUFFER = 2**14
"""Numbers in the first set of noise; code is compiled again when a fit needs more."""
_SKIPPED = FitStatus.CONVERGED
"""Placeholder status of fits that are not run."""


class BatchSolution(NamedTuple):
    """Many fits, the first axis of each array over them."""

    q: Family
    status: list[FitStatus]
    elbo: Floats
    num_evaluations: NDArray[np.int64]
    gradient_norm: Floats
    sampling_error: Floats


class Batch:
    """Many fits, in layers that each call the next.

    `run` (more draws for runaways), `_from_starts`, `_from_start` (smaller scales), then
    `_until_accurate` (more noise), `_until_ended` and `_advance`, which calls compiled code.
    """

    def __init__(
        self,
        options: Options,
        program: Program,
        kind: Kind,
        shared: Data,
        own: Data,
        seeds: NDArray[np.int64],
        report: Report,
    ) -> None:
        self.options, self.program, self.kind, self.report = options, program, kind, report
        self.shared, self.own = jax.device_put((shared, own))
        self.seeds = seeds
        self.noise_dim = kind.noise_dim(program.dim)
        self.first_draws = options.first_draws(kind, program.dim)
        self._set_capacity(self._first_capacity())
        self.budget = _BUDGET if program.dim <= MAX_DENSE_DIM else _BUDGET // 10
        self.num_evaluations = np.zeros(len(seeds), np.int64)
        self.latest: Progress | None = None
        """What to return when the fits are interrupted."""

    @property
    def first_chunks(self) -> int:
        """Chunks of draws that a fit begins with."""
        return self.first_draws // CHUNK

    def _first_capacity(self) -> int:
        capacity = self.first_draws
        while capacity < self.options.max_draws and (
            2 * capacity * self.noise_dim <= _BUFFER
            or capacity < max(16 * CHUNK, 4 * self.first_draws)
        ):
            capacity *= 2
        return capacity

    def _set_capacity(self, capacity: int) -> None:
        """Make noise for a number of draws."""
        self.capacity = capacity
        self.noise = make_noise(capacity, self.noise_dim, self.seeds)

    def solve(self) -> BatchSolution:
        """Find all optima, and say how the fits ended."""
        end = self.run()
        return BatchSolution(
            q=end.q,
            status=self.statuses(end),
            elbo=elbos(end),
            num_evaluations=np.asarray(self.num_evaluations),
            gradient_norm=np.asarray(end.norm),
            sampling_error=np.asarray(end.error),
        )

    def compile(self) -> None:
        """Compile what the fits need, and fit nothing."""
        zero = np.zeros((len(self.seeds), self.program.dim))
        skipped = np.full(len(zero), CODES[_SKIPPED])
        self._advance(begin(self.kind, zero, self.first_chunks)._replace(code=skipped), 0)

    def count_evaluations(self, number: int) -> None:
        """Add evaluations that were made elsewhere on behalf of each fit."""
        self.num_evaluations = self.num_evaluations + number

    def run(self) -> Progress:
        """Run all fits, and those that run away again with more draws, which may cure them."""
        best = self._from_starts(self.first_chunks, np.ones(len(self.seeds), bool))
        draws = self.first_draws
        while (away := has_run_away(best)).any() and (more := self._more_draws(draws)) > draws:
            self.report(f"runs away on {draws} draws, tried again on {more}")
            draws = more
            if draws >= self.capacity:
                room = 4 * draws * self.noise_dim <= _MAX_BUFFER
                self._set_capacity(min(4 * draws if room else draws, self.options.max_draws))
            best = choose(away, self._from_starts(draws // CHUNK, away), best)
        return best

    def run_loosely_from(self, settled: Progress, z: Floats) -> Progress:
        """Run one loose round from z, shape ``(fits, d)``, with the scales of settled fits."""
        beside = begin_beside(settled, z, self.kind, self.first_chunks)
        return self._advance(beside, 1, LOOSE)

    def run_from(self, arrived: Progress) -> Progress:
        """Run fits again, from where they are and with their scales."""
        fresh = begin_beside(arrived, np.asarray(arrived.mean), self.kind, self.first_chunks)
        return self._until_accurate(fresh)

    def _more_draws(self, draws: int) -> int:
        """Return how many draws to retry runaways with; the same number means no retry."""
        # Four times what the family begins with: nothing can hide from that many draws.
        tried = draws > self.first_draws and draws >= 4 * self.kind.num_draws(self.program.dim)
        room = 4 * draws * self.noise_dim <= _MAX_BUFFER
        return draws if tried or not room else min(4 * draws, self.options.max_draws)

    def _from_starts(self, num_chunks: int, trying: NDArray[np.bool_]) -> Progress:
        """Run some fits from z = 0 or, where that fails, from the mode or from random starts."""
        zero = np.zeros((len(self.seeds), self.program.dim))
        # Newton steps with an estimated diagonal lead astray.
        first_steps = _FIRST_STEPS if self.kind.is_dense(self.program.dim) else 0
        best = self._from_start(zero, first_steps, num_chunks, trying)
        starts = [zero, *self._random_starts()] if not self._all_ended(best) else []
        for start in starts:
            trying = ~self._ended(best)
            end = self._from_start(start, _NEWTON_STEPS, num_chunks, trying)
            better = self._ended(end) | ~(np.asarray(end.value) >= np.asarray(best.value))
            better &= np.asarray(end.code) != CODES[FitStatus.NOT_FINITE]
            best = choose(trying & better, end, best)
            if self._all_ended(best):
                break
        return best

    def _random_starts(self) -> Floats:
        """Return over-dispersed starts, shape ``(starts, fits, d)``."""
        count, dim = self.options.num_starts - 1, self.program.dim
        return np.stack([random_starts(count, dim, int(seed)) for seed in self.seeds], axis=1)

    def _ended(self, progress: Progress) -> NDArray[np.bool_]:
        """Say which fits need no other start."""
        ends = (CODES[FitStatus.CONVERGED], CODES[FitStatus.AT_INFINITY])
        return np.isin(progress.code, ends)

    def _all_ended(self, progress: Progress) -> bool:
        return bool(self._ended(progress).all())

    def _from_start(
        self, z: Floats, newton_steps: int, num_chunks: int, trying: NDArray[np.bool_]
    ) -> Progress:
        """Run some fits from a start, with smaller scales where the density is not finite."""
        best: Progress | None = None
        for shrink in _SHRINK:
            fresh = begin(self.kind, z, num_chunks, newton_steps, shrink)
            # A fit that has ended costs nothing, so no code has to be compiled for fewer fits.
            skipped = fresh._replace(
                code=np.full_like(fresh.code, CODES[_SKIPPED]), error=np.zeros_like(fresh.error)
            )
            end = self._until_accurate(choose(trying, fresh, skipped))
            best = end if best is None else choose(trying, end, best)
            trying = trying & (np.asarray(end.code) == CODES[FitStatus.NOT_FINITE])
            if not trying.any():
                break
        assert best is not None
        return best

    def _until_accurate(self, progress: Progress) -> Progress:
        """Run rounds until all fits have ended, with more noise where it was used up."""
        progress = self._until_ended(progress)
        for _ in range(_MORE_DRAWS):
            short = self._is_short(progress)
            room = 4 * self.capacity * self.noise_dim <= _MAX_BUFFER
            if not short.any() or not room or self.capacity >= self.options.max_draws:
                break
            self._set_capacity(min(4 * self.capacity, self.options.max_draws))
            progress = self._until_ended(with_more_draws(progress, short))
        return progress

    def _is_short(self, progress: Progress) -> NDArray[np.bool_]:
        """Say which fits have converged on too few draws."""
        accurate = np.asarray(progress.error) < self.options.sampling_tolerance
        return (np.asarray(progress.code) == CODES[FitStatus.CONVERGED]) & ~accurate

    def _until_ended(self, progress: Progress) -> Progress:
        """Call compiled code, briefly enough to allow interrupts, until all fits have ended."""
        while is_running(progress).any():
            start = time.perf_counter()
            before = np.asarray(progress.num_evaluations).sum()
            progress = self._advance(progress, self.budget)
            done = np.asarray(progress.num_evaluations).sum() - before
            rate = done / (time.perf_counter() - start) / len(self.seeds)
            self.budget = max(self.budget, int(rate * _SECONDS_PER_CALL))
        return progress

    @piece()
    def _advance(self, progress: Progress, budget: int, tolerance: float | None = None) -> Progress:
        """Call compiled code for some evaluations of the density."""
        before = np.asarray(progress.num_evaluations)
        limits = Limits(
            tolerance or self.options.tolerance,
            self.options.sampling_tolerance,
            self.capacity // CHUNK,
            budget,
        )
        what = (self.program, self.kind)
        progress = run_rounds(what, progress, self.noise, self.own, self.shared, limits)
        progress = jax.device_get(progress)  # all at once: each transfer costs a step of a fit
        self.num_evaluations = self.num_evaluations + progress.num_evaluations - before
        if np.isfinite(progress.value[0]) and (
            self.latest is None or (is_running(self.latest) | has_run_away(self.latest)).any()
        ):
            self.latest = progress
        draws = int(progress.num_chunks[0]) * CHUNK
        self.report(
            f"ELBO {-progress.value[0]:.3f} on {draws} draws, gradient {progress.norm[0]:.2g} sd"
        )
        return progress

    def statuses(self, progress: Progress) -> list[FitStatus]:
        """Return how each fit has ended."""
        short = self._is_short(progress)
        return [
            FitStatus.SAMPLING_ERROR if few else status_of(code) or FitStatus.INTERRUPTED
            for code, few in zip(progress.code, short, strict=True)
        ]
