"""Deterministic solver: the ELBO on fixed draws, optimised until its gradient vanishes.

With the noise fixed, the ELBO is an ordinary smooth function: a quasi-Newton method finds its
optimum to any accuracy, and there is no step size to tune and no question when to stop (Giordano,
Ingram and Broderick 2024). What is left is the error of the draws themselves. It is measured by
doubling them: when q from 2n draws differs from q from n, half of them the same, by some amount,
then that is the size of the error it still has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicheck.model import Data, Model, Program
from vicheck.results.fit import Solution
from vicheck.vi.density import Density
from vicheck.vi.families.registry import Kind
from vicheck.vi.solvers.deterministic.batch import BatchSolution, solve_in_parts
from vicheck.vi.solvers.deterministic.options import Options
from vicheck.vi.solvers.deterministic.rounds import Rounds
from vicheck.vi.solvers.deterministic.single import SingleFit
from vicheck.vi.solvers.reporting import Report, silent

__all__ = ["Deterministic"]


@dataclass(frozen=True)
class Deterministic(Options):
    """The solver with its options.

    Parameters
    ----------
    tolerance
        The fit has converged when no entry of its gradient, in sd units, exceeds this, or when
        no step descends any more and none exceeds ``sampling_tolerance`` (a density with kinks).
    sampling_tolerance
        The number of draws is doubled until the error that they cause, in sds, is below this.
    num_draws, max_draws
        Initial and largest number of draws: powers of 2, at least 32. By default a fit begins with
        32 or, for a family with correlations, with at least four times the number of standard
        normal numbers in a draw: with fewer draws than dimensions, the ELBO on fixed draws has no
        maximum. A fit that runs away on few draws is tried again with more.
    num_restarts
        Random starts that are tried one after the other when a fit from z = 0 and from the mode
        nearest to it fails.
    """

    def solve(self, model: Model, kind: Kind, seed: int, report: Report) -> Solution:
        """Fit a family to a model."""
        return SingleFit(self, model, kind, seed, report).solve()

    def compile_many(
        self, program: Program, kind: Kind, shared: Data, own: Data, seeds: NDArray[np.int64]
    ) -> None:
        """Compile what `solve_many` needs for data of these shapes, what takes longest first."""
        density = Density(program, shared, own, len(seeds))
        if not Rounds(density, kind, seeds).compile(self.first_draws(kind, program.dim)):
            density.compile()

    def solve_many(
        self, program: Program, kind: Kind, shared: Data, own: Data, seeds: NDArray[np.int64]
    ) -> BatchSolution:
        """Fit a family to many sets of data, each from one start and the fallbacks.

        Arrays in ``own`` have a leading axis, one entry for each fit; those in ``shared`` are the
        same for all.
        """
        return solve_in_parts(self, program, kind, shared, own, seeds, silent)
