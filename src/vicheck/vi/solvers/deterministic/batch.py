"""Fits of one family to many sets of data: which start, which draws, when to give up."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.model import Data, Program
from vicheck.results.status import FitStatus
from vicheck.runtime.interrupts import piece
from vicheck.vi.density import Density
from vicheck.vi.families.family import Family
from vicheck.vi.families.registry import Kind
from vicheck.vi.modes.starts import random_starts
from vicheck.vi.solvers.deterministic.options import Options
from vicheck.vi.solvers.deterministic.progress import (
    CODES,
    Progress,
    begin,
    choose,
    elbos,
    has_run_away,
    is_running,
    put,
    status_of,
    take,
)
from vicheck.vi.solvers.deterministic.rounds import Limits, Rounds
from vicheck.vi.solvers.reporting import Report

__all__ = ["Batch", "BatchSolution", "solve_in_parts"]

Floats = NDArray[np.float64]

_FIRST_STEPS, _NEWTON_STEPS = 2, 40
"""Newton steps towards the mode before a fit: a few, because a mode may be at infinity, or many."""
_SHRINK = (1.0, 1e-2, 1e-4)
"""Scales of a start, in those of its curvature: smaller ones where the density is not finite."""
_MAX_NUMBERS = 2**26
"""Numbers in the largest set of noise: 512 MB."""
_NUMBERS_OF_BATCH = 2**24
"""Numbers in the draws of all fits that run together, to begin with."""
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


def solve_in_parts(
    options: Options,
    program: Program,
    kind: Kind,
    shared: Data,
    own: Data,
    seeds: NDArray[np.int64],
    report: Report,
) -> BatchSolution:
    """Run many fits, as many together as memory allows."""
    size = kind.shapes(program.dim).step_dim
    numbers = options.first_draws(kind, program.dim) * program.dim + size * min(size, 32)
    width = max(1, _NUMBERS_OF_BATCH // numbers)
    ends = []
    for start in range(0, len(seeds), width):
        part = slice(start, start + width)
        its_own = jax.tree.map(lambda leaf: leaf[part], own)  # noqa: B023
        ends.append(Batch(options, program, kind, shared, its_own, seeds[part], report).solve())
    if len(ends) == 1:
        return ends[0]
    return BatchSolution(
        q=jax.tree.map(lambda *leaves: np.concatenate(leaves), *(end.q for end in ends)),
        status=[status for end in ends for status in end.status],
        elbo=np.concatenate([end.elbo for end in ends]),
        num_evaluations=np.concatenate([end.num_evaluations for end in ends]),
        gradient_norm=np.concatenate([end.gradient_norm for end in ends]),
        sampling_error=np.concatenate([end.sampling_error for end in ends]),
    )


class Batch:
    """Many fits, in layers that each call the next.

    `run` (more draws for runaways), `_from_starts`, `_from_start` (smaller scales),
    `_until_ended`, and `_advance`, which runs one round of the fits that have the fewest draws.
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
        self.seeds = seeds
        self.density = Density(program, shared, own, len(seeds))
        self.rounds = Rounds(self.density, kind, seeds)
        self.first_draws = options.first_draws(kind, program.dim)
        most = _MAX_NUMBERS // kind.noise_dim(program.dim)
        self.max_draws = min(options.max_draws, max(self.first_draws, 1 << (most.bit_length() - 1)))
        self.latest: Progress | None = None
        """What to return when the fits are interrupted."""

    def solve(self) -> BatchSolution:
        """Find all optima, and say how the fits ended."""
        end = self.run()
        return BatchSolution(
            q=end.q,
            status=self.statuses(end),
            elbo=elbos(end),
            num_evaluations=self.density.num_evaluations.copy(),
            gradient_norm=end.norm,
            sampling_error=end.error,
        )

    def run(self) -> Progress:
        """Run all fits, and those that run away again with more draws, which may cure them."""
        best = self._from_starts(self.first_draws, np.ones(len(self.seeds), bool))
        draws = self.first_draws
        while (away := has_run_away(best)).any() and (more := self._more_draws(draws)) > draws:
            self.report(f"runs away on {draws} draws, tried again on {more}")
            draws = more
            best = choose(away, self._from_starts(draws, away), best)
        return best

    def run_from(self, z: Floats) -> Progress:
        """Run all fits from z, shape ``(fits, d)``, and the curvature there."""
        return self._from_start(z, 0, self.first_draws, np.ones(len(z), bool))

    def _more_draws(self, draws: int) -> int:
        """Return how many draws to retry runaways with; the same number means no retry."""
        # Four times what the family begins with: nothing can hide from that many draws.
        tried = draws > self.first_draws and draws >= 4 * self.kind.num_draws(self.program.dim)
        return draws if tried else max(draws, min(4 * draws, self.max_draws))

    def _from_starts(self, num_draws: int, trying: NDArray[np.bool_]) -> Progress:
        """Run some fits from z = 0 or, where that fails, from the mode or from random starts."""
        zero = np.zeros((len(self.seeds), self.program.dim))
        # Newton steps with an estimated diagonal lead astray.
        first_steps = _FIRST_STEPS if self.kind.is_dense(self.program.dim) else 0
        if self.rounds.begins_in_a_loop(num_draws):
            first_steps = 0
        best = self._from_start(zero, first_steps, num_draws, trying)
        starts = [zero, *self._random_starts()] if not self._all_ended(best) else []
        for start in starts:
            trying = ~self._ended(best)
            end = self._from_start(start, _NEWTON_STEPS, num_draws, trying)
            better = self._ended(end) | ~(np.asarray(end.value) >= np.asarray(best.value))
            better &= np.asarray(end.code) != CODES[FitStatus.NOT_FINITE]
            best = choose(trying & better, end, best)
            if self._all_ended(best):
                break
        return best

    def _random_starts(self) -> Floats:
        """Return over-dispersed starts, shape ``(starts, fits, d)``."""
        count, dim = self.options.num_restarts, self.program.dim
        return np.stack([random_starts(count, dim, int(seed)) for seed in self.seeds], axis=1)

    def _ended(self, progress: Progress) -> NDArray[np.bool_]:
        """Say which fits need no other start."""
        ends = (CODES[FitStatus.CONVERGED], CODES[FitStatus.AT_INFINITY])
        return np.isin(progress.code, ends)

    def _all_ended(self, progress: Progress) -> bool:
        return bool(self._ended(progress).all())

    def _from_start(
        self, z: Floats, newton_steps: int, num_draws: int, trying: NDArray[np.bool_]
    ) -> Progress:
        """Run some fits from a start, with smaller scales where the density is not finite."""
        best: Progress | None = None
        for shrink in _SHRINK:
            fresh = begin(self.kind, z, num_draws, newton_steps, shrink)
            skipped = fresh._replace(
                code=np.full_like(fresh.code, CODES[_SKIPPED]), error=np.zeros_like(fresh.error)
            )
            end = self._until_ended(choose(trying, fresh, skipped))
            best = end if best is None else choose(trying, end, best)
            trying = trying & (np.asarray(end.code) == CODES[FitStatus.NOT_FINITE])
            if not trying.any():
                break
        assert best is not None
        return best

    def _until_ended(self, progress: Progress) -> Progress:
        """Run rounds until all fits have ended."""
        self.rounds.forget(np.flatnonzero(is_running(progress)))
        while is_running(progress).any():
            progress = self._advance(progress)
        return progress

    @piece()
    def _advance(self, progress: Progress) -> Progress:
        """Run one round of those fits that have the fewest draws."""
        running = is_running(progress)
        fewest = progress.num_draws[running].min()
        lanes = np.flatnonzero(running & (progress.num_draws == fewest))
        limits = Limits(self.options.tolerance, self.options.sampling_tolerance, self.max_draws)
        everyone = len(lanes) == len(running)
        some = progress if everyone else take(progress, lanes)
        progress = put(progress, lanes, self.rounds.run(lanes, some, limits))
        if np.isfinite(progress.value[0]) and (
            self.latest is None or (is_running(self.latest) | has_run_away(self.latest)).any()
        ):
            self.latest = progress
        self.report(
            f"ELBO {-progress.value[0]:.3f} on {progress.num_draws[0]} draws, "
            f"gradient {progress.norm[0]:.2g} sd"
        )
        return progress

    def statuses(self, progress: Progress) -> list[FitStatus]:
        """Return how each fit has ended."""
        accurate = np.asarray(progress.error) < self.options.sampling_tolerance
        short = (np.asarray(progress.code) == CODES[FitStatus.CONVERGED]) & ~accurate
        return [
            FitStatus.SAMPLING_ERROR if few else status_of(code) or FitStatus.INTERRUPTED
            for code, few in zip(progress.code, short, strict=True)
        ]
