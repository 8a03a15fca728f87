"""A check or a calibration as text: as data, which a terminal lays out, and as lines.

``print(check)`` and the command line show the same summary. `summary_of` makes it; ``str`` of it is
what is printed where there is no terminal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from vicheck.judging import show
from vicheck.plain_text import plain
from vicheck.results.psis import PsisStatus
from vicheck.results.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd

    from vicheck.results.calibration import Calibration
    from vicheck.results.chains import ShortChains
    from vicheck.results.check import Check

__all__ = [
    "ROWS_SHOWN",
    "Column",
    "Kind",
    "Line",
    "Summary",
    "TextTable",
    "advice_line",
    "chains_in_a_line",
    "summary_of",
    "verdict_lines",
]

ROWS_SHOWN = 12
"""Rows of a table that are printed; the others are counted."""

_TESTS = (
    "median", "bias", "bias_low", "bias_high", "dispersion", "coverage_90", "p_adjusted",
    "direction",
)  # fmt: skip
_LEFT_OUT = ("is_mean", "is_sd", "drift", "drift_error", "lr_sd")
"""Columns of the moments that are not printed; of the drift, the findings say what matters."""
_SIGN = "p = Pr_q(quantity < truth): small when q sits too high. bias is in sds of q."
_MARK_WIDTH = len("caution")


class Kind(StrEnum):
    """What a line of a summary is."""

    TITLE = "title"
    VERDICT = "verdict"
    FINDING = "finding"
    ADVICE = "advice"
    CODE = "code"
    NOTE = "note"


@dataclass(frozen=True)
class Line:
    """One line of a summary; ``str`` gives it with what stands before its text."""

    kind: Kind
    text: str
    mark: str = ""
    """How bad a finding is: "ok", "caution" or "bad"."""

    @property
    def lead(self) -> str:
        """What stands before the text, and below which a wrapped text goes on."""
        return f"  {self.mark:{_MARK_WIDTH}} " if self.mark else ""

    def __str__(self) -> str:
        return self.lead + self.text


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading and a cell for each row, all aligned to the right."""

    heading: str
    cells: tuple[str, ...]
    is_number: bool

    @property
    def width(self) -> int:
        """Characters it takes, with the gap to its left.

        That of pandas: the headings of numbers and the cells of words stay two characters away
        from what comes before, headings of words and numbers at least one.
        """
        heading, cells = (1, 0) if self.is_number else (0, 1)
        return 1 + max(len(self.heading) + heading, *(len(cell) + cells for cell in self.cells), 0)


@dataclass(frozen=True)
class TextTable:
    """A table: a name for each row, and columns."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]

    def lines(
        self, columns: Sequence[Column] | None = None, names: Sequence[str] = ()
    ) -> list[str]:
        """Return the header and the rows, with all columns or with some, with the names or others.

        Parameters
        ----------
        columns
            Which to show; all by default.
        names
            What to call the rows; their own names by default.
        """
        columns = self.columns if columns is None else columns
        heads = ["", *(names or self.names)]
        left = max(map(len, heads))
        return [
            name.ljust(left) + "".join(cell.rjust(width) for cell, width in row)
            for name, row in zip(heads, _rows(columns, len(self.names)), strict=True)
        ]


def _rows(columns: Sequence[Column], num_rows: int) -> list[list[tuple[str, int]]]:
    """Return the header and the rows as pairs of a cell and its width."""
    cells = [((column.heading, *column.cells), column.width) for column in columns]
    return [[(column[row], width) for column, width in cells] for row in range(num_rows + 1)]


@dataclass(frozen=True)
class Summary:
    """What is printed of a result; ``str`` gives it as it stands outside of a terminal."""

    level: str
    """That of the verdict: "good", "usable", "unreliable" or "none"."""
    verdict: tuple[Line, ...]
    """Title, verdict, the other findings and what to do."""
    notes: tuple[Line, ...]
    """Further numbers, and what to read them with."""
    table: TextTable
    more: str
    """The line about the rows that are left out, if there are any."""
    quantiles: TextTable | None = None
    """Of a check: those of the same rows."""

    @property
    def tables(self) -> tuple[TextTable, ...]:
        """All tables."""
        return (self.table,) if self.quantiles is None else (self.table, self.quantiles)

    def __str__(self) -> str:
        lines = [*map(str, self.verdict), "", *map(str, self.notes)]
        for table in self.tables:
            lines += ["", *table.lines()]
        return "\n".join([*lines, self.more] if self.more else lines)


def summary_of(result: Check | Calibration) -> Summary:
    """Return what is printed of a check or of a calibration."""
    from vicheck.results.calibration import Calibration
    from vicheck.results.check import Check

    if isinstance(result, Check):
        return _summary_of_check(result)
    if isinstance(result, Calibration):
        return _summary_of_calibration(result)
    raise TypeError(f"result must be a Check or a Calibration, got {type(result).__name__}")


def verdict_lines(verdict: Verdict, title: str = "") -> tuple[Line, ...]:
    """Return the title, if there is one, the verdict, the other findings and what to do."""
    return (
        *([Line(Kind.TITLE, plain(title))] if title else []),
        Line(Kind.VERDICT, plain(verdict.sentence)),
        *(
            Line(Kind.FINDING, plain(finding.sentence), finding.severity)
            for finding in verdict.others
        ),
        advice_line(verdict),
        *([Line(Kind.CODE, plain(f"  {verdict.code}"))] if verdict.code else []),
    )


def advice_line(verdict: Verdict) -> Line:
    """Return what to do."""
    return Line(Kind.ADVICE, plain(f"What to do: {verdict.hint}"))


def _summary_of_check(check: Check) -> Summary:
    worst = check.worst_first
    quantiles = check.quantiles(quantities=list(worst.index[:ROWS_SHOWN]))
    numbers = [name for name in quantiles if not name.startswith("use")]
    table, more = _table(worst.drop(columns=[*_LEFT_OUT], errors="ignore"), ".moments")
    return Summary(
        check.verdict.level,
        verdict_lines(check.verdict, check.title),
        tuple(Line(Kind.NOTE, plain(text)) for text in _notes_on_check(check)),
        table,
        more,
        _table(quantiles[numbers], ".quantiles()")[0],
    )


def _notes_on_check(check: Check) -> list[str]:
    notes = []
    if check.psis.status in (PsisStatus.OK, PsisStatus.CONSTANT):
        parts = [
            f"khat {show(check.khat)} from {check.psis.num_draws} draws",
            f"{check.psis.ess:.0f} effective draws",
        ]
        if not check.unnormalized:
            parts.append(f"ELBO {check.divergences.elbo}")
        if not check.log_evidence.reason:
            parts.append(f"log evidence {check.log_evidence}")
        notes.append("; ".join(parts))
    if check.chains is not None:
        notes.append(chains_in_a_line(check.chains))
    if check.predictive is not None:
        notes.append(
            f"Held-out log predictive density: VI {check.predictive.vi}, PSIS "
            f"{check.predictive.psis} ({check.predictive.num_points} points). It does not tell "
            "whether VI worked."
        )
    if check.unnormalized:
        notes.append(f"ELBO and log evidence are unknown: {check.unnormalized}.")
    return [*notes, *check.notes]


def chains_in_a_line(chains: ShortChains) -> str:
    """Say how many chains were run, from where, and how well."""
    draws = "weighted draws" if chains.starts == "weighted" else "draws"
    left_out = f" ({chains.num_left_out} more had no finite start)" if chains.num_left_out else ""
    acceptance = f"acceptance {chains.acceptance:.2f}"
    return (
        f"{chains.num_chains} short chains of {chains.num_steps} steps from {draws} of q, "
        f"{acceptance}{left_out}"
    )


def _summary_of_calibration(calibration: Calibration) -> Summary:
    used, total = int(calibration.used.sum()), calibration.data.sizes["dataset"]
    datasets = "dataset" if total == 1 else "datasets"
    count = f"{total} {datasets}" if used == total else f"{used} of {total} {datasets}"
    return Summary(
        calibration.verdict.level,
        verdict_lines(calibration.verdict, calibration.title),
        (Line(Kind.NOTE, f"{count}. {_SIGN}"),),
        *_table(calibration.worst_first[[*_TESTS]], ".tests"),
    )


def _table(table: pd.DataFrame, where: str) -> tuple[TextTable, str]:
    """Return the first rows, and the line about the others."""
    shown = table.head(ROWS_SHOWN)
    columns = (_column(str(heading), shown[heading]) for heading in shown)
    names = tuple(plain(str(name)) for name in shown.index)
    left_out = len(table) - len(shown)
    more = f"... and {left_out} more quantities in {where}" if left_out else ""
    return TextTable(names, tuple(columns)), more


def _column(heading: str, values: Any) -> Column:
    if values.dtype.kind != "f":
        return Column(heading, tuple(plain(str(value)) for value in values), is_number=False)
    cells = ("NaN" if math.isnan(value) else f"{value:.3g}" for value in values)
    return Column(heading, tuple(cells), is_number=True)
