"""CSV files, whoever wrote them: errors name the line and the column."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import InputFileError

__all__ = ["CsvFile", "CsvLine", "parse_csv", "parse_number"]

Floats = NDArray[np.float64]


class CsvLine(NamedTuple):
    """A line that is neither blank nor a comment."""

    number: int
    """Counted from 1, comments and blank lines included."""
    text: str


@dataclass(frozen=True, eq=False)
class CsvFile:
    """The lines of a CSV file, and what messages call it."""

    name: str
    lines: list[CsvLine]
    comments: list[str]
    """Lines that start with ``#``, in order."""
    is_cut: bool
    """Whether the last line has no end."""

    def require_lines(self) -> None:
        """Raise `InputFileError` when there are none."""
        if not self.lines:
            raise InputFileError(f"{self.name} holds no data, only comments")

    def cells(self, line: CsvLine) -> list[str]:
        """Return the cells of a line, without quotes and the spaces around them."""
        try:
            return [cell.strip() for cell in next(csv.reader([line.text], skipinitialspace=True))]
        except csv.Error as error:
            raise InputFileError(f"{self.name}, line {line.number}: {error}") from None

    def require_width(self, lines: Sequence[CsvLine], width: int, *, short_end: str = "") -> None:
        """Raise `InputFileError` unless all lines have so many cells.

        Parameters
        ----------
        lines
            Some of the lines.
        width
            Number of cells.
        short_end
            What to add about the last line when it has fewer.
        """
        for line in lines:
            # Counting commas is quick; only where some may be quoted is the reader needed.
            if '"' not in line.text and line.text.count(",") + 1 == width:
                continue
            count = len(self.cells(line))
            if count != width:
                ending = short_end if line is lines[-1] and count < width else ""
                raise InputFileError(
                    f"{self.name}, line {line.number}: expected {width} values, got {count}{ending}"
                )

    def numbers(
        self,
        lines: Sequence[CsvLine],
        columns: Sequence[int],
        labels: Sequence[str] | None = None,
    ) -> Floats:
        """Return some columns of lines of the same width, shape ``(lines, columns)``.

        Parameters
        ----------
        lines
            Some of the lines.
        columns
            Positions of the columns, from zero. Others may hold anything.
        labels
            Names of all columns, for messages.

        Raises
        ------
        InputFileError
            If a cell of these columns is not a number; it says which.
        """
        if not lines:
            return np.empty((0, len(columns)))
        try:
            return np.loadtxt(
                [line.text for line in lines],
                delimiter=",", comments=None, quotechar='"', ndmin=2, usecols=columns,
            )  # fmt: skip
        except ValueError as error:
            self._refuse_text(lines, columns, labels)
            raise InputFileError(f"{self.name}: {error}") from None

    def _refuse_text(
        self, lines: Sequence[CsvLine], columns: Sequence[int], labels: Sequence[str] | None
    ) -> None:
        for line in lines:
            cells = self.cells(line)
            for column in columns:
                if parse_number(cells[column]) is None:
                    label = "" if labels is None else f" ({labels[column]})"
                    raise InputFileError(
                        f"{self.name}, line {line.number}, column {column + 1}{label}: "
                        f"{cells[column]!r} is not a number"
                    ) from None


def parse_csv(content: bytes, name: str, *, not_text: str = "is no text") -> CsvFile:
    r"""Cut the content of a file into lines, apart from its comments.

    Parameters
    ----------
    content
        UTF-8, with or without a byte order mark, and with any line ends.
    name
        What to call the file in messages.
    not_text
        What to say about a file that is something else.

    Raises
    ------
    InputFileError
        If it is not text.

    Examples
    --------
    >>> file = parse_csv(b"x,y\n# a comment\n1,2\n3,4.5\n", "a.csv")
    >>> file.cells(file.lines[0])
    ['x', 'y']
    >>> file.numbers(file.lines[1:], [0, 1])
    array([[1. , 2. ],
           [3. , 4.5]])
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputFileError(f"{name} {not_text}: it starts with {content[:8]!r}") from None
    lines, comments = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("#"):
            comments.append(line.strip())
        elif line.strip():
            lines.append(CsvLine(number, line))
    return CsvFile(name, lines, comments, is_cut=not text.endswith(("\n", "\r")))


def parse_number(cell: str) -> int | float | None:
    """Return the number that a cell holds, whole where it fits into 64 bits; None for text."""
    if "_" in cell:  # 1_000 is a number in Python only
        return None
    with suppress(ValueError):
        whole = int(cell)
        if -(2**63) <= whole < 2**63:
            return whole
    with suppress(ValueError):
        return float(cell)
    return None
