"""Fit one model: choose family and solver, and keep the result with its inputs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from vicheck.errors import require_count
from vicheck.model import Model, double_precision
from vicheck.results.fit import Fit
from vicheck.runtime.interrupts import between_pieces
from vicheck.vi.families.registry import kind_of
from vicheck.vi.solvers.registry import make_solver
from vicheck.vi.solvers.reporting import Report, silent

__all__ = ["fit"]


@between_pieces()
def fit(
    model: Model,
    data: Mapping[str, Any] | None = None,
    *,
    family: str = "mean_field",
    rank: int | None = None,
    solver: str = "deterministic",
    seed: int = 0,
    progress: Report | None = None,
    **options: Any,
) -> Fit:
    """Fit an approximation to the posterior of a model.

    Parameters
    ----------
    model
        From `vicheck.from_numpyro`, `vicheck.from_pymc`, `vicheck.from_stan` or
        `vicheck.from_log_density`.
    data
        Named arrays that replace the model's own; of the same shapes, nothing is compiled again.
    family
        ``"mean_field"``, ``"full_rank"``, ``"low_rank"`` (low rank plus diagonal) or one of your
        own (`vicheck.vi.families.registry.register`).
    rank
        Rank of ``"low_rank"``; 5 by default.
    solver
        ``"deterministic"`` (fixed draws, run to convergence), ``"stochastic"`` (Optax, minibatches)
        or ``"stan_advi"`` (Stan's algorithm).
    seed
        The same seed gives the same bits.
    progress
        Called from time to time with a sentence on progress.
    **options
        Options of the solver: see `vicheck.vi.solvers.deterministic.solver.Deterministic`,
        `vicheck.vi.solvers.stochastic.Stochastic`, `vicheck.vi.solvers.stan_advi.StanAdvi`.

    Returns
    -------
    Fit
        With a status; a fit that failed is a value, not an exception. An interrupted one
        (Ctrl-C) is returned as far as it got; a second Ctrl-C does not wait.

    Raises
    ------
    ModelError
        When the model or data cannot be used at all, such as a density that is nowhere finite.

    Examples
    --------
    >>> from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_noncentred
    >>> model = vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
    >>> vicheck.fit(model)
    Fit(mean_field, 10 parameters, deterministic: CONVERGED, ELBO -31.54)
    """
    if not isinstance(model, Model):
        raise TypeError(
            f"model must be a vicheck Model, got {type(model).__name__}: make one with "
            "vicheck.from_numpyro, from_pymc, from_stan or from_log_density"
        )
    require_count("seed", seed, 0)
    solver_with_options = make_solver(solver, options)
    model = model.given(data)
    model.require_data()
    kind = kind_of(family, model.dim, rank)
    start = time.perf_counter()
    with double_precision():
        now = model.snapshot()
        solution = solver_with_options.solve(now, kind, seed, progress or silent)
        computed = now.program.computation("log_density", now.data)
    seconds = time.perf_counter() - start
    given = options if rank is None else {"rank": rank} | options
    return Fit(model, family, solver, seed, solution, seconds, given, computed)
