"""What compiling a Stan program costs, by how it is compiled: a table in Markdown.

    python benchmarks/stan_compile.py [--program NAME] [--repeat N] [--only WORDS] [--json FILE]

CPU seconds of the compiler and all it starts, which other work on the machine changes little, and
microseconds of one log density with its gradient in the library that comes out.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from vicheck.adapters.stan import headers
from vicheck.adapters.stan.bridge import Bridge
from vicheck.adapters.stan.compiler import command, translate

ROOT = Path(__file__).parents[1]
NOW = "as vicheck does"
ALL = "all of Stan's mathematics"
EVERYTHING = "also Stan's base class and JSON reader"
PRECOMPILED = "all of it, precompiled"
OPTIONS = {f"-O{level}": f"-O{level} instead of -O1" for level in (0, 2, 3)}

WITH_STANS_BASE = """
#include <stan/io/json/json_data.hpp>
#include "program.hpp"
extern "C" void* make(const char* text) {
  std::istringstream stream(text);
  stan::json::json_data data(stream);
  return &new_model(data, 0, nullptr);
}
"""
"""A program as CmdStan and BridgeStan have it, without the functions of a bridge."""


def eight_schools() -> dict[str, object]:
    y, sigma = [28.0, 8, -3, 7, -1, 1, 18, 12], [15.0, 10, 16, 11, 9, 11, 10, 18]
    return {"J": 8, "centred": 0, "y": y, "sigma": sigma}


def varying_slopes() -> dict[str, object]:
    rng, size = np.random.default_rng(1), {"N": 400, "J": 20, "K": 4}
    group, y = rng.integers(1, 21, 400), rng.poisson(2, 400)
    return {**size, "group": group, "X": rng.normal(size=(400, 4)), "y": y}


PROGRAMS: dict[str, tuple[Path, Callable[[], dict[str, object]]]] = {
    "eight schools": (ROOT / "docs" / "eight_schools.stan", eight_schools),
    "varying slopes": (ROOT / "benchmarks" / "varying_slopes.stan", varying_slopes),
}


def cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def variants(code: str, directory: Path, only: str) -> Iterator[tuple[str, list[str]]]:
    """Yield what a way is called and its command, with the files it needs in place."""
    include = Path(command(directory)[command(directory).index("-isystem") + 1])
    (directory / "program.hpp").write_text(code, encoding="utf-8")
    header = directory / "headers.hpp"

    header.write_text(headers.needed_headers(code, include), encoding="utf-8")
    yield NOW, command(directory)
    for option, name in OPTIONS.items():
        yield name, [option if part == "-O1" else part for part in command(directory)]

    header.write_text(headers.all_headers(), encoding="utf-8")
    yield ALL, command(directory)
    source = directory / "stans_base.cpp"
    source.write_text(WITH_STANS_BASE, encoding="utf-8")
    yield EVERYTHING, command(directory, source)

    if only not in PRECOMPILED:
        return
    header.write_text(headers.all_headers(), encoding="utf-8")
    flags = [part for part in command(directory) if part.startswith(("-std", "-O", "-f", "-D"))]
    make = [command(directory)[0], "-x", "c++-header", *flags, "-w", "-isystem", str(include)]
    once = cpu_seconds([*make, str(header), "-o", f"{header}.gch"])
    size = Path(f"{header}.gch").stat().st_size / 1e6
    # It is used only where nothing is included before it, and -Winvalid-pch says if it is not.
    first = ["-include", str(header), "-Winvalid-pch", "-Werror=invalid-pch"]
    wanted = [part for part in command(directory) if part != "-w"]
    yield f"{PRECOMPILED} ({once:.0f} s once, {size:.0f} MB)", [wanted[0], *first, *wanted[1:]]


def microseconds(libraries: dict[str, Path], data: dict[str, object]) -> dict[str, float]:
    """Time one log density with its gradient, in turns, so that other work disturbs all alike."""
    bridges = {name: Bridge(str(library), data) for name, library in libraries.items()}
    times: dict[str, list[float]] = {name: [] for name in bridges}
    for _ in range(25):
        for name, bridge in bridges.items():
            z = 0.3 * np.random.default_rng(1).normal(size=(500, bridge.param_unc_num()))
            start = time.process_time()
            bridge.log_density_gradients(z)
            times[name].append((time.process_time() - start) / len(z) * 1e6)
    return {name: statistics.median(each) for name, each in times.items()}


def measure(program: str, repeat: int, only: str) -> dict[str, dict[str, float | None]]:
    path, data = PROGRAMS[program]
    seconds: dict[str, float] = {}
    libraries: dict[str, Path] = {}
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        for name, making in variants(translate(path), directory, only):
            if only not in name:
                continue
            seconds[name] = statistics.median(cpu_seconds(making) for _ in range(repeat))
            library = (directory / "program.so").rename(directory / f"{len(seconds)}.so")
            library.chmod(0o700)
            if name != EVERYTHING:  # that one has no bridge
                libraries[name] = library
        speeds = microseconds(libraries, data())
    return {
        name: {"cpu_seconds": each, "microseconds": speeds.get(name)}
        for name, each in seconds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", action="append", choices=PROGRAMS)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="", help="ways with these words in their names")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    names = chosen.program or PROGRAMS
    results = {}
    for program in names:
        results[program] = measure(program, chosen.repeat, chosen.only)
        print(f"\n| {program} | CPU seconds | µs for a gradient |\n|---|---:|---:|")
        for name, row in results[program].items():
            speed = row["microseconds"]
            shown = "" if speed is None else f"{speed:.3g}"
            print(f"| {name} | {row['cpu_seconds']:.1f} | {shown} |", flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
