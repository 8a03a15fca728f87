"""The engine: a fresh process against NumPyro's, and full rank up to 1000 parameters.

Run by ``make bench-engine``; written to ``docs/engine-benchmarks.md``. Each process of the first
table runs alone, with an empty cache (the second process finds the cache of the first), and counts
processor seconds, imports apart. Evaluations are points at which the density and its gradient are
computed, all that a fit does included: starts, curvature, rounds, search for modes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import vicheck

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "engine.json"
PAGE = ROOT / "docs" / "engine-benchmarks.md"

OURS = """
import json, time
import jax, numba, numpyro, pandas, scipy.stats, equinox, vicheck
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_noncentred
import vicheck.vi.fitting, vicheck.checking.run, vicheck.stats.rows_compiled
times = [time.process_time()]
model = vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
fit = vicheck.fit(model); times.append(time.process_time())
check = vicheck.check(fit, num_draws=100_000); times.append(time.process_time())
check.moments; times.append(time.process_time())
print(json.dumps({"fit": times[1] - times[0], "check": times[2] - times[1],
                  "moments": times[3] - times[2], "all": times[3] - times[0], "khat": check.khat}))
"""
NUMPYRO = """
import json, time
import jax, numpyro, optax
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.importance import psis_diagnostic
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_noncentred as model
times = [time.process_time()]
guide = AutoNormal(model)
svi = SVI(model, guide, numpyro.optim.Adam(0.01), Trace_ELBO())
run = svi.run(jax.random.key(0), 2000, progress_bar=False, **EIGHT_SCHOOLS)
jax.block_until_ready(run.params); times.append(time.process_time())
khat = float(psis_diagnostic(jax.random.key(1), run.params, model, guide, num_particles=100_000,
                             **EIGHT_SCHOOLS))
times.append(time.process_time())
print(json.dumps({"fit": times[1] - times[0], "check": times[2] - times[1], "moments": None,
                  "all": times[2] - times[0], "khat": khat}))
"""


def main() -> None:
    sections = {"fresh": fresh, "gaussians": gaussians, "regressions": regressions, "large": large}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", default=list(sections))
    parser.add_argument("--diamonds", type=Path, help="directory of diamonds.stan and its .json")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results["cores"] = os.cpu_count()
    for name in options.sections:
        results[name] = sections[name](options)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        PAGE.write_text(as_markdown(results))
    print(as_markdown(results))


def fresh(options: Any) -> dict[str, Any]:
    """Run both programs in processes of their own, three times in turn."""
    rows: dict[str, list[dict[str, Any]]] = {"first": [], "second": [], "numpyro": []}
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            rows["first"].append(run(OURS, cache))
            rows["second"].append(run(OURS, cache))
        with tempfile.TemporaryDirectory() as cache:
            rows["numpyro"].append(run(NUMPYRO, cache))
    return {
        who: {key: median([row[key] for row in of]) for key in of[0]} for who, of in rows.items()
    }


def run(program: str, cache: str) -> dict[str, Any]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "VICHECK_"))}
    environment |= {"XDG_CACHE_HOME": cache}
    # Python is to compile our sources once, not in each process.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def median(values: list[Any]) -> float | None:
    return None if values[0] is None else statistics.median(values)


def gaussians(options: Any) -> list[dict[str, Any]]:
    """Fit Gaussians of condition number 1e6 in random directions, with exact divergences."""
    rows = []
    for dim in (10, 100, 1000):
        rng = np.random.default_rng(dim)
        basis, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
        eigenvalues = np.logspace(-3, 3, dim)
        data = {"precision": basis * eigenvalues @ basis.T, "mean": 3.0 * rng.normal(size=dim)}

        def log_density(z: Any, data: Any) -> Any:
            deviation = z - data["mean"]
            return -0.5 * deviation @ data["precision"] @ deviation

        model = vicheck.from_log_density(log_density, jnp.zeros(dim), data=data)
        start = time.process_time()
        fit = vicheck.fit(model, family="full_rank", num_starts=1)
        seconds = time.process_time() - start
        most = fit.solution.num_draws // 2
        found = vicheck.fit(model, family="full_rank", num_starts=1, max_draws=most)
        scaled = data["precision"] @ np.asarray(fit.covariance)
        off = fit.mean - data["mean"]
        kl = np.trace(scaled) - dim - np.linalg.slogdet(scaled)[1] + off @ data["precision"] @ off
        rows.append({
            "dim": dim, "status": fit.status.name, "kl": float(abs(0.5 * kl)), "seconds": seconds,
            "num_evaluations": fit.solution.num_evaluations,
            # All but the last round, which shows that there are enough draws.
            "until_found": found.solution.num_evaluations,
        })  # fmt: skip
    return rows


def regressions(options: Any) -> list[dict[str, Any]]:
    """Fit full rank to ordinary regressions, with the default draws and with 1024."""
    import full_rank

    rows = []
    for name, make, dims in (
        ("linear", full_rank.linear_of, (17, 41, 101, 200)),
        ("logistic", full_rank.logistic_of, (20, 60, 200)),
        ("Poisson", full_rank.poisson_of, (20, 60, 200)),
    ):
        for dim in dims:
            model = make(np.random.default_rng(dim), dim)
            start = time.process_time()
            fit = vicheck.fit(model, family="full_rank")
            seconds = time.process_time() - start
            more = vicheck.fit(
                model, family="full_rank", num_draws=max(1024, fit.solution.num_draws)
            )
            rows.append({
                "model": name, "dim": dim, "status": fit.status.name, "seconds": seconds,
                "num_evaluations": fit.solution.num_evaluations,
                "num_draws": fit.solution.num_draws,
                "khat": vicheck.check(fit, num_draws=20_000).khat,
                "khat_1024": vicheck.check(more, num_draws=20_000).khat,
            })  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def large(options: Any) -> list[dict[str, Any]]:
    """Fit 1000 parameters at full rank, and `diamonds` through Stan."""
    import full_rank

    models = [("linear regression, 5000 rows", full_rank.linear_of(np.random.default_rng(0), 1000))]
    if options.diamonds:
        files = (options.diamonds / name for name in ("diamonds.stan", "diamonds.json"))
        models.append(("diamonds of posteriordb, through Stan", vicheck.from_stan(*files)))
    rows = []
    for name, model in models:
        start, wall = time.process_time(), time.perf_counter()
        fit = vicheck.fit(model, family="full_rank")
        rows.append({
            "model": name, "dim": model.dim, "status": fit.status.name,
            "seconds": time.process_time() - start, "wall": time.perf_counter() - wall,
            "num_evaluations": fit.solution.num_evaluations,
            "num_draws": fit.solution.num_draws,
            "khat": vicheck.check(fit, num_draws=4000).khat,
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def as_markdown(results: dict[str, Any]) -> str:
    parts = [
        "# The engine, measured",
        f"Made by `make bench-engine` on {results['cores']} cores; in processor seconds unless "
        "another unit is given. Machines differ and are noisy, so look at the ratios.",
    ]
    if "fresh" in results:
        parts += fresh_table(results["fresh"])
    if "gaussians" in results:
        parts += gaussian_table(results["gaussians"])
    if "regressions" in results:
        parts += regression_table(results["regressions"])
    if "large" in results:
        parts += large_table(results["large"])
    return "\n\n".join(parts) + "\n"


def fresh_table(rows: dict[str, Any]) -> list[str]:
    labels = {
        "first": "vicheck, nothing in the cache",
        "second": "vicheck, a second process",
        "numpyro": "NumPyro: `svi.run` with 2000 steps, `psis_diagnostic`",
    }
    lines = ["| | fit | check of 1e5 draws | moments | all | khat |", "|---|---|---|---|---|---|"]
    for who, label in labels.items():
        row = rows[who]
        moments = "none" if row["moments"] is None else f"{row['moments']:.2f}"
        lines.append(
            f"| {label} | {row['fit']:.2f} | {row['check']:.2f} | {moments} | {row['all']:.2f} | "
            f"{row['khat']:.2f} |"
        )
    ratio = rows["numpyro"]["all"] / rows["first"]["all"]
    return [
        "## From a fresh process to an answer",
        "The non-centred eight schools in a fresh process, without the imports; medians of three. "
        "Numba's code for PSIS and moments is already there from an earlier run; compiling "
        "it takes another 8 s, once after installation.",
        "\n".join(lines),
        f"NumPyro takes {ratio:.1f} times as long as a first process of vicheck, and a second "
        f"process takes {rows['second']['all'] / rows['first']['all']:.2f} of the first.",
    ]


def gaussian_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| parameters | status | KL(q, p) | evaluations per parameter to find it | and to show "
        "it | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        found, all_of_them = (row[key] / row["dim"] for key in ("until_found", "num_evaluations"))
        lines.append(
            f"| {row['dim']} | {row['status']} | {row['kl']:.0e} | {found:.1f} | "
            f"{all_of_them:.1f} | {row['seconds']:.1f} |"
        )
    return [
        "## Gaussian posteriors at full rank",
        "Condition number 1e6, in random directions; seconds include compiling. The last round has "
        "twice the draws and shows that there were enough; half of them are known, "
        "and are evaluated again only where they are too many to keep.",
        "\n".join(lines),
    ]


def regression_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| regression | parameters | status | draws | khat | khat from 1024 draws on | evaluations "
        "| seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['model']} | {row['dim']} | {row['status']} | {row['num_draws']} | "
        f"{row['khat']:.2f} | {row['khat_1024']:.2f} | {row['num_evaluations']} | "
        f"{row['seconds']:.1f} |"
        for row in rows
    ]
    return [
        "## Regressions at full rank",
        "Covariates that correlate by 0.7 (`benchmarks/full_rank.py`); khat from 20,000 draws. "
        "Code that an earlier run has compiled is loaded, not compiled.",
        "\n".join(lines),
    ]


def large_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| model | parameters | status | draws | khat | evaluations | seconds | wall, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['model']} | {row['dim']} | {row['status']} | {row['num_draws']} | "
        f"{row['khat']:.2f} | {row['num_evaluations']} | {row['seconds']:.1f} | {row['wall']:.1f} |"
        for row in rows
    ]
    return ["## Large, and through Stan", "\n".join(lines)]


if __name__ == "__main__":
    main()
