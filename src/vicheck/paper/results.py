"""Run experiments, keep their numbers beside their figures, and read them back."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vicheck import __version__
from vicheck.errors import InputFileError, StoreError
from vicheck.files.durable import make_directory, whole_file
from vicheck.paper.catalogue import NAMES, experiment
from vicheck.paper.drawing import as_svg
from vicheck.paper.experiment import Experiment, Numbers, Run, as_plain, read_json, write_json
from vicheck.runtime.sources import digest_of_sources
from vicheck.stats.smoothing import num_cores

__all__ = ["Result", "read_results", "run_experiment", "write_figure"]

_SCRIPTED = "-as-scripted"
_PIECES = ".pieces"


@dataclass(frozen=True)
class Result:
    """The numbers of one experiment, and what they were computed with."""

    experiment: Experiment
    quick: bool
    as_scripted: bool
    seconds: float
    """Wall time, summed over all runs when it was interrupted."""
    made_with: dict[str, Any]
    numbers: Numbers
    is_new: bool = True
    """Whether it was computed just now, not read."""

    @property
    def is_synthetic(self) -> bool:
        """Whether synthetic data took the place of the leukemia data."""
        return self.numbers.get("source") == "synthetic"

    @property
    def label(self) -> str:
        """Name of its files."""
        return self.experiment.name + (_SCRIPTED if self.as_scripted else "")


def run_experiment(
    name: str,
    out: Path,
    say: Callable[[str], None],
    *,
    quick: bool = False,
    as_scripted: bool = False,
    data: str | None = None,
) -> Result:
    """Run an experiment, or read it when it has been run into the same directory.

    Writes ``NAME.json`` and ``NAME.svg``; numbers that several experiments show are in a file of
    their own, which ``NAME.json`` names. Finished pieces of an interrupted run are used again.

    Raises
    ------
    StoreError
        When the directory holds a full run and a quick one is asked for, or one on synthetic data
        and one on the real ones, or the other way round.
    """
    chosen = experiment(name)
    as_scripted = as_scripted and bool(chosen.scripted)
    label = name + (_SCRIPTED if as_scripted else "")
    make_directory(out)
    path = out / f"{label}.json"
    synthetic = chosen.uses_leukemia and (quick or data is None)
    _refuse_to_mix(out, label, quick, synthetic)
    if path.exists():
        return replace(_read(path), is_new=False)
    # Pieces that other code has made may be something else.
    pieces = out / _PIECES / digest_of_sources() / ("quick" if quick else "full")
    numbers_label = chosen.numbers_name + (_SCRIPTED if as_scripted else "")
    directory = pieces / (numbers_label + ("-synthetic" if synthetic else ""))
    run = Run(directory, say, quick, as_scripted, data)
    clock = pieces / f"{label}.seconds.json"
    before = read_json(clock) if clock.exists() else 0.0
    start = time.perf_counter()
    try:
        numbers = _numbers_of_others(out, chosen, as_scripted) or chosen.compute(run)
    finally:
        seconds = before + time.perf_counter() - start
        make_directory(clock.parent)
        write_json(clock, seconds)
    record = {
        "experiment": name,
        "quick": quick,
        "as_scripted": as_scripted,
        "seconds": seconds,
        "made_with": _made_with(),
    }
    result = _result(record, as_plain(numbers))
    write_figure(out, result)
    if chosen.shared:
        write_json(out / f"{numbers_label}.json", numbers)
        record["numbers_in"] = f"{numbers_label}.json"
    else:
        record["numbers"] = numbers
    write_json(path, record)  # last: an experiment that has this file is finished
    return result


def _numbers_of_others(out: Path, chosen: Experiment, as_scripted: bool) -> Numbers | None:
    """Return the numbers of a finished experiment that shares them, if there is one."""
    if chosen.shared:
        for result in read_results(out):
            if result.experiment.shared == chosen.shared and result.as_scripted == as_scripted:
                return result.numbers
    return None


def _refuse_to_mix(out: Path, label: str, quick: bool, synthetic: bool) -> None:
    kinds = ("a full run", "a quick run")
    for result in read_results(out):
        if result.quick != quick:
            raise StoreError(
                f"{out} holds {kinds[result.quick]} of {result.label}, and {kinds[quick]} of "
                f"{label} was asked for",
                hint="choose another directory with --out",
            )
        if result.label == label and result.is_synthetic != synthetic:
            data = ("the leukemia data", "synthetic data")
            raise StoreError(
                f"{out} holds a run of {label} on {data[result.is_synthetic]}, and one on "
                f"{data[synthetic]} was asked for",
                hint="choose another directory with --out",
            )


def write_figure(out: Path, result: Result) -> None:
    """Draw a result, beside its numbers."""
    with whole_file(out / f"{result.label}.svg") as file:
        file.write(as_svg(result.experiment.draw, result.numbers).encode())


def _made_with() -> dict[str, Any]:
    return {
        "vicheck": __version__,
        **{name: version(name) for name in ("jax", "matplotlib", "numpy", "numpyro", "scipy")},
        "python": platform.python_version(),
        "cores": num_cores(),
    }


def _read(path: Path) -> Result:
    record = read_json(path)
    if "numbers_in" not in record:
        return _result(record, record["numbers"])
    numbers_path = path.with_name(record["numbers_in"])
    if not numbers_path.exists():
        raise InputFileError(
            f"{path} has its numbers in {numbers_path.name}, which is not there; remove "
            f"{path.name} to compute them again"
        )
    return _result(record, read_json(numbers_path))


def _result(record: dict[str, Any], numbers: Numbers) -> Result:
    return Result(
        experiment(record["experiment"]),
        record["quick"],
        record["as_scripted"],
        record["seconds"],
        record["made_with"],
        numbers,
    )


def read_results(out: Path) -> list[Result]:
    """Read all results in a directory, in the order of the paper, the printed settings first."""
    labels: Iterable[str] = [label for name in NAMES for label in (name, name + _SCRIPTED)]
    paths = [out / f"{label}.json" for label in labels]
    return [_read(path) for path in paths if path.exists()]
