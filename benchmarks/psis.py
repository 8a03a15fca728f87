"""Speed, accuracy and memory of PSIS against ArviZ and NumPyro in the same run.

Run by ``make bench``. Peers take turns within each round, so that a busy machine slows all of them
alike; ratios are medians over rounds of times within a round. Everything is warmed up first, and
compile time is reported apart. Accuracy is the distance of khat from the plain NumPy version,
which the tests hold to the R package loo.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import vicheck
from vicheck.stats import rows_numpy
from vicheck.stats.psis import default_tail_length
from vicheck.stats.smoothing import smooth

ROOT = Path(__file__).parents[1]
VECTORS = {10_000: 200, 100_000: 60, 1_000_000: 20, 10_000_000: 7}  # draws: rounds
BATCHES = {(1000, 1000): 15, (100, 100_000): 15}  # shape: rounds
TARGETS = {
    ("psis", 10_000): 3,
    ("psis", 100_000): 4,
    ("psis", 1_000_000): 5,
    ("psis", 10_000_000): 8,
    ("psis_khat", 10_000_000): 20,
    ("psis", (1000, 1000)): 6,
    ("psis", (100, 100_000)): 6,
    ("psis_khat against NumPyro", 1_000_000): 3,
}


def main() -> None:
    warnings.simplefilter("ignore")
    peers = load_peers()
    rows = [measure_vector(draws, rounds, peers) for draws, rounds in VECTORS.items()]
    rows += [measure_batch(shape, rounds, peers) for shape, rounds in BATCHES.items()]
    results = {
        "machine": describe_machine(),
        "versions": {name: version(name) for name in ("numpy", "numba", "arviz", "numpyro")},
        "speed": rows,
        "memory": {dtype: measure_memory(dtype) for dtype in ("float64", "float32")},
        "start": measure_start(),
    }
    (ROOT / "benchmarks" / "psis.json").write_text(json.dumps(results, indent=1) + "\n")
    (ROOT / "docs" / "benchmarks.md").write_text(as_markdown(results))
    print(as_markdown(results))


def load_peers() -> dict[str, Callable[..., Any]]:
    import arviz
    from numpyro.infer.importance import _psis_khat as numpyro_khat  # no public name takes ratios

    return {"arviz": arviz.psislw, "numpyro": numpyro_khat}


def measure_vector(draws: int, rounds: int, peers: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    values = np.random.default_rng(1).normal(size=draws)
    times = race(
        {
            "arviz": lambda: peers["arviz"](values),
            "numpyro_khat": lambda: peers["numpyro"](values),
            "psis": lambda: vicheck.psis(values),
            "psis_khat": lambda: vicheck.psis_khat(values),
        },
        rounds,
    )
    exact = oracle_khat(values)
    errors = {
        "arviz": abs(float(peers["arviz"](values)[1]) - exact),
        "numpyro": abs(float(peers["numpyro"](values)) - exact),
        "vicheck": abs(vicheck.psis_khat(values) - exact),
    }
    return summarise(draws, times, errors)


def measure_batch(
    shape: tuple[int, int], rounds: int, peers: dict[str, Callable[..., Any]]
) -> dict[str, Any]:
    values = np.random.default_rng(1).normal(size=shape)
    times = race(
        {
            "arviz": lambda: [peers["arviz"](row) for row in values],
            "numpyro_khat": lambda: [peers["numpyro"](row) for row in values],
            "psis": lambda: vicheck.psis(values),
            "psis_khat": lambda: vicheck.psis_khat(values),
        },
        rounds,
    )
    exact = np.array([oracle_khat(row) for row in values])
    arviz = np.array([float(peers["arviz"](row)[1]) for row in values])
    numpyro = np.array([float(peers["numpyro"](row)) for row in values])
    errors = {
        "arviz": float(np.abs(arviz - exact).max()),
        "numpyro": float(np.abs(numpyro - exact).max()),
        "vicheck": float(np.abs(vicheck.psis_khat(values) - exact).max()),
    }
    return summarise(list(shape), times, errors)


def oracle_khat(values: np.ndarray) -> float:
    """Return khat by the plain NumPy version."""
    smoothed = smooth(
        values[None, :],
        default_tail_length(values.size),
        rows_numpy.smooth_rows,
        with_weights=False,
    )
    return float(smoothed.khat[0])


def race(functions: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Time the functions in turns, after one round of warm-up."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(rounds + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            elapsed = time.perf_counter() - start
            if number:
                times[name].append(elapsed)
    return times


def summarise(size: Any, times: dict[str, list[float]], errors: dict[str, float]) -> dict[str, Any]:
    def ratio(peer: str, ours: str) -> float:
        return float(np.median(np.array(times[peer]) / np.array(times[ours])))

    return {
        "size": size,
        "milliseconds": {name: 1e3 * float(np.median(values)) for name, values in times.items()},
        "psis_over_arviz": ratio("arviz", "psis"),
        "khat_over_arviz": ratio("arviz", "psis_khat"),
        "khat_over_numpyro": ratio("numpyro_khat", "psis_khat"),
        "khat_error": errors,
    }


def measure_memory(dtype: str) -> dict[str, float]:
    """Return peak extra memory of each function in multiples of an input of 1e7 draws."""
    code = f"""
import re, numpy as np, vicheck
peak = lambda: 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
vicheck.psis(np.arange(10_000.0))
values = np.random.default_rng(1).standard_normal(10_000_000, dtype=np.{dtype})
before = peak()
result = vicheck.FUNCTION(values)
print((peak() - before) / values.nbytes)
"""
    return {name: float(python(code.replace("FUNCTION", name))) for name in ("psis", "psis_khat")}


def measure_start() -> dict[str, float]:
    """Return seconds to import, to compile once, and to load the compiled code later."""
    first_call = """
import time, numpy as np, vicheck
values = np.arange(10_000.0)
start = time.perf_counter(); vicheck.psis(values); print(time.perf_counter() - start)
"""
    with tempfile.TemporaryDirectory() as cache:
        compile_seconds = float(python(first_call, NUMBA_CACHE_DIR=cache))
        load_seconds = float(
            np.median([float(python(first_call, NUMBA_CACHE_DIR=cache)) for _ in range(5)])
        )
    with_vicheck = [wall_time("import vicheck") for _ in range(9)]
    without = [wall_time("pass") for _ in range(9)]
    command = [wall_time("from vicheck.cli import main; main()", "--version") for _ in range(9)]
    return {
        "import": float(np.median(with_vicheck) - np.median(without)),
        "import numpy alone": float(
            np.median([wall_time("import numpy") for _ in range(9)]) - np.median(without)
        ),
        "compile once": compile_seconds,
        "load compiled code": load_seconds,
        "vicheck --version": float(np.median(command)),
    }


def python(code: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def wall_time(code: str, *arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


def describe_machine() -> str:
    model = "unknown processor"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":")[1].strip() if names else model
    return (
        f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    )


def as_markdown(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench` (`benchmarks/psis.py`); do not edit. Medians over rounds in which",
        "all take turns, after a warm-up. *times* are ratios within a round: how often the peer's",
        "time holds ours. khat error is the largest distance from the plain NumPy version, which",
        "the tests hold to the R package loo to 1e-9.",
        "",
        f"{results['machine']}; {versions}.",
        "",
        "## PSIS of normal log ratios",
        "",
        "ArviZ is `psislw`, in a loop for batches; NumPyro estimates khat alone.",
        "",
        "| draws | ArviZ | NumPyro, khat | `psis` | `psis_khat` | `psis` against ArviZ | "
        "`psis_khat` against ArviZ | `psis_khat` against NumPyro |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in results["speed"]:
        ms = row["milliseconds"]
        lines.append(
            f"| {size_name(row['size'])} | {ms['arviz']:.2f} ms | {ms['numpyro_khat']:.2f} ms "
            f"| {ms['psis']:.2f} ms | {ms['psis_khat']:.2f} ms "
            f"| {row['psis_over_arviz']:.1f} times | {row['khat_over_arviz']:.1f} times "
            f"| {row['khat_over_numpyro']:.1f} times |"
        )
    lines += [
        "",
        "| draws | khat error: ArviZ | NumPyro | vicheck |",
        "|---|---|---|---|",
    ]
    for row in results["speed"]:
        error = row["khat_error"]
        lines.append(
            f"| {size_name(row['size'])} | {error['arviz']:.1e} | {error['numpyro']:.1e} "
            f"| {error['vicheck']:.1e} |"
        )
    lines += ["", "Targets of the project, and what was measured:", ""]
    lines += [f"- {line}" for line in target_lines(results["speed"])]
    lines += [
        "",
        "## Memory",
        "",
        "Peak resident memory beyond the input, as a multiple of an input of 1e7 draws. The",
        "weights themselves are one float64 for each draw.",
        "",
        "| input | `psis` | `psis_khat` |",
        "|---|---|---|",
    ]
    lines += [
        f"| {dtype} | {used['psis']:.2f} | {used['psis_khat']:.2f} |"
        for dtype, used in results["memory"].items()
    ]
    lines += ["", "## Start", "", "| step | seconds |", "|---|---|"]
    lines += [f"| {name} | {seconds:.2f} |" for name, seconds in results["start"].items()]
    lines += [
        "",
        "Vectors of up to 4096 draws need no compiled code. The first longer one after an",
        "installation compiles it once; later processes load it.",
        "",
    ]
    return "\n".join(lines)


def target_lines(speed: list[dict[str, Any]]) -> list[str]:
    by_size = {size_name(row["size"]): row for row in speed}
    keys = {
        "psis": "psis_over_arviz",
        "psis_khat": "khat_over_arviz",
        "psis_khat against NumPyro": "khat_over_numpyro",
    }
    lines = []
    for (what, size), target in TARGETS.items():
        measured = by_size[size_name(size)][keys[what]]
        mark = "reached" if measured >= target else "MISSED"
        peer = "" if "NumPyro" in what else " against ArviZ"
        lines.append(
            f"`{what.split()[0]}`{peer or ' against NumPyro'}, {size_name(size)}: "
            f"at least {target} times; {measured:.1f}, {mark}"
        )
    return lines


def size_name(size: Any) -> str:
    if isinstance(size, list | tuple):
        return f"{size[0]} x {size[1]:.0e}".replace("e+0", "e")
    return f"{size:.0e}".replace("e+0", "e")


if __name__ == "__main__":
    main()
