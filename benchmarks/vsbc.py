"""Speed, memory and findings of `vsbc`, with peers in the same run; written to docs/.

Run by ``make bench-vsbc``, or one section at a time by ``--only``. Everything that is measured runs
in a process of its own, so that nothing is compiled before its clock starts and no memory is
counted twice. This file imports nothing heavy for the same reason: on Linux a process's peak
memory starts from that of the one which started it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "vsbc.json"
PAGE = ROOT / "docs" / "vsbc-benchmarks.md"
VERSIONS = ("jax", "numpyro", "numpy", "distributed")
SCHOOLS = ("eight_schools_centred", "eight_schools_noncentred")
METHODS = ("vectorized", "sequential")
LIMITED = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
}
"""One thread for each worker: two workers on two cores are to be compared with one on one."""
EXPECTED_TAU = {"eight_schools_centred": (0.24, 0.32), "eight_schools_noncentred": (0.55, 0.62)}
"""Where the mean probability of tau is to lie."""


def main() -> None:
    sections = {"peers": peers, "growth": growth, "linear": linear, "horseshoe": horseshoe,
                "workers": workers, "acceptance": acceptance}  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(sections), help="sections, with commas between")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--datasets", type=int, default=10**9, help="at most so many in any run")
    parser.add_argument("--steps", type=int, default=5000, help="of NumPyro's fits")
    parser.add_argument("--passes", type=int, default=3, help="of us and NumPyro, in turn")
    parser.add_argument("--rstan-fits", type=int, default=50)
    parser.add_argument("--horseshoe-fits", type=int, default=100)
    parser.add_argument("--worker-datasets", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=5, help="of the section acceptance")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if not set(chosen) <= set(sections):
        parser.error(f"--only takes {', '.join(sections)}, got {options.only}")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results |= {"machine": describe_machine(), "versions": {n: version(n) for n in VERSIONS}}
    names = (
        "datasets", "steps", "passes", "rstan_fits", "horseshoe_fits", "worker_datasets", "seeds",
    )  # fmt: skip
    trial = any(getattr(options, name) < parser.get_default(name) for name in names)
    for name in chosen:
        conditions = {"load": os.getloadavg()[0], "trial": trial}
        results[name] = conditions | sections[name](options)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        PAGE.write_text(as_markdown(results))
    print(as_markdown(results))


def peers(options: Any) -> dict[str, Any]:
    size = min(1000, options.datasets)
    rows = []
    for problem in SCHOOLS:
        row: dict[str, Any] = {"problem": problem, "num_datasets": size, "steps": options.steps}
        row |= {name: [] for name in ("vicheck", *METHODS)}
        for number in range(options.passes):
            row["vicheck"].append(
                fresh("vsbc_runs", "calibrate", problem=problem, num_datasets=size, num_calls=3)
            )
            # The slow mode once: it is no rival to the other.
            for method in METHODS if number == 0 else METHODS[:1]:
                row[method].append(fresh(
                    "vsbc_peers", "numpyro_calls", problem=problem, num_datasets=size,
                    steps=options.steps, method=method, num_calls=2,
                ))  # fmt: skip
        row["rstan"] = fresh(
            "vsbc_peers", "rstan_loop", problem=problem, num_datasets=options.rstan_fits
        )
        rows.append(row)
    return {"rows": rows}


def growth(options: Any) -> dict[str, Any]:
    """Show how time and memory grow with the number of datasets."""
    sizes = sorted({min(size, options.datasets) for size in (100, 1000, 10_000)})
    return {"rows": [
        fresh("vsbc_runs", "calibrate", problem=problem, num_datasets=size, num_calls=4)
        for problem in SCHOOLS
        for size in sizes
    ]}  # fmt: skip


def linear(options: Any) -> dict[str, Any]:
    size = min(1000, options.datasets)
    return fresh(
        "vsbc_runs", "calibrate", problem="linear", num_datasets=size, num_calls=1,
        shown=["beta[0]", "beta[1]", "sigma"],
    )  # fmt: skip


def horseshoe(options: Any) -> dict[str, Any]:
    size = min(options.horseshoe_fits, options.datasets)
    return fresh(
        "vsbc_runs", "calibrate", problem="horseshoe", num_datasets=size, num_calls=1,
        shown=["beta0", "tau", "c2"], data=str(options.data),
    )  # fmt: skip


def workers(options: Any) -> dict[str, Any]:
    """Compare two Dask workers with one, each with one thread."""
    size = min(options.worker_datasets, options.datasets)
    return {"rows": [
        fresh("vsbc_runs", "calibrate_by_workers", LIMITED, problem=problem, num_datasets=size,
              num_workers=number, num_calls=4)
        for problem in SCHOOLS
        for number in (1, 2)
    ]}  # fmt: skip


def acceptance(options: Any) -> dict[str, Any]:
    """Look for the paper's findings over several seeds."""
    size = min(1000, options.datasets)
    return {"rows": [
        fresh("vsbc_runs", "calibrate", problem=problem, num_datasets=size, num_calls=options.seeds,
              quantities=["theta[0]", "tau"], shown=["theta[0]", "tau"])
        for problem in SCHOOLS
    ]}  # fmt: skip


def fresh(
    module: str, function: str, environment: dict[str, str] | None = None, **arguments: Any
) -> Any:
    """Call a function of a script in this folder in a process of its own, and return its answer."""
    print(f"{function} {arguments}", file=sys.stderr, flush=True)
    code = (
        f"import json, sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import {module}; "
        f"print(json.dumps({module}.{function}(**json.loads(sys.argv[1]))))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, json.dumps(arguments)],
        env=keeping_bytecode() | (environment or {}),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(run.stdout.splitlines()[-1])


def keeping_bytecode() -> dict[str, str]:
    """Return an environment in which Python compiles sources once, as it does by default."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def describe_machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def later_seconds(calls: list[dict[str, Any]]) -> float:
    """Return the median over all calls but the first, which compiles."""
    return statistics.median(call["seconds"] for call in calls[1:])


def converged(calls: list[dict[str, Any]]) -> str:
    """Return the lowest share of converged fits in any of the calls."""
    shares = [c["statuses"].get("CONVERGED", 0) / sum(c["statuses"].values()) for c in calls]
    return f"{min(shares):.1%}"


def probability(p: float) -> str:
    return f"{p:.2f}" if p >= 0.01 else f"{p:.0e}"


def as_markdown(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    parts = [
        "# Benchmarks of `vsbc`",
        "",
        f"Written by `benchmarks/vsbc.py` (`make bench-vsbc`). {results['machine']}; {versions}.",
        "Every measurement has a process of its own and starts after all imports, with the model",
        "made. A call of ours does everything: simulating, fitting, khat and symmetric KL for",
        "each dataset, the probabilities of all quantities, the tests and the verdict. The first",
        "call compiles; later ones have another seed. The machine is shared and noisy: compare",
        "ratios, and trust these only to a factor of 1.5 or so. The load is the average number of",
        "running processes in the minute before a section began. Where Dask is installed, xarray",
        "imports part of it when it first makes a dataset, which takes some tenths of a second:",
        "here that counts as an import, but in use it falls into the first call.",
        "",
        "A calibration probability is Pr_q(quantity < truth): small when q sits too high.",
        "",
    ]
    for name, write in WRITERS.items():
        if name in results:
            parts += [*write(results[name]), "", conditions_of(results[name]), ""]
    return "\n".join(parts).rstrip() + "\n"


def conditions_of(section: dict[str, Any]) -> str:
    trial = " A trial with fewer datasets, steps or seeds: no measurement." * section["trial"]
    return f"Load before: {section['load']:.1f}.{trial}"


def write_peers(section: dict[str, Any]) -> list[str]:
    rows = section["rows"]
    passes = len(rows[0]["vicheck"])
    lines = [
        "## Against peers",
        "",
        f"Eight schools, the paper's priors, {rows[0]['num_datasets']} datasets; seconds. We and",
        f"NumPyro's fastest mode took turns {passes} times, each time in a new process. Times are",
        "medians; so are the ratios (the peer's time divided by ours in the same turn), which are",
        "given with their range. The rest ran once. For us, *later* is the mean of the second and",
        "the third call. The columns about tau are from seed 0.",
        "",
        "| problem | who | first | later | ratio first | ratio later | converged | mean "
        "probability of tau | its p-value |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ours = times_of(row["vicheck"])
        first, later = (statistics.median(column) for column in zip(*ours, strict=True))
        calls = row["vicheck"][0]["calls"]
        tau = calls[0]["quantities"]["tau"]
        lines.append(
            f"| {row['problem']} | **vicheck** | {first:.1f} | {later:.2f} | 1 | 1 | "
            f"{converged(calls)} | {tau['mean']:.2f} | {probability(tau['p_value'])} |"
        )
        for method in METHODS:
            one, two = (statistics.median(c) for c in zip(*times_of(row[method]), strict=True))
            ratios = " | ".join(with_range(each) for each in ratios_to(row, method))
            call = row[method][0]["calls"][0]
            lines.append(
                f"| | NumPyro, {method} | {one:.1f} | {two:.1f} | {ratios} | not known | "
                f"{call['mean_tau']:.2f} | {probability(call['p_value_tau'])} |"
            )
        if row["rstan"] is not None:
            loop = row["rstan"]
            seconds = loop["seconds"] * row["num_datasets"] / loop["num_datasets"]
            lines.append(
                f"| | rstan {loop['version']}, from {loop['num_datasets']} fits | | "
                f"{seconds:.0f} | | {seconds / later:.0f} | not known, {loop['num_failed']} "
                f"failed | {loop['mean_tau']:.2f} | |"
            )
    return [
        *lines,
        "",
        "NumPyro is `vsbc_diagnostic` with `AutoNormal`, `Trace_ELBO`, Adam(0.01), "
        f"{rows[0]['steps']} steps and 1000 draws from each fit, in float32, its default. It",
        "compiles in every call. It has no khat, no log likelihood and no test of convergence,",
        "and where its mean probability of tau is far from ours it has not converged: the times",
        "are of calls, not of equally good answers. Its p-value is that of the paper's KS test.",
        "",
        *(RSTAN if any(row["rstan"] is not None for row in rows) else ["rstan was not installed."]),
    ]


RSTAN = [
    "rstan is a loop over datasets that calls `vb` with its defaults, 1000 draws from each fit,",
    "on one core, where ours uses all. Its time is *extrapolated* in proportion from the",
    "number of fits given, and does not include compiling the model and writing the data.",
]


def times_of(passes: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Return the time of the first call and the mean of the later ones in each pass."""
    seconds = [[call["seconds"] for call in each["calls"]] for each in passes]
    return [(first, statistics.mean(later)) for first, *later in seconds]


def ratios_to(row: dict[str, Any], method: str) -> list[list[float]]:
    """Return a peer's times over ours in the same passes: of first calls, and of later ones."""
    pairs = list(zip(times_of(row[method]), times_of(row["vicheck"]), strict=False))
    return [[peer[which] / ours[which] for peer, ours in pairs] for which in (0, 1)]


def with_range(ratios: list[float]) -> str:
    middle = f"{statistics.median(ratios):.1f}"
    return f"{middle} ({min(ratios):.1f} to {max(ratios):.1f})" if len(ratios) > 1 else middle


def write_growth(section: dict[str, Any]) -> list[str]:
    lines = [
        "## More datasets",
        "",
        "Times are medians of the second to the fourth call. The peak is that of the process over",
        "all calls, including what was in use *before* the first; *results* are the arrays of one",
        "call. The factor is the time divided by that of the row above.",
        "",
        "| problem | datasets | first (s) | later (s) | factor | converged | before (MiB) | peak "
        "(MiB) | results (MiB) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    above: dict[str, Any] = {}
    for row in section["rows"]:
        later, factor = later_seconds(row["calls"]), ""
        if above.get("problem") == row["problem"]:
            factor = f"{later / later_seconds(above['calls']):.1f}"
        lines.append(
            f"| {row['problem']} | {row['num_datasets']} | {row['calls'][0]['seconds']:.1f} | "
            f"{later:.2f} | {factor} | {converged(row['calls'])} | {row['mib_before']:.0f} | "
            f"{row['peak_mib']:.0f} | {row['calls'][0]['result_mib']:.1f} |"
        )
        above = row
    return lines


def write_linear(row: dict[str, Any]) -> list[str]:
    return [
        "## Linear regression, n = 10,000, d = 100",
        "",
        *describe_call(row),
    ]


def write_horseshoe(row: dict[str, Any]) -> list[str]:
    return [
        "## Horseshoe, n = 72, 7129 features",
        "",
        f"Design matrix: {row['design']}. {row['dim']} parameters, every one a quantity.",
        "",
        *describe_call(row),
    ]


def describe_call(row: dict[str, Any]) -> list[str]:
    (call,) = row["calls"]
    low, median, high = call["khat"]
    statuses = ", ".join(f"{count} {name}" for name, count in sorted(call["statuses"].items()))
    lines = [
        f"{row['num_datasets']} datasets in {call['seconds']:.1f} s, compiling included "
        f"({call['seconds'] / row['num_datasets']:.2f} s each); peak memory "
        f"{row['peak_mib'] / 2**10:.2f} GiB. {statuses}. khat: median {median:.2f}, 5% to 95% from "
        f"{low:.2f} to {high:.2f}, {call['khat_above']:.1%} above the threshold. Verdict: "
        f"{call['level']}.",
        "",
        "| quantity | mean probability | p-value |",
        "|---|---|---|",
    ]
    for name, result in call["quantities"].items():
        lines.append(f"| {name} | {result['mean']:.2f} | {probability(result['p_value'])} |")
    return lines


def write_workers(section: dict[str, Any]) -> list[str]:
    lines = [
        "## Two workers",
        "",
        "Dask's `LocalCluster` with one thread for each worker, and XLA limited to one thread too.",
        "Times are medians of the second to the fourth call. *busy* is the processor time of all",
        "workers divided by the time of the call: above the number of workers, a worker uses more",
        "than its core.",
        "",
        "| problem | datasets | workers | time (s) | busy | speed-up |",
        "|---|---|---|---|---|---|",
    ]
    alone: dict[str, float] = {}
    for row in section["rows"]:
        later = later_seconds(row["calls"])
        alone.setdefault(row["problem"], later)
        busy = statistics.median(c["worker_seconds"] / c["seconds"] for c in row["calls"][1:])
        lines.append(
            f"| {row['problem']} | {row['num_datasets']} | {row['num_workers']} | {later:.2f} | "
            f"{busy:.2f} | {alone[row['problem']] / later:.2f} |"
        )
    return lines


def write_acceptance(section: dict[str, Any]) -> list[str]:
    rows = section["rows"]
    lines = [
        "## The paper's findings",
        "",
        f"Eight schools, printed priors, {rows[0]['num_datasets']} datasets, one row for each",
        "seed. The p-values are those of Butler's exact test of symmetry. Model and prior stay the",
        "same when all signs are flipped, so theta[0] is truly symmetric: by chance, one seed in",
        "twenty is rejected at 5%. The last column says whether the mean of tau is where it is",
        "expected to be.",
        "",
        "| problem | seed | converged | theta[0]: p-value | tau: mean probability | tau: p-value | "
        "as expected |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = EXPECTED_TAU[row["problem"]]
        for call in row["calls"]:
            theta, tau = (call["quantities"][name] for name in ("theta[0]", "tau"))
            lines.append(
                f"| {row['problem']} | {call['seed']} | {converged([call])} | "
                f"{probability(theta['p_value'])} | {tau['mean']:.3f} | "
                f"{probability(tau['p_value'])} | "
                f"{'yes' if low <= tau['mean'] <= high else 'no'} ({low} to {high}) |"
            )
    return lines


WRITERS = {
    "peers": write_peers,
    "growth": write_growth,
    "linear": write_linear,
    "horseshoe": write_horseshoe,
    "workers": write_workers,
    "acceptance": write_acceptance,
}


if __name__ == "__main__":
    main()
