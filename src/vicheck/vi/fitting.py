"""Fit one model: choose family and solver, and keep the result with its inputs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vicheck.errors import require_count
from vicheck.model import Model, double_precision
from vicheck.results.fit import Fit, Solution
from vicheck.results.status import FitStatus
from vicheck.runtime.interrupts import between_pieces
from vicheck.runtime.progress import Progress, showing
from vicheck.runtime.seeds import Seed, as_seed
from vicheck.vi.families.registry import Kind, kind_of
from vicheck.vi.modes.beyond import look_beyond
from vicheck.vi.modes.search import NUM_STARTS
from vicheck.vi.solvers.registry import make_solver
from vicheck.vi.solvers.reporting import Report

__all__ = ["fit"]


@between_pieces()
def fit(
    model: Model,
    data: Mapping[str, Any] | None = None,
    *,
    family: str = "mean_field",
    rank: int | None = None,
    solver: str = "deterministic",
    num_starts: int = NUM_STARTS,
    seed: Seed = 0,
    progress: Progress = True,
    title: str = "",
    **options: Any,
) -> Fit:
    """Fit an approximation to the posterior of a model.

    Parameters
    ----------
    model
        From `vicheck.from_numpyro`, `vicheck.from_pymc`, `vicheck.from_stan` or
        `vicheck.from_log_density`.
    data
        Named arrays that replace the model's own. If shapes stay the same, nothing is compiled
        again.
    family
        ``"mean_field"``, ``"full_rank"``, ``"low_rank"`` (low rank plus diagonal),
        ``"bent"`` (skewed, heavy-tailed and bent, for few parameters) or one of your own
        (`vicheck.vi.families.registry.register`). The names of Stan and PyMC are understood:
        ``meanfield`` and ``advi``, ``fullrank`` and ``fullrank_advi``.
    rank
        Rank of ``"low_rank"``; 5 by default.
    solver
        ``"deterministic"`` (fixed draws, run to convergence), ``"stochastic"`` (Optax, minibatches)
        or ``"stan_advi"`` (Stan's algorithm).
    num_starts
        Starts of the search for other modes that follows the fit: the density is climbed from the
        fit, the prior, boxes of several widths and points of high density. With 48 of them, a mode
        to which a tenth of the starts lead is found with probability 99%. Modes that q does not
        reach are fitted too, and the deterministic solver returns the best of all fits
        (``fit.solution.search`` and ``others`` have the rest). 1 means no search. An expensive
        density may get fewer starts, but at least 12: as many as fit into the number of
        evaluations that the fit took, or into 3000 if that is more (1000 if the density is
        computed on the host).
    seed
        An integer or a JAX key; the same seed gives the same bits.
    progress
        Whether to show a progress line on standard error, after a second and only in a terminal or
        a notebook; or a function to be called with each sentence instead.
    title
        Title of the checks and reports of this fit; by default the names of the model's function,
        the family and the solver.
    **options
        Options of the solver: see `vicheck.vi.solvers.deterministic.solver.Deterministic`,
        `vicheck.vi.solvers.stochastic.Stochastic`, `vicheck.vi.solvers.stan_advi.StanAdvi`.

    Returns
    -------
    Fit
        It has a status: a fit that failed is a value, not an exception. A fit interrupted by
        Ctrl-C is returned as far as it got; a second Ctrl-C does not wait.

    Raises
    ------
    ModelError
        When the model or data cannot be used at all, such as a density that is nowhere finite.

    Examples
    --------
    >>> from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_noncentred
    >>> model = vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
    >>> vicheck.fit(model)
    Fit(mean_field, 10 parameters, deterministic: CONVERGED, ELBO -31.52)
    """
    if not isinstance(model, Model):
        raise TypeError(
            f"model must be a vicheck Model, got {type(model).__name__}: make one with "
            "vicheck.from_numpyro, from_pymc, from_stan or from_log_density"
        )
    seed = as_seed(seed)
    require_count("num_starts", num_starts, 1)
    solver_with_options = make_solver(solver, options)
    model = model.given(data)
    model.require_data()
    kind = kind_of(family, model.dim, rank)
    start = time.perf_counter()
    with double_precision(), showing(progress, "fitting") as report:
        now = model.snapshot()
        solution = solver_with_options.solve(now, kind, seed, report)
        if num_starts > 1:
            solution = _with_search(now, kind, solution, num_starts, seed, report, solver)
        computed = now.program.computation("log_density", now.data)
    seconds = time.perf_counter() - start
    given = options if rank is None else {"rank": rank} | options
    if num_starts != NUM_STARTS:
        given = {"num_starts": num_starts} | given
    return Fit(model, kind.name, solver, seed, solution, seconds, given, computed, title)


def _with_search(
    model: Model,
    kind: Kind,
    solution: Solution,
    num_starts: int,
    seed: int,
    report: Report,
    solver: str,
) -> Solution:
    """Look for other modes; interrupted, the fit is as it was before."""
    # Other solvers are asked for because of what they find: it is judged, not replaced.
    try:
        return look_beyond(
            model, kind, solution, num_starts, seed, report, may_replace=solver == "deterministic"
        )
    except KeyboardInterrupt:
        return replace(solution, status=FitStatus.INTERRUPTED)
