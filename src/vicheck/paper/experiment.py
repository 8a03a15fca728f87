"""What an experiment of the paper is: numbers, a figure, and the claims they are held against."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from vicheck.errors import InputFileError
from vicheck.files.durable import make_directory, whole_file
from vicheck.runtime.interrupts import check_interrupt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Claim",
    "Experiment",
    "Numbers",
    "Outcome",
    "Run",
    "as_plain",
    "defined_values",
    "describe_band",
    "read_json",
    "write_json",
]

Numbers = dict[str, Any]
"""What an experiment has measured, as JSON has it."""

T = TypeVar("T")


class Outcome(StrEnum):
    """Whether a claim of the paper holds."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"
    NOT_RUN = "no experiment"

    @classmethod
    def across(cls, parts: Iterable[bool]) -> Outcome:
        """Return the outcome of a claim that has parts, each of which holds or does not."""
        holds = list(parts)
        return cls.HOLDS if all(holds) else cls.IN_PART if any(holds) else cls.FAILS


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, and what came out here."""

    where: str
    claim: str
    printed: str
    ours: str
    outcome: Outcome
    why: str
    stan: str = ""
    """What a rerun with Stan gave, where there is one."""


@dataclass(frozen=True)
class Experiment:
    """One figure or section of the paper."""

    name: str
    title: str
    compute: Callable[[Run], Numbers]
    draw: Callable[[Numbers], Figure]
    caption: Callable[[Numbers], str]
    claims: Callable[[Numbers], list[Claim]]
    scripted: str = ""
    """How the authors' scripts differ from the text, where that changes a number."""
    uses_leukemia: bool = False
    """Whether it needs the leukemia data, or something like them."""
    shared: str = ""
    """Name of the numbers, where several experiments show the same ones."""

    @property
    def numbers_name(self) -> str:
        """Name under which its numbers, finished or in pieces, are kept."""
        return self.shared or self.name


@dataclass(frozen=True)
class Run:
    """How an experiment is run, and where its finished pieces are kept."""

    directory: Path
    """Where finished pieces are; an interrupted run goes on from them."""
    say: Callable[[str], None]
    quick: bool = False
    as_scripted: bool = False
    data: str | None = None
    """Where the leukemia data are."""

    def choose(self, full: T, quick: T) -> T:
        """Return one of two settings."""
        return quick if self.quick else full

    def piece(self, key: str, compute: Callable[[], Any]) -> Any:
        """Compute a piece, or read it when it has been computed before."""
        path = self.directory / f"{key}.json"
        if not path.exists():
            check_interrupt()
            self.say(key.replace("-", " "))
            make_directory(self.directory)
            write_json(path, compute())
        return read_json(path)

    def store(self, key: str) -> Path:
        """Return the directory that keeps the chunks of a calibration."""
        return self.directory / key

    def bar(self, key: str) -> Callable[[int, int, float], None]:
        """Return a function that reports the progress of many fits."""
        title = key.replace("-", " ")
        return lambda done, total, seconds: self.say(f"{title}: {done} of {total} fits")


def defined_values(runs: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    """Return one number of each run that has it; undefined numbers are null in JSON."""
    return [run[name] for run in runs if run[name] is not None]


def describe_band(low: float, high: float) -> str:
    """Describe a band of khat by its limits."""
    if low == -math.inf:
        return f"khat below {high:g}"
    return f"khat above {low:g}" if high == math.inf else f"khat {low:g} to {high:g}"


def read_json(path: Path) -> Any:
    """Read what `write_json` has written."""
    try:
        return _as_records(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise InputFileError(
            f"cannot read {path}: {error}; remove it to compute it again"
        ) from error


def write_json(path: Path, content: Any) -> None:
    """Write plain numbers as `as_plain` returns them; all of them or nothing."""
    text = _layout(_as_columns(as_plain(content)))
    with whole_file(path) as file:
        file.write(f"{text}\n".encode())


def as_plain(value: Any) -> Any:
    """Return numbers as JSON has them: NaN as null, floats with six digits."""
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return as_plain(value.tolist())
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    if isinstance(value, np.generic):
        return as_plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value


# A list of many runs is written as one list per number, which takes a third of the room.
_COLUMNS = "columns"


def _as_columns(value: Any) -> Any:
    """Replace lists of dictionaries that have the same keys by a dictionary of lists."""
    if isinstance(value, dict):
        return {key: _as_columns(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > 1 and _have_same_keys(value):
        columns = {key: _as_columns([item[key] for item in value]) for key in value[0]}
        return {_COLUMNS: columns}
    return [_as_columns(item) for item in value]


def _have_same_keys(items: list[Any]) -> bool:
    first = items[0]
    return (
        isinstance(first, dict)
        and bool(first)
        and all(isinstance(item, dict) and list(item) == list(first) for item in items)
    )


def _as_records(value: Any) -> Any:
    """Undo `_as_columns`."""
    if isinstance(value, list):
        return [_as_records(item) for item in value]
    if not isinstance(value, dict):
        return value
    if list(value) != [_COLUMNS]:
        return {key: _as_records(item) for key, item in value.items()}
    columns = {key: _as_records(item) for key, item in value[_COLUMNS].items()}
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _layout(value: Any, indent: str = "\n") -> str:
    """Return JSON with one line per key, and per list of numbers."""
    deeper = f"{indent} "
    if isinstance(value, dict) and value:
        lines = [f"{json.dumps(key)}: {_layout(item, deeper)}" for key, item in value.items()]
        return "{" + ",".join(f"{deeper}{line}" for line in lines) + indent + "}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        lines = [_layout(item, deeper) for item in value]
        return "[" + ",".join(f"{deeper}{line}" for line in lines) + indent + "]"
    return json.dumps(value, allow_nan=False)
