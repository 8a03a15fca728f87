"""Deterministic solver: the ELBO on fixed draws, optimised until its gradient vanishes.

With the noise fixed, the ELBO is an ordinary smooth function: a quasi-Newton method finds its
optimum to any accuracy, and there is no step size to tune and no question when to stop (Giordano,
Ingram and Broderick 2024). What is left is the error of the draws themselves. It is measured by
doubling them: when q from 2n draws differs from q from n, half of them the same, by some amount,
then that is the size of the error it still has.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ModelError
from vicheck.model import Data, Model, Program, double_precision
from vicheck.results.fit import Optimum, Solution
from vicheck.results.status import FitStatus
from vicheck.runtime.compiling import Recent
from vicheck.runtime.interrupts import check_interrupt
from vicheck.vi.families.registry import MAX_FIXED_FULL_RANK_DIM, Kind
from vicheck.vi.modes import MAX_EVALUATIONS, find_modes
from vicheck.vi.solvers.deterministic.batch import Fits, Settled
from vicheck.vi.solvers.deterministic.noise import CHUNK
from vicheck.vi.solvers.deterministic.progress import (
    CODES,
    Progress,
    begin_beside,
    elbos,
    takes_directions,
)
from vicheck.vi.solvers.deterministic.rounds import LOOSE
from vicheck.vi.solvers.reporting import Report, silent

__all__ = ["Deterministic"]

Floats = NDArray[np.float64]

_FAR, _APART = 4.0, 1.0
"""Sds from which on a scout has left the fit, and an optimum is another one."""
_SCOUTED = Recent()
"""What scouts are compiled for in this process."""


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
        Draws to begin with, and at most; powers of 2 from 32 on. By default a fit begins with 32
        or, for a family with correlations, with at least four times as many as one draw takes
        standard normal numbers: with fewer than dimensions the ELBO on fixed draws has no maximum.
        A fit that runs away on few draws is tried again with more.
    num_starts
        Starts altogether; the others look for better optima and for other modes.
    """

    tolerance: float = 1e-3
    sampling_tolerance: float = 0.05
    num_draws: int | None = None
    max_draws: int = 16384
    num_starts: int = 4

    def __post_init__(self) -> None:
        for name in ("tolerance", "sampling_tolerance"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("num_draws", "max_draws"):
            value = getattr(self, name)
            if value is not None and (value < CHUNK or value & (value - 1)):
                raise ValueError(f"{name} must be a power of 2 from {CHUNK} on, got {value}")
        if self.num_draws is not None and self.max_draws < self.num_draws:
            raise ValueError(
                f"max_draws must be at least num_draws, got {self.max_draws} and {self.num_draws}"
            )
        if self.num_starts < 1:
            raise ValueError(f"num_starts must be at least 1, got {self.num_starts}")

    def first_draws(self, kind: Kind, dim: int) -> int:
        """Return how many draws a fit of a family begins with, or say why it cannot."""
        if kind.name == "full_rank" and dim > MAX_FIXED_FULL_RANK_DIM:
            raise ValueError(
                f"family='full_rank' takes at most {MAX_FIXED_FULL_RANK_DIM} parameters with the "
                f"deterministic solver, the model has {dim}: use 'low_rank' or 'mean_field'"
            )
        enough = kind.num_draws(dim)
        if self.max_draws < enough:
            raise ValueError(
                f"max_draws must be at least {enough} for family={kind.name!r} and {dim} "
                f"parameters, got {self.max_draws}"
            )
        return enough if self.num_draws is None else self.num_draws

    def solve(self, model: Model, kind: Kind, seed: int, report: Report) -> Solution:
        """Fit a family to a model."""
        return _One(self, model, kind, seed, report).solve()

    def compile_many(
        self, program: Program, kind: Kind, shared: Data, own: Data, seeds: NDArray[np.int64]
    ) -> None:
        """Compile what `solve_many` needs for data of these shapes."""
        Fits(self, program, kind, shared, own, seeds, silent).compile()

    def solve_many(
        self, program: Program, kind: Kind, shared: Data, own: Data, seeds: NDArray[np.int64]
    ) -> Settled:
        """Fit a family to many sets of data, each from one start and the fallbacks.

        Arrays in ``own`` have a leading axis, one entry for each fit; those in ``shared`` are the
        same for all.
        """
        fits = Fits(self, program, kind, shared, own, seeds, silent)
        end = fits.settle()
        return Settled(
            q=end.q,
            status=fits.statuses(end),
            elbo=elbos(end),
            num_evaluations=np.asarray(fits.num_evaluations),
            gradient_norm=np.asarray(end.norm),
            sampling_error=np.asarray(end.error),
        )


class _One:
    """One fit, which is looked at more closely: scouts look for better optima and other modes."""

    def __init__(
        self, options: Deterministic, model: Model, kind: Kind, seed: int, report: Report
    ) -> None:
        self.options, self.program, self.kind = options, model.program, kind
        self.fits = Fits(options, model.program, kind, model.data, {}, np.array([seed]), report)

    def solve(self) -> Solution:
        """Settle, and look whether there is anything better."""
        fits = self.fits
        others: list[Progress] = []
        interrupted = False
        try:
            best = self._settle()
            if not np.isfinite(best.trace[0, : int(best.num_traced[0]), 0]).any():
                self._complain()
            fits.latest = best
            if best.code[0] == CODES[FitStatus.CONVERGED]:
                best, others = self._scout(best)
        except KeyboardInterrupt:
            if fits.latest is None:
                raise
            best, interrupted = fits.latest, True
        return Solution(
            q=_only(best).q,
            status=FitStatus.INTERRUPTED if interrupted else fits.statuses(best)[0],
            elbo=float(elbos(best)[0]),
            num_evaluations=int(fits.num_evaluations[0]),
            gradient_norm=float(best.norm[0]),
            sampling_error=float(best.error[0]),
            num_draws=int(best.num_chunks[0]) * CHUNK,
            others=tuple(Optimum(_only(other).q, -float(other.value[0])) for other in others),
            elbo_trace=best.trace[0, : int(best.num_traced[0]), 0],
            gradient_trace=best.trace[0, : int(best.num_traced[0]), 1],
        )

    def _settle(self) -> Progress:
        """Settle the fit; the first time, another thread compiles the scouts meanwhile."""
        computes = self.program.computation("log_density", self.fits.shared)
        key = (computes, self.kind, self.options.num_starts)
        if self.options.num_starts == 1 or key in _SCOUTED:
            return self.fits.settle()
        _SCOUTED.add(key)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(self._compile_scouts)
            return self.fits.settle()

    def _compile_scouts(self) -> None:
        """Send scouts from nowhere, who are back at once."""
        dim = self.program.dim
        nowhere = np.full((self.options.num_starts - 1, dim), np.nan)
        directions = np.ones((dim, dim) if takes_directions(self.kind, dim) else dim)
        with double_precision():
            find_modes(self.program, nowhere, directions, self.fits.shared)

    def _complain(self) -> None:
        zero = jnp.zeros(self.program.dim)
        where = self.program.locate_trouble(zero, self.fits.shared)
        raise ModelError(
            f"the log density is not finite at any of {self.options.num_starts} starts; at z = 0 "
            f"the trouble is in {where}"
        )

    def _scout(self, best: Progress) -> tuple[Progress, list[Progress]]:
        """Send scouts from over-dispersed starts, and settle where one ends far from the fit."""
        if self.options.num_starts == 1:
            return best, []
        fits = self.fits
        starts = fits.random_starts()[:, 0]
        directions = best.directions[0] if best.directions.size else best.sd[0]
        ends = np.asarray(find_modes(self.program, starts, directions, fits.shared))
        fits.num_evaluations += MAX_EVALUATIONS * len(starts)
        found = [best]
        check_interrupt()
        for end in ends:
            if not np.isfinite(end).all() or not _far(end, found, _FAR):
                continue
            # A loose round is enough to see most scouts come back to the fit.
            beside = begin_beside(best, end[None], self.kind, fits.first_chunks)
            arrived = fits.call(beside, 1, LOOSE)
            place = np.asarray(arrived.q.loc)
            if not _far(place[0], found, _FAR):
                continue
            settled = fits.run(begin_beside(arrived, place, self.kind, fits.first_chunks))
            converged = settled.code[0] == CODES[FitStatus.CONVERGED]
            if converged and _far(np.asarray(settled.q.loc)[0], found, _APART):
                found.append(settled)
        found.sort(key=lambda end: float(end.value[0]))
        return found[0], found[1:]


def _only(progress: Progress) -> Progress:
    """Return the progress of the only fit, without the axis over fits."""
    return jax.tree.map(lambda leaf: leaf[0], progress)


def _far(z: Floats, ends: list[Progress], sds: float) -> bool:
    """Whether z differs from each optimum by some sds, in any coordinate."""
    return all((np.abs(z - end.q.loc[0]) > sds * end.sd[0]).any() for end in ends)
