"""What a check finds out about a fit of vicheck's own beside its draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vicheck.results.convergence import Convergence, PooledModes
from vicheck.results.provenance import Provenance, fingerprint_of_arrays, python_call, versions_of
from vicheck.stats.divergences import divergences
from vicheck.stats.psis import psis_quietly

if TYPE_CHECKING:
    from vicheck.results.fit import Fit
    from vicheck.vi.families.mixture import Mixture

__all__ = ["convergence_of", "pooled_modes", "provenance_of"]

Floats = NDArray[np.float64]

_LEAST_PART = 0.01
"""Of the mixture, for an optimum whose ELBO leaves it less: that is only a bound on its mass."""


def convergence_of(fit: Fit, seed: int) -> Convergence:
    """Gather what is known about whether the solver has found its optimum."""
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
        gradient=gradient_test(fit.model, fit.q, seed=seed),
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


def pooled_modes(fit: Fit, log_q: Floats, seed: int) -> PooledModes | None:
    """Mix all optima, and estimate how much of the posterior the fit's own draws never reach."""
    from vicheck.evaluation import evaluate_draws_of
    from vicheck.vi.families.mixture import Mixture
    from vicheck.vi.families.moments import mean_of

    others = fit.solution.others
    if not others:
        return None
    members = (fit.q, *(other.q for other in others))
    elbos = np.array([fit.elbo, *(other.elbo for other in others)])
    with np.errstate(under="ignore"):
        parts = np.maximum(np.exp(elbos - elbos.max()), _LEAST_PART)
    parts /= parts.sum()
    log_p, log_mixture, of_members = evaluate_draws_of(
        fit.model, Mixture(members, parts), _OfMembers(len(members)), len(log_q), seed
    )
    with np.errstate(invalid="ignore", under="ignore"):
        log_ratios = log_p - log_mixture
        smoothed = psis_quietly(log_ratios)
        weights = np.exp(smoothed.log_weights)
        shares = parts * np.exp(of_members - log_mixture[:, None])
    return PooledModes(
        khat=float(smoothed.khat),
        log_evidence=divergences(log_ratios, smoothed=smoothed).log_evidence,
        missed=float(weights @ (of_members[:, 0] < log_q.min())),
        masses=np.asarray(weights @ shares),
        locations=np.stack([np.asarray(mean_of(member)) for member in members]),
    )


@dataclass(frozen=True)
class _OfMembers:
    """The log density of each member of a mixture, as what is computed for each draw."""

    num_values: int

    def at(self, program: Any, q: Mixture, z: Any, data: Any) -> Any:
        return q.log_prob_of_members(z)
