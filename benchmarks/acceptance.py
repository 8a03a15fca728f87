"""Statistical claims about fits and checks, measured and written to docs/fit-accuracy.md.

Run by ``make accuracy``. Eight schools over many seeds, regressions of posteriordb on raw data
(read from ``--data``, not part of the project), Stan's stopping rule on a linear regression.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import vicheck
from vicheck.paper import models

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "acceptance.json"
PAGE = ROOT / "docs" / "fit-accuracy.md"
STAN = ROOT / "tests" / "reference" / "eight_schools_stan.json"
SEEDS = 30


def main() -> None:
    sections = {"schools": schools, "stan": stan, "posteriordb": posteriordb, "linear": linear}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", default=list(sections))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in options.sections:
        results[name] = sections[name](options)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(as_markdown(results))
    print(as_markdown(results))


def model_of(name: str) -> vicheck.Model:
    return vicheck.from_numpyro(getattr(models, f"eight_schools_{name}"), **models.EIGHT_SCHOOLS)


def exact_moments() -> tuple[dict[str, float], float]:
    known = json.loads(STAN.read_text())["reference_moments"]["paper"]["exact_quadrature"]
    means = {f"theta[{i}]": known["mean"][f"theta{i + 1}"] for i in range(8)}
    return means | {n: known["mean"][n] for n in ("mu", "tau")}, known["log_evidence"]


def schools(_: Any) -> dict[str, Any]:
    means, log_evidence = exact_moments()
    answer: dict[str, Any] = {}
    for name in ("centred", "noncentred"):
        model = model_of(name)
        checks = [vicheck.check(vicheck.fit(model, seed=s), seed=s) for s in range(SEEDS)]
        khats = [checked.khat for checked in checks]
        answer[name] = {
            "khat": np.quantile(khats, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist(),
            "elbo": float(np.median([c.divergences.elbo.value for c in checks])),
            "levels": {level: sum(c.verdict.level == level for c in checks)
                       for level in ("good", "usable", "unreliable")},
        }  # fmt: skip
        if name == "noncentred":
            errors = np.array([
                [(c.moments.loc[q, "psis_mean"] - m) / c.moments.loc[q, "mcse"]
                 for q, m in means.items()]
                for c in checks
            ])  # fmt: skip
            evidence = [abs(c.log_evidence.value - log_evidence) for c in checks]
            answer[name] |= {
                "within_3_mcse": float((np.abs(errors) < 3.0).mean()),
                "evidence_error": float(np.nanmax(evidence)),
            }
    return answer


def stan(_: Any) -> dict[str, Any]:
    known = json.loads(STAN.read_text())["stan_meanfield_khat"]
    answer = {}
    for name, key in (("centred", "CP"), ("noncentred", "NCP")):
        model = model_of(name)
        fits = [vicheck.fit(model, solver="stan_advi", seed=s) for s in range(60)]
        khats = [vicheck.check(f, num_draws=100_000, seed=s).khat for s, f in enumerate(fits)]
        reference = known[f"default_tol.01_iter1e4|{key}|paper"]
        answer[name] = {
            "khat": np.quantile(khats, [0.25, 0.5, 0.75]).tolist(),
            "iterations": float(np.median([f.solution.settings["iterations"] for f in fits])),
            "stan_khat": [reference["khat"][q] for q in ("q25", "median", "q75")],
            "stan_iterations": reference["iterations"]["median"],
        }
    return answer


def posteriordb(options: Any) -> list[dict[str, Any]]:
    from posteriordb_models import OTHERS, REGRESSIONS, load

    rows = []
    for posterior in (*REGRESSIONS, *OTHERS):
        arrays, known = load(options.data / "posteriordb", posterior.name)
        for family in ("mean_field", "full_rank"):
            row: dict[str, Any] = {"name": posterior.name, "family": family,
                                   "regression": posterior in REGRESSIONS}  # fmt: skip
            try:
                model = vicheck.from_numpyro(posterior.model, **arrays)
                fit = vicheck.fit(model, family=family)
                start = time.perf_counter()
                fit = vicheck.fit(model, family=family)
                row |= {"seconds": time.perf_counter() - start, "status": fit.status.name,
                        "dim": model.dim}  # fmt: skip
                checked = vicheck.check(fit)
                table = checked.moments
                errors = [
                    abs(table.loc[name, "psis_mean"] - moment["mean"]) / moment["sd"]
                    for name, moment in known.items()
                ]
                row |= {"khat": checked.khat, "level": checked.verdict.level,
                        "error": float(np.max(errors))}  # fmt: skip
            except vicheck.ModelError as error:
                row |= {"status": f"refused: {error}"}
            rows.append(row)
            print(row, flush=True)
    return rows


def linear(_: Any) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    design = rng.normal(size=(10_000, 100))
    outcome = design @ rng.normal(size=100) + 2.0 * rng.normal(size=10_000)
    model = vicheck.from_numpyro(models.linear, design, outcome)
    khats = [
        vicheck.check(vicheck.fit(model, seed=s), num_draws=10_000, seed=s).khat for s in range(3)
    ]
    rows = []
    for tolerance in (1e-2, 1e-3, 1e-4, 1e-5):
        fit = vicheck.fit(
            model, solver="stan_advi", eta=0.05, tol_rel_obj=tolerance, iter=20_000, seed=1
        )
        checked = vicheck.check(fit, num_draws=10_000)
        rows.append({"tolerance": tolerance, "khat": checked.khat, "status": fit.status.name,
                     "iterations": fit.solution.settings["iterations"]})  # fmt: skip
        print(rows[-1], flush=True)
    return {"deterministic": khats, "stan_advi": rows}


def as_markdown(results: dict[str, Any]) -> str:
    lines = [
        "# Accuracy of fits and checks",
        "",
        "Written by `benchmarks/acceptance.py` (`make accuracy`).",
        "",
    ]
    for name, write in WRITERS.items():
        if name in results:
            lines += [*write(results[name]), ""]
    return "\n".join(lines).rstrip() + "\n"


def write_schools(results: dict[str, Any]) -> list[str]:
    lines = [
        "## Eight schools, the paper's priors, deterministic mean field",
        "",
        f"{SEEDS} seeds, one for each fit and its check, 100,000 draws.",
        "",
        "| parametrization | khat: least, quartiles, largest | ELBO | good / usable / unreliable |",
        "|---|---|---|---|",
    ]
    for name, row in results.items():
        khat = ", ".join(f"{k:.2f}" for k in row["khat"])
        levels = " / ".join(str(row["levels"][k]) for k in ("good", "usable", "unreliable"))
        lines.append(f"| {name} | {khat} | {row['elbo']:.2f} | {levels} |")
    row = results["noncentred"]
    return [
        *lines,
        "",
        f"Non-centred, against quadrature: {row['within_3_mcse']:.1%} of the adjusted means of "
        "theta, mu and tau lie within 3 MCSE of the exact ones; the log evidence is never off by "
        f"more than {row['evidence_error']:.3f}.",
    ]


def write_stan(results: dict[str, Any]) -> list[str]:
    lines = [
        "## `stan_advi` against Stan",
        "",
        "Eight schools, Stan's default settings, 60 seeds here and 60 with rstan 2.21.7 "
        "(`tests/reference/eight_schools_stan.json`); quartiles of khat and median iterations.",
        "",
        "| parametrization | khat here | khat of Stan | iterations here | iterations of Stan |",
        "|---|---|---|---|---|",
    ]
    for name, row in results.items():
        ours, theirs = (", ".join(f"{k:.2f}" for k in row[n]) for n in ("khat", "stan_khat"))
        lines.append(
            f"| {name} | {ours} | {theirs} | {row['iterations']:.0f} | "
            f"{row['stan_iterations']:.0f} |"
        )
    return lines


def write_posteriordb(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## posteriordb, raw data",
        "",
        "`error` is the largest error of a PSIS-adjusted mean, in reference sds. 100,000 draws.",
        "",
        "| posterior | parameters | family | status | khat | verdict | error | fit, ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: not row["regression"]):
        if "khat" not in row:
            lines.append(f"| {row['name']} | | {row['family']} | {row['status']} | | | | |")
            continue
        lines.append(
            f"| {row['name']} | {row['dim']} | {row['family']} | {row['status']} | "
            f"{row['khat']:.2f} | {row['level']} | {row['error']:.3f} | "
            f"{1e3 * row['seconds']:.0f} |"
        )
    return lines


def write_linear(results: dict[str, Any]) -> list[str]:
    khats = ", ".join(f"{khat:.2f}" for khat in results["deterministic"])
    lines = [
        "## Linear regression, n = 10,000, d = 100: what stopping early does",
        "",
        f"Deterministic, three seeds, 10,000 draws: khat {khats}. `stan_advi` with eta 0.05 and "
        "at most 20,000 iterations, by `tol_rel_obj`:",
        "",
        "| tol_rel_obj | khat | iterations | status |",
        "|---|---|---|---|",
    ]
    for row in results["stan_advi"]:
        lines.append(
            f"| {row['tolerance']:g} | {row['khat']:.2f} | {row['iterations']:.0f} | "
            f"{row['status']} |"
        )
    return lines


WRITERS = {
    "schools": write_schools,
    "stan": write_stan,
    "posteriordb": write_posteriordb,
    "linear": write_linear,
}


if __name__ == "__main__":
    main()
