"""The check of a fit of vicheck's own: its draws, and what is found out beside them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vicheck.checking.enough import FIRST_DRAWS, NumDraws, draw_enough, open_question
from vicheck.checking.given import nan_notes
from vicheck.checking.modes import pooled_modes, search_from_higher_draws, weights_allow
from vicheck.results.check import Check
from vicheck.results.convergence import Convergence, PooledModes
from vicheck.results.provenance import Provenance, fingerprint_of_arrays, python_call, versions_of
from vicheck.stats.growth import khat_growth
from vicheck.stats.tail_lengths import judged_psis

if TYPE_CHECKING:
    from vicheck.checking.chained import Chains, Found
    from vicheck.evaluation import Evaluated
    from vicheck.quantities import Quantities, Spec
    from vicheck.results.fit import Fit
    from vicheck.results.psis import PsisResult
    from vicheck.results.reference import Reference

__all__ = ["check_fit", "convergence_of", "provenance_of"]

Floats = NDArray[np.float64]

_FEW_GRADIENTS = 64
"""Draws for the gradient test of a density that is too expensive for more."""
_NO_TIME = "Short chains were left out: the draws have used up the budget; chains=True runs them."


def check_fit(
    fit: Fit,
    num_draws: NumDraws,
    quantities: Spec | None,
    reference: Reference | None,
    test_data: Mapping[str, Any] | None,
    seed: int,
    budget: float,
    executor: Executor | None,
    chains: Chains = None,
    chains_below: float = np.inf,
) -> Check:
    """Check a fit of vicheck's own; the reference is named in its provenance, and not used.

    Chains are left out where khat is not below a limit.
    """
    from vicheck.checking.chained import chains_of_fit, draws_of_fit
    from vicheck.checking.response import response_column
    from vicheck.evaluation import Evaluation
    from vicheck.model import double_precision
    from vicheck.quantities import reported_quantities

    fit = replace(fit, model=fit.model.snapshot())
    start = time.perf_counter()
    with double_precision():
        reported = reported_quantities(fit.model, quantities)
        evaluation = Evaluation(fit.model, fit.q, reported, seed, executor)
        mixed: dict[int, PooledModes | None] = {}

        def pooled(smoothed: PsisResult) -> PooledModes | None:
            if smoothed.num_draws not in mixed:
                mixed[smoothed.num_draws] = _pooled(fit, reported, smoothed, seed, executor)
            return mixed[smoothed.num_draws]

        def open_in(drawn: Evaluated) -> str:
            log_ratios = _log_ratios(drawn)
            smoothed = judged_psis(log_ratios)
            return open_question(smoothed, log_ratios, drawn.values, lambda: pooled(smoothed))

        drawn, notes = draw_enough(evaluation.first, num_draws, budget, open_in)
        # A density of which not even these are in time is asked for little more.
        stopped_early = not isinstance(num_draws, int) and len(drawn.log_q) < FIRST_DRAWS
        convergence = convergence_of(fit, seed, _FEW_GRADIENTS if stopped_early else None)
        log_ratios = _log_ratios(drawn)
        smoothed = judged_psis(log_ratios)
        search, mixture = fit.solution.search, pooled(smoothed)
        again = search_from_higher_draws(
            fit,
            drawn.log_p,
            lambda rows: draws_of_fit(fit.q, evaluation, rows),
            reported,
            seed,
            weights_allow(smoothed),
        )
        if again is not None:
            search, mixture = again
        chained: Found = None, (_NO_TIME,) if chains is None else ()
        if chains_below < np.inf and not smoothed.khat < chains_below:
            chains = False
        if chains or not stopped_early:
            chained = chains_of_fit(
                fit.model, fit.q, reported, evaluation, drawn, smoothed, seed, budget, chains
            )
        short, left_out = chained
        extra = {} if stopped_early else response_column(fit, reported, convergence.gradient)
    predictive = None
    if test_data is not None:
        from vicheck.checking.prediction import predictive_density

        predictive = predictive_density(fit.model, fit.q, test_data, seed=seed)
    typed = _typed(quantities, reference, test_data, chains)
    return Check(
        log_p=drawn.log_p,
        log_q=drawn.log_q,
        values=drawn.values,
        shapes=reported.shapes,
        names=reported.drawn_names,
        psis=smoothed,
        khat_growth=khat_growth(log_ratios, smoothed).to_dict(),
        convergence=convergence,
        pooled=mixture,
        modes=search,
        chains=short,
        predictive=predictive,
        title=fit.title,
        elbo_trace=fit.solution.elbo_trace,
        extra=extra,
        provenance=provenance_of(fit, len(log_ratios), seed, typed),
        notes=(*notes, *left_out, *_notes_on(fit), *nan_notes(drawn.values, reported.drawn_names)),
        seconds=fit.seconds + time.perf_counter() - start,
        dims=dict(fit.model.dims),
        coords=dict(fit.model.coords),
        indexing=fit.model.indexing,
        model=fit.model,
        q=fit.q,
    )


def _pooled(
    fit: Fit, reported: Quantities, smoothed: PsisResult, seed: int, executor: Executor | None
) -> PooledModes | None:
    others = fit.solution.others
    if not others:
        return None
    members = (fit.q, *(other.q for other in others))
    elbos = [fit.elbo, *(other.elbo for other in others)]
    weights_work = weights_allow(smoothed)
    return pooled_modes(
        fit.model, members, elbos, reported, smoothed.num_draws, seed, weights_work, executor
    )


def _log_ratios(drawn: Evaluated) -> Floats:
    with np.errstate(invalid="ignore"):
        return drawn.log_p - drawn.log_q


def convergence_of(fit: Fit, seed: int, num_gradients: int | None = None) -> Convergence:
    """Gather what is known about whether the solver has found its optimum.

    The test of its gradient takes 1024 draws, unless another number is given.
    """
    from vicheck.vi.families.registry import richer_than
    from vicheck.vi.gradient_test import gradient_test

    solution = fit.solution
    mean = solution.settings.get("rel_mean", np.nan)
    median = solution.settings.get("rel_median", np.nan)
    rhat = mcse = np.nan
    if fit.solver == "stochastic" and len(solution.elbo_trace) > 1:
        from vicheck.vi.solvers.stopping import relative_changes

        mean, median = relative_changes(solution.elbo_trace, max(2, len(solution.elbo_trace) // 10))
    if len(solution.iterates):
        from vicheck.vi.solvers.iterates import iterate_diagnostics

        rhat, mcse = iterate_diagnostics(solution.iterates)
    return Convergence(
        status=fit.status,
        solver=fit.solver,
        gradient=gradient_test(fit.model, fit.q, num_draws=num_gradients or 1024, seed=seed),
        gradient_norm=solution.gradient_norm,
        sampling_error=solution.sampling_error,
        relative_change_mean=mean,
        relative_change_median=median,
        rhat=rhat,
        iterate_mcse=mcse,
        family=fit.family,
        richer=richer_than(fit.family, fit.model.dim),
        gradient_trace=solution.gradient_trace,
    )


def provenance_of(fit: Fit, num_draws: int, seed: int, more: Mapping[str, str]) -> Provenance:
    """Return what a check of a fit rests on."""
    fitted = python_call(
        "vicheck.fit", "model", family=fit.family, solver=fit.solver, seed=fit.seed, **fit.options
    )
    return Provenance(
        settings={
            "family": fit.family,
            "solver": fit.solver,
            **{name: str(value) for name, value in fit.options.items()},
            "seed of the fit": fit.seed,
            "seed of the check": seed,
            "draws": num_draws,
        },
        subject="data",
        fingerprint=fingerprint_of_arrays(fit.model.data) if fit.model.data else "",
        versions=versions_of("numpy", "scipy", "jax", "numpyro"),
        code=python_call(
            "vicheck.check",
            fitted,
            *(f"{name}={value}" for name, value in more.items()),
            num_draws=num_draws,
            seed=seed,
        ),
    )


def _notes_on(fit: Fit) -> tuple[str, ...]:
    """Say so when the model is no longer what was fitted."""
    from vicheck.model import double_precision

    with double_precision():
        now = fit.model.program.computation("log_density", fit.model.data)
    if fit.computed is None or fit.computed == now:
        return ()
    return (
        "The model has changed since it was fitted: a value that it reads is different now. The "
        "fit is compared with the model as it is now; fit it again.",
    )


def _typed(
    quantities: Spec | None, reference: Any, test_data: Any, chains: Chains
) -> dict[str, str]:
    """Return further arguments of a check as they would be typed."""
    arguments = {"reference": "reference"} if reference is not None else {}
    if test_data is not None:
        arguments["test_data"] = "test_data"
    if quantities is not None:
        named = not isinstance(quantities, Mapping)
        arguments["quantities"] = repr(list(quantities)) if named else "quantities"
    if chains is not None:
        arguments["chains"] = repr(chains)
    return arguments
