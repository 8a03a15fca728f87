"""Run all cases, two problems at a time; an interrupted run goes on where it ended.

Each finished case is one line of JSON in the file of records, whose first line says of which code
the records are: with other code the run begins anew.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truth.cases import Case, cases_of, measure
from truth.problem import Problem
from truth.problems import all_problems

__all__ = ["Sources", "code_digest", "read_records", "run_all", "run_problem"]

ROOT = Path(__file__).parents[2]
MEASURED = ("src/vicheck/**/*.py", "benchmarks/truth/problems/*.py", "benchmarks/truth/cases.py",
            "benchmarks/truth/exact.py", "benchmarks/truth/problem.py",
            "benchmarks/posteriordb_*.py")  # fmt: skip
"""What the records depend on."""


@dataclass(frozen=True)
class Sources:
    """Where posteriors that are not part of the project are read from."""

    moments: Path | None = None
    checkout: Path | None = None

    def problems(self) -> dict[str, Problem]:
        return all_problems(self.moments, self.checkout)


def code_digest() -> str:
    """Return what tells versions of the code apart that records depend on."""
    digest = hashlib.sha256()
    for pattern in MEASURED:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def read_records(path: Path, digest: str) -> list[dict[str, Any]]:
    """Return the records of this code, without a last line that was not finished."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    if json.loads(lines[0] or "{}").get("code") != digest:
        return []
    return [json.loads(line) for line in lines[1:-1] if line.endswith("}")]


def run_all(
    path: Path, sources: Sources, names: Iterable[str] | None = None, workers: int = 2
) -> list[dict[str, Any]]:
    """Measure what the file does not hold yet, and return all records, in the order of cases."""
    digest = code_digest()
    done = {record["key"] for record in read_records(path, digest)}
    if done:
        _drop_torn_line(path)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"code": digest}) + "\n", encoding="utf-8")
    problems = sources.problems()
    chosen = list(problems) if names is None else list(names)
    cases = {name: list(cases_of(problems[name])) for name in chosen}
    left = {
        name: [case for case in several if case.key not in done] for name, several in cases.items()
    }
    left = {name: several for name, several in left.items() if several}
    failed: dict[str, BaseException] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        futures = {
            pool.submit(_measure_and_store, path, sources, name, several): name
            for name, several in left.items()
        }
        for number, future in enumerate(as_completed(futures), 1):
            trouble = future.exception()
            if trouble:
                failed[futures[future]] = trouble
            said = f" FAILED: {trouble!r}" if trouble else ""
            print(f"{number} of {len(left)}: {futures[future]}{said}", file=sys.stderr, flush=True)
    if failed:
        raise RuntimeError(f"could not be measured: {', '.join(failed)}") from failed.popitem()[1]
    found = {record["key"]: record for record in read_records(path, digest)}
    return [found[case.key] for several in cases.values() for case in several]


def _drop_torn_line(path: Path) -> None:
    """Cut off what a killed process has left of a line, or the next one would be glued to it."""
    written = path.read_bytes()
    path.write_bytes(written[: written.rfind(b"\n") + 1])


def _measure_and_store(path: Path, sources: Sources, name: str, cases: list[Case]) -> None:
    problem = sources.problems()[name]
    with path.open("ab", buffering=0) as records:
        for record in run_problem(problem, cases):
            # One write for each line, so that those of two processes do not mix.
            os.write(records.fileno(), (json.dumps(record) + "\n").encode())


def run_problem(problem: Problem, cases: Iterable[Case]) -> Iterator[dict[str, Any]]:
    """Yield the record of each case."""
    truth = problem.truth()
    model = None if problem.make is None else problem.make()
    for case in cases:
        yield measure(case, problem, truth, model)
