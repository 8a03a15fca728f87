"""Speed and accuracy of fits and checks against peers in the same run; written to docs/.

Run by ``make bench-fit``. A peer is given one and ten draws per step and as many steps as it needs,
up to 1e5, to come within 0.05 nats of our ELBO on fresh draws in float64. Two rows for each: with
Adam's step size of 0.01, as their documentation has it, and with larger steps that decay like a
cosine, tuned for such problems. Everything is warm; compile time is apart.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import vicheck
from vicheck.model import double_precision
from vicheck.paper import models

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "fit.json"
PAGE = ROOT / "docs" / "fit-benchmarks.md"
PROBLEMS = ("eight_schools_centred", "eight_schools_noncentred", "logistic", "linear")
HORSESHOE_SEEDS = 5
NUMS_QUANTITIES = (1, 10, 200, 14_000)
VERSIONS = ("jax", "numpyro", "blackjax", "pymc", "optax", "numpy")


def main() -> None:
    sections = {"peers": peers, "documented": documented, "horseshoe": horseshoe,
                "checking": checking, "growth": growth}  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", default=list(sections))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--max-seconds", type=float, default=20.0)
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results |= {"machine": describe_machine(), "versions": {n: version(n) for n in VERSIONS}}
    for name in options.sections:
        results[name] = sections[name](options)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        PAGE.write_text(as_markdown(results))
    print(as_markdown(results))


def peers(options: Any) -> list[dict[str, Any]]:
    from fit_peers import grid, time_to_reach
    from problems import problems

    rows = []
    for name in PROBLEMS:
        problem = problems()[name]
        ours = time_ours(name, repeats=30 if name != "linear" else 7)
        target = ours["elbo"]
        row = ours | {"problem": name, "peers": {}}
        for peer in ("blackjax", "numpyro_scan"):
            configs = grid(peer)
            plain = [
                replace(config, learning_rate=0.01, schedule="constant")
                for config in {c.draws_per_step: c for c in configs}.values()
            ]
            tuned = [c for c in configs if c.draws_per_step == 1 and c.schedule == "cosine"]
            for kind, tried in (("as documented", plain), ("tuned", tuned)):
                _, fastest = time_to_reach(
                    problem, target, tried, max_seconds=options.max_seconds, repeats=3
                )
                row["peers"][f"{peer}, {kind}"] = None if fastest is None else summary(fastest)
        # Ours once more, after the peers: the machine may have changed meanwhile.
        again = time_ours(name, repeats=30 if name != "linear" else 7)
        for which in ("seconds", "seconds_without_search"):
            row[which] = statistics.median([ours[which], again[which]])
        rows.append(row)
    return rows


def summary(record: Any) -> dict[str, Any]:
    names = ("seconds", "elbo", "khat", "steps", "draws_per_step", "learning_rate", "schedule")
    return {name: getattr(record, name) for name in names}


def model_of(name: str) -> vicheck.Model:
    from problems import problems

    problem = problems()[name]
    return vicheck.from_numpyro(problem.model, **problem.arguments)


def time_ours(name: str, repeats: int) -> dict[str, Any]:
    model = model_of(name)
    first = seconds_of(lambda: vicheck.fit(model))
    warm = statistics.median(seconds_of(lambda: vicheck.fit(model)) for _ in range(repeats))
    alone = statistics.median(
        seconds_of(lambda: vicheck.fit(model, num_starts=1)) for _ in range(repeats)
    )
    fit, without = vicheck.fit(model), vicheck.fit(model, num_starts=1)
    checked = vicheck.check(fit, num_draws=100_000 if name != "linear" else 50_000, seed=1)
    return {
        "seconds": warm,
        "seconds_without_search": alone,
        "num_evaluations_without_search": without.solution.num_evaluations,
        "compile_seconds": first - warm,
        "elbo": checked.divergences.elbo.value,
        "khat": checked.khat,
        "num_draws": fit.solution.num_draws,
        "num_evaluations": fit.solution.num_evaluations,
        "status": fit.status.name,
    }


def documented(options: Any) -> list[dict[str, Any]]:
    """Time NumPyro's ``svi.run`` and PyMC's ``pm.fit`` as their documentation calls them."""
    from fit_peers import Config, fit
    from problems import problems

    rows = []
    calls = {
        "NumPyro svi.run, 2000 steps": Config("numpyro_run", 1, 2000, 0.01),
        "PyMC pm.fit, 10000 steps": Config("pymc_default", 1, 10_000, None),
        "rstan vb": Config("rstan_default", learning_rate=None),
    }
    for name in PROBLEMS[:2]:
        ours = time_ours(name, repeats=30)
        row: dict[str, Any] = {"problem": name, "vicheck": ours, "calls": {}}
        for label, config in calls.items():
            try:
                record = fit(problems()[name], config, (0, 1, 2), num_draws=20_000)
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"{label}: {error}")
                continue
            row["calls"][label] = summary(record)
        rows.append(row)
    return rows


def horseshoe(options: Any) -> dict[str, Any]:
    """Fit the paper's horseshoe in a process of its own, to measure its memory."""
    return in_a_process("horseshoe_child", str(options.data))


def horseshoe_child(data: str) -> None:
    with np.load(Path(data) / "leukemia.npz") as file:
        design, outcome = file["X"].astype(np.float64), file["y"].astype(np.int64)
    model = vicheck.from_numpyro(models.horseshoe_logistic, design, outcome)
    first = seconds_of(lambda: vicheck.fit(model))
    fits = [vicheck.fit(model, seed=seed) for seed in range(HORSESHOE_SEEDS)]
    fit = fits[0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    checked = vicheck.check(fit, num_draws=10_000, quantities=["tau", "c2", "beta0"])
    print(json.dumps({
        "dim": model.dim, "first_seconds": first, "seconds": [each.seconds for each in fits],
        "peak_gib": peak,
        "status": fit.status.name, "num_draws": fit.solution.num_draws,
        "num_evaluations": fit.solution.num_evaluations,
        "gradient_norm": fit.solution.gradient_norm,
        "sampling_error": fit.solution.sampling_error, "elbo": fit.elbo, "khat": checked.khat,
    }))  # fmt: skip


def checking(options: Any) -> dict[str, Any]:
    """Compare a check of 1e5 draws with the bare evaluations of the density at as many."""
    rows = []
    for name in PROBLEMS:
        num_draws = 100_000 if name != "linear" else 20_000
        rounds = 15 if name.startswith("eight_schools") else 1
        costs = cost_of_check(vicheck.fit(model_of(name)), num_draws, rounds)
        rows.append({"problem": name} | costs)
    quantities = [in_a_process("cost_of_quantities", number) for number in NUMS_QUANTITIES]
    return {"problems": rows, "quantities": quantities}


def in_a_process(function: str, *arguments: Any) -> Any:
    """Return what a function here prints as its last line; memory is measured by its peak."""
    call = f"{function}({', '.join(map(repr, arguments))})"
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import fit; fit.{call}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def cost_of_check(fit: Any, num_draws: int, rounds: int) -> dict[str, Any]:
    """Return medians of processor times, and of ratios to the evaluations just before."""
    from vicheck.checking.moments import moments_table

    bare = bare_evaluations(fit.model, fit, num_draws)
    there = vicheck.check(fit, num_draws=num_draws, chains=False)
    of_table = (there.values, there.log_ratios[: len(there.values)], there.psis, there.names)
    calls = {
        "bare": bare,
        "drawn": lambda: (draw_noise(fit, num_draws), bare()),
        "check": lambda: vicheck.check(fit, num_draws=num_draws, chains=False),
        "table": lambda: moments_table(*of_table),
        "with_moments": lambda: vicheck.check(fit, num_draws=num_draws, chains=False).moments,
        "with_chains": lambda: vicheck.check(fit, num_draws=num_draws).moments,
    }
    for call in calls.values():
        call()
    runs = [{name: processor_seconds_of(call) for name, call in calls.items()}
            for _ in range(rounds)]  # fmt: skip
    row: dict[str, Any] = {"num_draws": num_draws, "num_quantities": len(there.names)}
    row |= {name: statistics.median(run[name] for run in runs) for name in calls}
    for name in ("check", "table", "with_moments", "with_chains"):
        for base in ("bare", "drawn"):
            row[f"{name}/{base}"] = statistics.median(run[name] / run[base] for run in runs)
    return row


def draw_noise(fit: Any, num_draws: int) -> None:
    """Draw as many normal numbers as a check needs, in chunks of its size, one after the other."""
    from vicheck.evaluation import chunk_size, width_of

    chunk = chunk_size(num_draws, width_of(fit.model))
    for index in range(-(-num_draws // chunk)):
        fit.q.draw_noise(np.random.default_rng((0, index)), chunk)


def cost_of_quantities(num_quantities: int) -> None:
    """Time the table of moments alone, by the compiled code and as NumPy computes it."""
    from vicheck.checking.moments import moments_table
    from vicheck.evaluation import kept_draws
    from vicheck.stats.estimates import expectation, importance_log_weights, plain_log_weights
    from vicheck.stats.products import khats_by_numpy
    from vicheck.stats.psis import psis_quietly

    num_draws = kept_draws(100_000, num_quantities)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(num_draws, num_quantities))
    log_ratios = 0.2 * values[:, 0] ** 2 + rng.normal(size=num_draws)
    smoothed = psis_quietly(log_ratios)
    names = tuple(map(str, range(num_quantities)))
    ways = (plain_log_weights(num_draws), importance_log_weights(log_ratios), smoothed.log_weights)

    def plainly() -> None:
        for start in range(0, num_quantities, 100):
            block = values[:, start : start + 100]
            center = [expectation(block, each).mean for each in ways][-1]
            khats_by_numpy(block, center, log_ratios, None)

    def table() -> None:
        moments_table(values, log_ratios, smoothed, names)

    moments_table(values[:, :1], log_ratios, smoothed, names[:1])  # loads what is needed
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    table()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rounds = 15 if num_quantities < 1000 else 3

    def median_of(call: Callable[[], Any], rounds: int) -> float:
        return statistics.median(processor_seconds_of(call) for _ in range(rounds))

    print(json.dumps({
        "num_quantities": num_quantities, "num_draws": num_draws,
        "seconds": median_of(table, rounds),
        "numpy_seconds": median_of(plainly, rounds // 3),
        "values_gib": values.nbytes / 2**30,
        "pass_seconds": median_of(values.sum, rounds),
        "more_gib": (after - before) / 2**20,
    }))  # fmt: skip


def bare_evaluations(model: Any, fit: Any, num_draws: int) -> Callable[[], None]:
    """Return a function that evaluates the density at draws which are there already."""
    from vicheck.evaluation import chunk_size, width_of

    with double_precision():
        chunk = chunk_size(num_draws, width_of(model))
        z, _ = fit.q.sample_and_log_prob(jax.random.key(0), chunk)
        data = jax.tree.map(jnp.asarray, model.data)
        density = jax.jit(jax.vmap(model.program.log_density, (0, None)))

    def run() -> None:
        with double_precision():
            for _ in range(-(-num_draws // chunk)):
                jax.block_until_ready(density(z, data))

    return run


def growth(options: Any) -> list[dict[str, Any]]:
    """Show how the cost of fits grows with n and d, and that of checks with S."""
    rows = []
    rng = np.random.default_rng(0)
    for n, d in ((1000, 10), (10_000, 10), (100_000, 10), (1000, 100), (10_000, 100), (2000, 400)):
        design = rng.normal(size=(n, d))
        outcome = design @ rng.normal(size=d) + rng.normal(size=n)
        model = vicheck.from_numpyro(models.linear, design, outcome)
        vicheck.fit(model)
        fit_seconds = statistics.median(seconds_of(lambda: vicheck.fit(model)) for _ in range(3))
        fit = vicheck.fit(model)
        times = {}
        for size in (1000, 10_000, 40_000) if n * d <= 10**6 else (1000, 10_000):
            vicheck.check(fit, num_draws=size)
            times[str(size)] = seconds_of(lambda: vicheck.check(fit, num_draws=size))
        rows.append({"n": n, "d": d, "fit": fit_seconds, "status": fit.status.name,
                     "num_evaluations": fit.solution.num_evaluations, "check": times})  # fmt: skip
    return rows


def seconds_of(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def processor_seconds_of(call: Callable[[], Any]) -> float:
    """Return the processor time of all threads, which other programs do not change much."""
    start = time.process_time()
    call()
    return time.process_time() - start


def describe_machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def as_markdown(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    parts = [
        "# Benchmarks of fits and checks",
        "",
        f"Written by `benchmarks/fit.py` (`make bench-fit`). {results['machine']}; {versions}.",
        "Times are medians in milliseconds unless stated otherwise, after a warm-up; compile time",
        "is given separately. The machine is shared and noisy: compare ratios, and trust these",
        "only to a factor of 1.5 or so.",
        "",
    ]
    for name, write in WRITERS.items():
        if name in results:
            parts += [*write(results[name]), ""]
    return "\n".join(parts).rstrip() + "\n"


_OLDER = (
    "This table was measured before the search had 48 starts and before fits without it were",
    "timed, so our numbers have changed since.",
)


def write_peers(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## Time to the same ELBO",
        "",
        "A peer is run with more and more steps, up to 1e5; its time is that of the first run",
        "whose ELBO on fresh draws is within 0.05 nats of ours, with one or ten draws per step,",
        "whichever is faster. *As documented* is Adam with a step of 0.01; *tuned* is one draw",
        "per step and the better of two step sizes with a cosine schedule, which must know the",
        "number of steps beforehand. A peer is abandoned when the next doubling would take more",
        "than 20 s. *evaluations* counts the points at which the density and its gradient are",
        "computed: for a peer, steps times draws; for us, all that a fit does, with the search",
        "for other modes and without it.",
        *(() if "seconds_without_search" in rows[0] else _OLDER),
        "",
        "| problem | who | time | ratio | evaluations | ELBO | khat | how |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['problem']} | **vicheck** | {1e3 * row['seconds']:.1f} | 1 | "
            f"{row['num_evaluations']} | "
            f"{row['elbo']:.2f} | {row['khat']:.2f} | {row['num_draws']} draws, {row['status']}, "
            f"compile {row['compile_seconds']:.1f} s |"
        )
        if "seconds_without_search" in row:
            lines.append(
                f"| | without the search | {1e3 * row['seconds_without_search']:.1f} | "
                f"{row['seconds_without_search'] / row['seconds']:.2f} | "
                f"{row['num_evaluations_without_search']} | | | `num_starts=1` |"
            )
        for who, record in row["peers"].items():
            if record is None:
                lines.append(f"| | {who} | not reached | | | | | |")
                continue
            lines.append(
                f"| | {who} | {1e3 * record['seconds']:.1f} | "
                f"{record['seconds'] / row['seconds']:.2f} | "
                f"{record['steps'] * record['draws_per_step']} | {record['elbo']:.2f} | "
                f"{record['khat']:.2f} | {record['steps']} steps of {record['draws_per_step']}, "
                f"{record['learning_rate']} {record['schedule']} |"
            )
    return lines


def write_documented(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## Called as in the documentation of each",
        "",
        "| problem | call | time | ratio | ELBO | khat |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        ours = row["vicheck"]
        lines.append(
            f"| {row['problem']} | **vicheck.fit** | {1e3 * ours['seconds']:.1f} | 1 | "
            f"{ours['elbo']:.2f} | {ours['khat']:.2f} |"
        )
        for call, record in row["calls"].items():
            lines.append(
                f"| | {call} | {1e3 * record['seconds']:.0f} | "
                f"{record['seconds'] / ours['seconds']:.0f} | {record['elbo']:.2f} | "
                f"{record['khat']:.2f} |"
            )
    return lines


def write_horseshoe(row: dict[str, Any]) -> list[str]:
    seconds = ", ".join(f"{each:.1f}" for each in row["seconds"])
    return [
        "## Horseshoe, n = 72, 7129 features",
        "",
        f"{row['dim']} parameters, {len(row['seconds'])} seeds: {seconds} s (the first, with "
        f"compiling: {row['first_seconds']:.1f} s), peak memory {row['peak_gib']:.2f} GiB. Of the "
        f"first seed: {row['num_draws']} draws, "
        f"{row['num_evaluations']} density evaluations, status {row['status']}, gradient "
        f"{row['gradient_norm']:.2g} sd, sampling error {row['sampling_error']:.2g} sd, khat "
        f"{row['khat']:.1f} from 10,000 draws.",
    ]


def write_checking(results: dict[str, Any]) -> list[str]:
    lines = [
        "## What a check costs beyond the density",
        "",
        "Processor time of all threads in ms; for the eight schools, the median of 15 rounds.",
        "*bare* evaluates the density at draws that exist already; *drawn* generates the normal",
        "numbers for them first. *check* (with `chains=False`) does both and adds the density of",
        "q, PSIS, the growth of khat, the gradient test and every quantity. The table of moments,",
        "with a khat for the mean and one for the sd of each quantity, is computed when first",
        "asked for, and so is the verdict on which it depends: *check and moments* includes both.",
        "*with chains* adds the short chains of a default check. The ratios are to *bare* and to",
        "*drawn*.",
        "",
        "| problem | quantities | draws | bare | drawn | table alone | ratios | check | ratios | "
        "check and moments | ratios | with chains | ratios |",
        f"|{'---|' * 13}",
    ]
    for row in results["problems"]:
        cells = [row["problem"], row["num_quantities"], row["num_draws"]]
        cells += [f"{1e3 * row[name]:.0f}" for name in ("bare", "drawn")]
        for name in ("table", "check", "with_moments", "with_chains"):
            ratios = f"{row[f'{name}/bare']:.1f}, {row[f'{name}/drawn']:.1f}"
            cells += [f"{1e3 * row[name]:.0f}", ratios]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += [
        "",
        "The table of moments alone, for normal quantities and as many of 1e5 draws as are kept;",
        "processor time in ms, of both cores together. *one pass* sums all values once, which is",
        "a lower limit for any code. *NumPy* computes the same means, sds, errors and khats by",
        "the plain functions that the tests compare with.",
        "",
        "| quantities | draws | values, GiB | one pass | moments | NumPy | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in results["quantities"]:
        lines.append(
            f"| {row['num_quantities']} | {row['num_draws']} | {row['values_gib']:.3f} | "
            f"{1e3 * row['pass_seconds']:.1f} | {1e3 * row['seconds']:.1f} | "
            f"{1e3 * row['numpy_seconds']:.0f} | {row['numpy_seconds'] / row['seconds']:.0f} |"
        )
    most = results["quantities"][-1]
    return [
        *lines,
        "",
        f"For {most['num_quantities']} quantities the table needs {most['more_gib']:.2f} GiB of "
        "memory beyond the values themselves.",
    ]


def write_growth(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## How the cost grows",
        "",
        "Linear regression with n rows and d coefficients; seconds.",
        "",
        "| n | d | fit | density evaluations | check 1e3 | check 1e4 | check 4e4 |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        times = [row["check"].get(size) for size in ("1000", "10000", "40000")]
        shown = " | ".join("" if t is None else f"{t:.2f}" for t in times)
        lines.append(
            f"| {row['n']} | {row['d']} | {row['fit']:.3f} | {row['num_evaluations']} | {shown} |"
        )
    return lines


WRITERS = {
    "peers": write_peers,
    "documented": write_documented,
    "horseshoe": write_horseshoe,
    "checking": write_checking,
    "growth": write_growth,
}


if __name__ == "__main__":
    main()
