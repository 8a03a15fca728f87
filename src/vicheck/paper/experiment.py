"""What an experiment of the paper is: numbers, a figure, and the claims they are held against."""

from __future__ import annotations

import json
import math
import re
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
    "known",
    "read_json",
    "tell_band",
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
        held = list(parts)
        return cls.HOLDS if all(held) else cls.IN_PART if any(held) else cls.FAILS


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
    pieces_of: str = ""
    """Another experiment that computes the same, where there is one."""


@dataclass(frozen=True)
class Run:
    """How an experiment is to be run, and where it keeps what is finished."""

    directory: Path
    """Of pieces that are finished; a run that was interrupted goes on from them."""
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
        """Return a function that tells how far many fits have come."""
        what = key.replace("-", " ")
        return lambda done, total, seconds: self.say(f"{what}: {done} of {total} fits")


def known(runs: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    """Return a number of all runs that have it; undefined ones are null in JSON."""
    return [run[name] for run in runs if run[name] is not None]


def tell_band(low: float, high: float) -> str:
    """Say between which values of khat a band lies."""
    if low == -math.inf:
        return f"khat below {high:g}"
    return f"khat above {low:g}" if high == math.inf else f"khat {low:g} to {high:g}"


def read_json(path: Path) -> Any:
    """Read what `write_json` has written."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputFileError(
            f"cannot read {path}: {error}; remove it to compute it anew"
        ) from error


def write_json(path: Path, content: Any) -> None:
    """Write what `as_plain` makes of numbers; all of it or nothing."""
    text = json.dumps(as_plain(content), indent=1, allow_nan=False)
    # Long lists of numbers are one line each: they are data, not text.
    text = re.sub(r"\[[^\[\]{}\"]*\]", lambda match: re.sub(r"\s+", " ", match[0]), text)
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
