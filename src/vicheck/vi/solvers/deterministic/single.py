"""One fit: a batch of one, from starts of the solver's own or from a given one."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ModelError
from vicheck.model import Model
from vicheck.results.fit import Solution
from vicheck.results.status import FitStatus
from vicheck.vi.families.registry import Kind
from vicheck.vi.solvers.deterministic.batch import Batch
from vicheck.vi.solvers.deterministic.options import Options
from vicheck.vi.solvers.deterministic.progress import Progress, elbos, take
from vicheck.vi.solvers.reporting import Report

__all__ = ["SingleFit"]

Floats = NDArray[np.float64]


class SingleFit:
    """A batch of one fit, and what is done for it only."""

    def __init__(
        self, options: Options, model: Model, kind: Kind, seed: int, report: Report
    ) -> None:
        self.model, self.options = model, options
        self.batch = Batch(options, model.program, kind, model.data, {}, np.array([seed]), report)

    def solve(self) -> Solution:
        """Find an optimum."""
        batch = self.batch
        try:
            best = batch.run()
        except KeyboardInterrupt:
            if batch.latest is None:
                raise
            return self._solution(batch.latest, interrupted=True)
        if not np.isfinite(best.trace[0, : int(best.num_traced[0]), 0]).any():
            self._raise_not_finite()
        return self._solution(best)

    def solve_from(self, z: Floats) -> Solution:
        """Find the optimum that a point, shape ``(d,)``, and the curvature there lead to."""
        return self._solution(self.batch.run_from(z[None]))

    def _solution(self, best: Progress, interrupted: bool = False) -> Solution:
        batch = self.batch
        return Solution(
            q=take(best, 0).q,
            status=FitStatus.INTERRUPTED if interrupted else batch.statuses(best)[0],
            elbo=float(elbos(best)[0]),
            num_evaluations=int(batch.density.num_evaluations[0]),
            gradient_norm=float(best.norm[0]),
            sampling_error=float(best.error[0]),
            num_draws=int(best.num_draws[0]),
            elbo_trace=best.trace[0, : int(best.num_traced[0]), 0],
            gradient_trace=best.trace[0, : int(best.num_traced[0]), 1],
        )

    def _raise_not_finite(self) -> None:
        where = self.model.program.locate_trouble(jnp.zeros(self.model.dim), self.model.data)
        count = self.options.num_restarts + 1
        raise ModelError(
            f"the log density is not finite at any of {count} starts; at z = 0 "
            f"the trouble is in {where}"
        )
