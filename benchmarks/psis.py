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
SIZES: dict[Any, int] = {  # draws, or rows and draws: rounds
    10_000: 200,
    100_000: 60,
    1_000_000: 20,
    10_000_000: 7,
    (1000, 1000): 15,
    (100, 100_000): 15,
}
RATIOS = {  # key in the results: what is compared
    "psis_over_arviz": "`psis` against ArviZ",
    "khat_over_arviz": "`psis_khat` against ArviZ",
    "khat_over_numpyro": "`psis_khat` against NumPyro",
}
TARGETS = {
    ("psis_over_arviz", 10_000): 3,
    ("psis_over_arviz", 100_000): 4,
    ("psis_over_arviz", 1_000_000): 5,
    ("psis_over_arviz", 10_000_000): 8,
    ("khat_over_arviz", 10_000_000): 20,
    ("psis_over_arviz", (1000, 1000)): 6,
    ("psis_over_arviz", (100, 100_000)): 6,
    ("khat_over_numpyro", 1_000_000): 3,
}


def main() -> None:
    warnings.simplefilter("ignore")
    peers = load_peers()
    results = {
        "machine": describe_machine(),
        "versions": {name: version(name) for name in ("numpy", "numba", "arviz", "numpyro")},
        "speed": [measure(size, rounds, peers) for size, rounds in SIZES.items()],
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


def measure(size: Any, rounds: int, peers: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    values = np.random.default_rng(1).normal(size=size)
    rows = np.atleast_2d(values)  # the peers take one vector at a time
    times = race(
        {
            "arviz": lambda: [peers["arviz"](row) for row in rows],
            "numpyro_khat": lambda: [peers["numpyro"](row) for row in rows],
            "psis": lambda: vicheck.psis(values),
            "psis_khat": lambda: vicheck.psis_khat(values),
        },
        rounds,
    )
    exact = np.array([oracle_khat(row) for row in rows])
    khats = {
        "arviz": [float(peers["arviz"](row)[1]) for row in rows],
        "numpyro": [float(peers["numpyro"](row)) for row in rows],
        "vicheck": vicheck.psis_khat(values),
    }
    errors = {name: float(np.abs(khat - exact).max()) for name, khat in khats.items()}
    return summarise(size, times, errors)


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
        "all take turns, after a warm-up. *times* is the peer's time divided by ours in the same",
        "round. The khat error is the largest distance from the plain NumPy version, which in the",
        "tests agrees with the R package loo to 1e-9.",
        "",
        f"{results['machine']}; {versions}.",
        "",
        "## PSIS of normal log ratios",
        "",
        "ArviZ is `psislw`, called in a loop for batches; NumPyro estimates khat only.",
        "",
    ]
    lines += table(
        ["draws", "ArviZ", "NumPyro, khat", "`psis`", "`psis_khat`", *RATIOS.values()],
        [
            [size_name(row["size"])]
            + [f"{milliseconds:.2f} ms" for milliseconds in row["milliseconds"].values()]
            + [f"{row[key]:.1f} times" for key in RATIOS]
            for row in results["speed"]
        ],
    )
    lines += [""]
    lines += table(
        ["draws", "khat error: ArviZ", "NumPyro", "vicheck"],
        [
            [size_name(row["size"]), *(f"{error:.1e}" for error in row["khat_error"].values())]
            for row in results["speed"]
        ],
    )
    lines += ["", "The targets of the project, and what was measured:", ""]
    lines += [f"- {line}" for line in target_lines(results["speed"])]
    lines += [
        "",
        "## Memory",
        "",
        "Peak resident memory beyond the input, as a multiple of an input of 1e7 draws. The",
        "weights themselves are one float64 for each draw.",
        "",
    ]
    lines += table(
        ["input", "`psis`", "`psis_khat`"],
        [
            [dtype, *(f"{multiple:.2f}" for multiple in used.values())]
            for dtype, used in results["memory"].items()
        ],
    )
    lines += ["", "## Start-up", ""]
    lines += table(
        ["step", "seconds"],
        [[name, f"{seconds:.2f}"] for name, seconds in results["start"].items()],
    )
    lines += [
        "",
        "Vectors of up to 4096 draws need no compiled code, nor do batches of such vectors with",
        "up to 65,536 numbers in all. The first larger input after installation compiles it once;",
        "later processes load it.",
        "",
    ]
    return "\n".join(lines)


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    first, *others = ("| " + " | ".join(cells) + " |" for cells in (header, *rows))
    return [first, "|" + "---|" * len(header), *others]


def target_lines(speed: list[dict[str, Any]]) -> list[str]:
    by_size = {size_name(row["size"]): row for row in speed}
    lines = []
    for (key, size), target in TARGETS.items():
        measured = by_size[size_name(size)][key]
        mark = "reached" if measured >= target else "MISSED"
        lines.append(
            f"{RATIOS[key]}, {size_name(size)}: at least {target} times; {measured:.1f}, {mark}"
        )
    return lines


def size_name(size: Any) -> str:
    if isinstance(size, list | tuple):
        return f"{size[0]} x {size[1]:.0e}".replace("e+0", "e")
    return f"{size:.0e}".replace("e+0", "e")


if __name__ == "__main__":
    main()
