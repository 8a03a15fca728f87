"""What Figures 3 and 4 share: logistic regression on two covariates, more and more correlated."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.special import expit

import vicheck
from vicheck.paper.exact import logistic_plane
from vicheck.paper.experiment import Numbers, Run
from vicheck.paper.models import logistic
from vicheck.paper.repeats import rmse, weigh

__all__ = ["SCRIPTED", "SHARED", "all_runs", "compute"]

_CORRELATIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
SHARED = "logistic-runs"
"""Name of the file of the numbers."""
SCRIPTED = (
    "n = 50 and 200 repeats, where the text has n = 100 and 50; fits are ours all the same, the "
    "script's own ADVI (a fixed scale, 6000 steps, NaN dropped) is not imitated"
)

_TRUTH = np.array([1.0, 2.0])
"""The coefficients of the authors' script; the text has none."""
_TESTS = 100
_MAX_TRIES = 20


def compute(run: Run) -> Numbers:
    """Fit, check and compare with the exact posterior, for every correlation."""
    num_rows = 50 if run.as_scripted else 100
    repeats = run.choose(200 if run.as_scripted else 50, 4)
    correlations = run.choose(_CORRELATIONS, (0.0, 0.5, 0.9, 0.99))
    num_draws = run.choose(100_000, 20_000)
    rows = [
        run.piece(f"correlation-{rho:g}", partial(_of_one, rho, num_rows, num_draws, repeats))
        for rho in correlations
    ]
    return {"num_rows": num_rows, "num_draws": num_draws, "repeats": repeats, "rows": rows}


def all_runs(numbers: Numbers) -> list[Numbers]:
    """Return the runs of all correlations."""
    return [one for row in numbers["rows"] for one in row["runs"]]


def _of_one(rho: float, num_rows: int, num_draws: int, repeats: int) -> Numbers:
    runs = [_one(rho, num_rows, num_draws, seed) for seed in range(repeats)]
    return {"correlation": rho, "runs": runs}


def _one(rho: float, num_rows: int, num_draws: int, seed: int) -> Numbers:
    for attempt in range(_MAX_TRIES):
        rng = np.random.default_rng((seed, attempt, round(1000 * rho)))
        design, outcome = _simulate(rng, rho, num_rows)
        try:
            truth = logistic_plane(design, outcome)
        except ValueError:  # separable: with a flat prior there is no posterior
            continue
        break
    else:
        raise RuntimeError(f"all of {_MAX_TRIES} simulated datasets are separable")
    new_design, new_outcome = _simulate(rng, rho, _TESTS)
    fit = vicheck.fit(vicheck.from_numpyro(logistic, design, outcome), seed=seed)
    checked = vicheck.check(fit, num_draws=num_draws, seed=seed, chains=False)
    draws = checked.draws["beta"]
    numbers: Numbers = {
        "khat": checked.khat,
        "status": fit.status.name,
        "separable": attempt,
        "posterior_correlation": truth.correlation,
        "lpd_truth": truth.log_predictive_density(new_design, new_outcome),
        "lpd_vi": _log_predictive_density(fit, new_design, new_outcome),
    }
    for way, weights in weigh(checked.log_ratios, checked.psis).items():
        numbers[f"rmse_first_{way}"] = rmse(weights @ draws, truth.mean)
        numbers[f"rmse_second_{way}"] = rmse(weights @ draws**2, truth.second_moment)
    return numbers


def _log_predictive_density(fit: vicheck.Fit, design: np.ndarray, outcome: np.ndarray) -> float:
    """Integrate over q, under which a linear predictor is normal, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    sds = np.sqrt(design**2 @ fit.sd**2)
    predictors = (design @ fit.mean)[:, None] + sds[:, None] * nodes
    densities = expit((2 * outcome - 1)[:, None] * predictors) @ (weights / weights.sum())
    return float(np.log(densities).mean())


def _simulate(rng: np.random.Generator, rho: float, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    covariance = (1 - rho) * np.eye(2) + rho
    design = rng.normal(size=(num_rows, 2)) @ np.linalg.cholesky(covariance).T
    return design, rng.binomial(1, 1 / (1 + np.exp(-design @ _TRUTH)))
