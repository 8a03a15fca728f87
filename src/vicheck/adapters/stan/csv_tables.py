"""What a Stan CSV file contains: settings in comments, names, numbers and how they are rounded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import InputFileError
from vicheck.files.csv_reader import parse_csv

__all__ = ["StanTable", "parse_stan_csv"]

Floats = NDArray[np.float64]

_WORD = re.compile(r"\w+")
_INDICES = re.compile(r"\[[^\[\]]*\]")
"""Brackets, whose commas are not between names."""

_FULL_PRECISION = 15
"""Significant digits from which on a number is as good as not rounded."""
_DIGITS_FROM = 200
"""Draws in which the digits are counted: one is not enough, as zeros at the end are not printed."""
_CELLS_SEEN = 100_000
"""At most, of the numbers in these draws."""


@dataclass(frozen=True, eq=False)
class StanTable:
    """A Stan CSV file, its settings and where its rows stood."""

    file: str
    """What messages call it."""
    settings: dict[str, str]
    comments: str
    names: list[str]
    """Of the columns, as they are printed."""
    numbers: Floats
    """Shape ``(rows, columns)``."""
    lines: list[int]
    """The line of each row."""
    digits: int
    """Significant digits of the numbers."""
    is_cut: bool
    """Whether the last line has no end."""

    def column(self, name: str) -> Floats:
        """Return the numbers below a name."""
        return self.numbers[:, self.names.index(name)]

    def says_no(self, setting: str) -> bool:
        """Whether a setting is off."""
        return self.settings.get(setting, "").lower() in {"0", "false"}

    def rows(self, chosen: slice) -> StanTable:
        """Return the table with some of its rows."""
        return replace(self, numbers=self.numbers[chosen], lines=self.lines[chosen])

    def rounding(self, numbers: Floats) -> Floats:
        """Return half a unit in the last digit of numbers printed with as many as these."""
        with np.errstate(divide="ignore", invalid="ignore"):
            exponents = np.floor(np.log10(np.abs(numbers)))
        exponents = np.where(np.isfinite(exponents), exponents, -np.inf)
        return np.asarray(0.5 * 10.0 ** (exponents - self.digits + 1))


def parse_stan_csv(content: bytes, name: str) -> StanTable:
    """Read all numbers and settings in the content of a file; ``name`` is for messages.

    Raises
    ------
    InputFileError
        If it is empty or no such file; if a row has another number of cells than the header has
        names, or something that is not a number.
    """
    if not content.strip():
        raise InputFileError(f"{name} is empty")
    file = parse_csv(content, name, not_text="is no Stan CSV file")
    file.require_lines()
    names = _names(file.lines[0].text)
    rows = file.lines[1:]
    file.require_width(rows, len(names), short_end=": the file is cut off in the middle of a line")
    return StanTable(
        file=name,
        settings=_settings(file.comments),
        comments="\n".join(file.comments),
        names=names,
        numbers=file.numbers(rows, range(len(names)), names),
        lines=[row.number for row in rows],
        digits=_significant_digits(row.text for row in rows[:_DIGITS_FROM]),
        is_cut=file.is_cut,
    )


def _names(header: str) -> list[str]:
    joined = _INDICES.sub(lambda match: match[0].replace(",", "\0"), header)
    return [cell.strip(' "').replace("\0", ",") for cell in joined.split(",")]


def _settings(comments: Iterable[str]) -> dict[str, str]:
    """Return what comments say as ``name = value``; of several lines the first counts."""
    settings: dict[str, str] = {}
    for comment in comments:
        key, equals, value = (part.strip() for part in comment[1:].partition("="))
        if equals and _WORD.fullmatch(key):
            settings.setdefault(key, value.removesuffix("(Default)").rstrip())
    return settings


def _significant_digits(lines: Iterable[str]) -> int:
    """Count the digits of the number that has most of them."""
    cells = islice((cell for line in lines for cell in line.split(",")), _CELLS_SEEN)
    mantissas = (re.split("[eE]", cell)[0] for cell in cells)
    digits = (re.sub(r"\D", "", mantissa).lstrip("0") for mantissa in mantissas)
    return min(max(map(len, digits), default=0), _FULL_PRECISION)
