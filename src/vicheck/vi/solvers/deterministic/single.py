"""One fit, which is looked at more closely: a search for better optima and other modes follows."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ModelError
from vicheck.model import Model
from vicheck.results.fit import Optimum, Solution
from vicheck.results.status import FitStatus
from vicheck.runtime.interrupts import check_interrupt
from vicheck.vi import modes
from vicheck.vi.families.registry import Kind
from vicheck.vi.solvers.deterministic.batch import Batch
from vicheck.vi.solvers.deterministic.options import Options
from vicheck.vi.solvers.deterministic.progress import CODES, Progress, elbos, take
from vicheck.vi.solvers.reporting import Report

__all__ = ["SingleFit"]

Floats = NDArray[np.float64]


class SingleFit:
    """A batch of one fit, and what is done for it only."""

    def __init__(
        self, options: Options, model: Model, kind: Kind, seed: int, report: Report
    ) -> None:
        self.model, self.kind, self.seed = model, kind, seed
        self.num_climbs = options.num_starts - 1
        self.batch = Batch(options, model.program, kind, model.data, {}, np.array([seed]), report)

    def solve(self) -> Solution:
        """Find an optimum, and look whether there is anything better."""
        batch = self.batch
        others: list[Progress] = []
        interrupted = False
        try:
            best = batch.run()
            if not np.isfinite(best.trace[0, : int(best.num_traced[0]), 0]).any():
                self._raise_not_finite()
            batch.latest = best
            if best.code[0] == CODES[FitStatus.CONVERGED] and self.num_climbs:
                best, *others = self._search_others(best)
        except KeyboardInterrupt:
            if batch.latest is None:
                raise
            best, interrupted = batch.latest, True
        return Solution(
            q=take(best, 0).q,
            status=FitStatus.INTERRUPTED if interrupted else batch.statuses(best)[0],
            elbo=float(elbos(best)[0]),
            num_evaluations=int(batch.density.num_evaluations[0]),
            gradient_norm=float(best.norm[0]),
            sampling_error=float(best.error[0]),
            num_draws=int(best.num_draws[0]),
            others=tuple(Optimum(take(other, 0).q, -float(other.value[0])) for other in others),
            elbo_trace=best.trace[0, : int(best.num_traced[0]), 0],
            gradient_trace=best.trace[0, : int(best.num_traced[0]), 1],
        )

    def _raise_not_finite(self) -> None:
        where = self.model.program.locate_trouble(jnp.zeros(self.model.dim), self.model.data)
        raise ModelError(
            f"the log density is not finite at any of {self.num_climbs + 1} starts; at z = 0 "
            f"the trouble is in {where}"
        )

    def _search_others(self, best: Progress) -> list[Progress]:
        """Return all optima, the best first: where climbs end far from the fit, fit again."""
        batch = self.batch
        starts = modes.random_starts(self.num_climbs, self.model.dim, self.seed)
        directions = best.directions[0] if best.directions.size else best.sd[0]
        ends = modes.climb_from_starts(batch.density, starts, directions)
        check_interrupt()

        def settle(end: Floats, known: Sequence[Progress]) -> Progress | None:
            # A loose round is enough to see most climbs come back to the fit.
            arrived = batch.run_loosely_from(best, end[None])
            if not modes.is_far(arrived.mean[0], map(_place_of, known)):
                return None
            optimum = batch.run_from(arrived)
            return optimum if optimum.code[0] == CODES[FitStatus.CONVERGED] else None

        optima = modes.search_beyond(ends, best, settle, _place_of)
        return sorted(optima, key=lambda end: float(end.value[0]))


def _place_of(progress: Progress) -> modes.Place:
    return modes.Place(progress.mean[0], progress.sd[0])
