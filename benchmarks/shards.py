"""Logistic regression on ten million rows that lie in files, by two worker processes.

The numbers of 50 columns take 4 GB in float64, and 2 GB in the files, which are float32: each block
of rows is converted when it is evaluated. Writes ``benchmarks/shards.json`` and the table between
two marks in ``docs/scale-out.md``::

    python benchmarks/shards.py [number of rows] [--directory DIRECTORY] [--write]
"""

import argparse
import json
import multiprocessing
import os
import re
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import numpyro
import numpyro.distributions as dist

import vicheck

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "scale-out.md"
BEGIN, END = "<!-- written by benchmarks/shards.py -->\n", "<!-- until here -->\n"
NUM_COLUMNS, NUM_SHARDS, NUM_WORKERS, NUM_DRAWS = 50, 100, 2, 500


def regression(x, y):
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=x @ slopes), obs=y)


def write_shards(directory: Path, num_rows: int) -> list[dict[str, str]]:
    """Write files, and return the shards: dictionaries of their paths."""
    slopes = 0.1 * np.random.default_rng(0).normal(size=NUM_COLUMNS)
    shards = []
    for index, rows in enumerate(np.array_split(np.arange(num_rows), NUM_SHARDS)):
        rng = np.random.default_rng((1, index))
        x = rng.normal(size=(len(rows), NUM_COLUMNS)).astype(np.float32)
        y = rng.uniform(size=len(rows)) < 1.0 / (1.0 + np.exp(-(x @ slopes)))
        paths = {name: str(directory / f"{name}-{index:03}.npy") for name in ("x", "y")}
        np.save(paths["x"], x)
        np.save(paths["y"], y.astype(np.int8))
        shards.append(paths)
    return shards


def peak_of(pid: int | str = "self") -> float:
    """Return the largest memory that a process had, in MB, with what it maps from files."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def measure(directory: Path, num_rows: int) -> dict:
    shards = write_shards(directory, num_rows)
    seconds, before = {}, time.process_time()

    def timed(name, function, *args, **options):
        start = time.perf_counter()
        result = function(*args, **options)
        seconds[name] = time.perf_counter() - start
        print(f"{name}: {seconds[name]:.1f} s", flush=True)
        return result

    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(NUM_WORKERS, mp_context=spawning) as executor:
        model = timed("reading", vicheck.from_shards, regression, shards, executor=executor)
        fit = timed("fit", vicheck.fit, model, num_starts=1, progress=print)
        checked = timed("check", vicheck.check, fit, num_draws=NUM_DRAWS)
        workers = [peak_of(pid) for pid in executor._processes]
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "rows": num_rows,
        "columns": NUM_COLUMNS,
        "shards": NUM_SHARDS,
        "workers": NUM_WORKERS,
        "seconds": seconds,
        "cpu_seconds": time.process_time() - before + children.ru_utime + children.ru_stime,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[2],
        "status": fit.status.name,
        "evaluations": int(fit.solution.num_evaluations),
        "gradient_draws": int(checked.convergence.gradient.num_draws),
        "draws": NUM_DRAWS,
        "khat": float(checked.khat),
        "level": checked.verdict.level,
        "parent_mb": peak_of(),
        "workers_mb": workers,
    }


def as_markdown(found: dict) -> str:
    """Return the table, and what has to be said of it."""
    seconds, workers = found["seconds"], found["workers_mb"]
    together = found["parent_mb"] + sum(workers)
    gigabytes = found["rows"] * found["columns"] * 8 / 1e9
    return f"""\
| {found["rows"]:,} rows, {found["columns"]} coefficients, {found["shards"]} shards | |
|---|---|
| numbers in float64, if they were in memory | {gigabytes:.1f} GB |
| first look at all shards | {seconds["reading"]:.0f} s |
| mean-field fit ({found["status"]}): {found["evaluations"]} densities with gradients \
| {seconds["fit"]:.0f} s |
| check: {found["draws"]} densities, and {found["gradient_draws"]} with gradients for the test of \
convergence | {seconds["check"]:.0f} s |
| time of processors, all of that with the start of the workers | {found["cpu_seconds"]:.0f} s |
| khat, verdict | {found["khat"]:.2f}, {found["level"]} |
| peak memory of this process | {found["parent_mb"]:.0f} MB |
| peak memory of the {found["workers"]} workers | \
{" and ".join(f"{each:.0f} MB" for each in workers)} |
| together, if all peaks had come at once | {together / 1e3:.1f} GB |

The files held float32, so half of that size, and each block of rows was converted. They were
mapped into memory, and count as memory of the workers. There were {found["cores"]} cores, shared
with other work (load average {found["load"]:.0f}), so processor time says more than the clock.
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("num_rows", type=int, nargs="?", default=10_000_000)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--write", action="store_true", help="rewrite the table in docs/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        found = measure(Path(directory), options.num_rows)
    print(as_markdown(found))
    if options.write:
        (ROOT / "benchmarks" / "shards.json").write_text(json.dumps(found, indent=1) + "\n")
        before, rest = PAGE.read_text().split(BEGIN)
        after = rest.split(END)[1]
        PAGE.write_text(before + BEGIN + as_markdown(found) + END + after)


if __name__ == "__main__":
    main()
