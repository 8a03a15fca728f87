"""One case: a problem fitted by one family, solver and seed, and all that was said of it."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import vicheck
from truth.problem import Moments, Problem, Truth
from vicheck.stats.estimates import expectation, plain_log_weights

__all__ = ["Case", "cases_of", "measure"]

WAYS = ("vi", "psis", "chains")
"""Whose means and sds may be recommended; those that a table has not are left out."""
MOST_VALUES = 20_000
"""Draws that errors of plain sds are estimated from."""


@dataclass(frozen=True)
class Case:
    """What is fitted, and how."""

    problem: str
    family: str
    solver: str
    seed: int

    @property
    def key(self) -> str:
        return f"{self.problem} | {self.family} | {self.solver} | {self.seed}"


def cases_of(problem: Problem) -> Iterator[Case]:
    for family in problem.families:
        for solver, number in problem.seeds.items():
            for seed in range(0 if (family, solver) in problem.without else number):
                yield Case(problem.name, family, solver, seed)


def measure(
    case: Case, problem: Problem, truth: Truth, model: vicheck.Model | None
) -> dict[str, Any]:
    """Fit and check, and return what was said with what is true, as plain values."""
    record: dict[str, Any] = {
        "key": case.key,
        "problem": case.problem,
        "kind": problem.kind,
        "tags": sorted(problem.tags),
        "half": problem.half,
        "family": case.family,
        "solver": case.solver,
        "seed": case.seed,
        "found_by": truth.found_by,
        "exact": math.isinf(truth.num_draws),
    }
    start, begun = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if model is None:
                status, checked, fit_seconds = "given", _check_given(problem, case), 0.0
            else:
                fit = vicheck.fit(model, family=case.family, solver=case.solver, seed=case.seed)
                fit_seconds = time.perf_counter() - start
                options: dict[str, Any] = {"seed": case.seed, "quantities": problem.quantities}
                if problem.num_draws:
                    options["num_draws"] = problem.num_draws
                status, checked = fit.status.name, vicheck.check(fit, **options)
            said = answers(checked, truth)
        except vicheck.ModelError as error:
            return record | {"error": str(error), "level": "refused", "quantities": []}
    taken = {
        "fit_seconds": fit_seconds,
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - begun,
    }
    return record | {"status": status} | taken | said


def _check_given(problem: Problem, case: Case) -> vicheck.Check:
    assert problem.draw is not None
    given = problem.draw(np.random.default_rng(case.seed))
    return vicheck.check_draws(given.draws, given.log_p, given.log_q)


def answers(checked: vicheck.Check, truth: Truth) -> dict[str, Any]:
    """Return every answer of a check, and the truth beside the quantities."""
    verdict, psis = checked.verdict, checked.psis
    evidence = checked.log_evidence
    low, high = map(float, psis.khat_interval(0.9))
    return {
        "level": verdict.level,
        "decided_by": verdict.decided_by,
        "codes": [finding.code for finding in verdict.findings],
        "answers": {
            name: getattr(verdict, name).value
            for name in ("converged", "close", "weights_work", "elsewhere", "chains_agree")
            if hasattr(verdict, name)
        },
        "khat": checked.khat,
        "khat_interval": [low, high],
        "threshold": psis.threshold,
        "ess": float(psis.ess),
        "num_draws": psis.num_draws,
        "log_evidence": {
            "value": evidence.value, "mcse": evidence.mcse, "truth": truth.log_evidence,
        },
        "quantities": _quantities(checked, truth),
    }  # fmt: skip


def _quantities(checked: vicheck.Check, truth: Truth) -> list[dict[str, Any]]:
    table = checked.moments
    absent = sorted(set(truth.moments) - set(table.index))
    if absent:
        raise ValueError(f"the check reports nothing on {', '.join(absent)}")
    rows = []
    for name, known in truth.moments.items():
        row = table.loc[name]
        column = checked.values[:, checked.names.index(name)] if len(checked.values) else None
        rows.append(_row(name, row, known, truth.num_draws, column, checked.kept_log_weights))
    return rows


def _row(
    name: str, row: Any, known: Moments, num_known: float, values: Any, log_weights: Any
) -> dict[str, Any]:
    """Return one quantity: what is true, what each way says with its error, what to use."""
    told: dict[str, Any] = {
        "name": name,
        "mean": known.mean,
        "sd": known.sd,
        "unit": known.unit,
        "mean_error": known.unit / math.sqrt(num_known),
        "sd_error": known.unit / math.sqrt(2.0 * num_known),
        "khat": float(row["khat"]),
        "shift": float(row["shift"]),
        "use_mean": row["use_mean"] if "use_mean" in row else row["use"],
        "use_sd": row["use_sd"] if "use_sd" in row else row["use"],
    }
    for column in ("drift", "drift_error"):
        if column in row:
            told[column] = float(row[column])
    errors = _errors(row, values, log_weights)
    for way in WAYS:
        if f"{way}_mean" in row:
            mcse, mcse_sd = errors.get(way, (0.0, 0.0))
            told[way] = {
                "mean": float(row[f"{way}_mean"]),
                "sd": float(row[f"{way}_sd"]),
                "mcse": mcse,
                "mcse_sd": mcse_sd,
            }
    return told


def _errors(row: Any, values: Any, log_weights: Any) -> dict[str, tuple[float, float]]:
    """Return Monte Carlo errors of mean and sd: those stated, and for sds by the delta method."""
    if values is None or not np.isfinite(values).all():
        return {}
    plain = expectation(values[:MOST_VALUES], plain_log_weights(len(values[:MOST_VALUES])))
    fewer = math.sqrt(len(values[:MOST_VALUES]) / len(values))
    errors = {"vi": (plain.mcse * fewer, plain.mcse_sd * fewer)}
    if np.isfinite(log_weights).all():
        errors["psis"] = (float(row["mcse"]), expectation(values, log_weights).mcse_sd)
    if "chains_mcse" in row:
        errors["chains"] = (float(row["chains_mcse"]), float(row.get("chains_mcse_sd", np.nan)))
    return errors
