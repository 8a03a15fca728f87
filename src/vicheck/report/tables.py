"""Tables for a page: every number as the text that is shown."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    import pandas as pd

    from vicheck.records import Divergences

__all__ = [
    "Column",
    "Table",
    "direction_in_words",
    "divergence_rows",
    "moments_table",
    "show",
    "tests_table",
]

ROWS_SHOWN = 50
_MOST_CHARACTERS = 1_100_000
"""Of all rows together: a page stays below 2 MB."""

_WORDS = {"over": "q sits too high", "under": "q sits too low", "none": "no bias shown"}


@dataclass(frozen=True)
class Column:
    """A column: its heading, what it means, and how it is sorted first."""

    heading: str
    meaning: str
    order: str
    """"text", "largest", "smallest" or "size", the last by absolute value."""


@dataclass(frozen=True)
class Table:
    """Rows of texts, worst first; None stands for what is not known."""

    name: str
    columns: tuple[Column, ...]
    rows: list[list[str | None]]
    total: int
    """How many rows there are, of which some may have been left out to keep the page small."""

    @property
    def shown(self) -> list[list[str | None]]:
        """Rows that are there without any script."""
        return self.rows[:ROWS_SHOWN]

    @property
    def script_data(self) -> Markup:
        """All rows as JSON that can stand inside a script element."""
        text = json.dumps(self.rows, ensure_ascii=False, separators=(",", ":"))
        return Markup(text.replace("<", "\\u003c"))

    @property
    def num_left_out(self) -> int:
        """Rows that the page does not hold."""
        return self.total - len(self.rows)


def show(number: Any) -> str | None:
    """Write a number with three digits, or None when it is not one."""
    value = float(number)
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0.0 else "-inf"
    return f"{value:.3g}" if abs(value) < 1e5 else f"{value:.2e}"


_MOMENTS = {
    "vi_mean": Column("VI mean", "mean of q", "largest"),
    "vi_sd": Column("VI sd", "standard deviation of q", "largest"),
    "psis_mean": Column("PSIS mean", "mean by smoothed weights", "largest"),
    "psis_sd": Column("PSIS sd", "standard deviation by smoothed weights", "largest"),
    "shift": Column("shift", "PSIS minus VI mean, in posterior sds", "size"),
    "mcse": Column("MCSE", "Monte Carlo standard error of the PSIS mean", "largest"),
    "khat": Column("khat", "governs the error of this quantity's PSIS mean", "largest"),
    "use": Column("use", "which estimate to use", "text"),
}
_TESTS = {
    "direction": Column("direction", "after adjustment for many quantities", "text"),
    "bias": Column("bias", "in sds of q, positive when q sits too high", "size"),
    "interval": Column("95% interval", "of the bias", "text"),
    "dispersion": Column(
        "dispersion",
        "what q's sd would have to be multiplied by: above 1, q is too narrow",
        "largest",
    ),
    "p_value": Column("p", "exact test of symmetry", "smallest"),
    "p_adjusted": Column("adjusted p", "by Holm's method", "smallest"),
    "ks_p_value": Column("paper's KS p", "rejects twice as often as it claims", "smallest"),
}
_USE = {"vi": "VI", "psis": "PSIS", "neither": "neither"}


def direction_in_words(direction: str) -> str:
    """Say what "over", "under" and "none" mean."""
    return _WORDS[direction]


def moments_table(moments: pd.DataFrame) -> Table:
    """Lay out the moments of a check, which come worst first."""
    more = [name for name in ("ref_mean", "vi_error", "psis_error") if name in moments]
    extra = {
        "ref_mean": Column("reference mean", "by NUTS", "largest"),
        "vi_error": Column("VI error", "in sds of the reference", "size"),
        "psis_error": Column("PSIS error", "in sds of the reference", "size"),
    }
    columns = _MOMENTS | {name: extra[name] for name in more}
    cells: dict[str, Callable[[Any], str | None]] = dict.fromkeys(columns, show)
    cells["use"] = _USE.__getitem__
    return _table("quantities", moments, columns, cells)


def tests_table(tests: pd.DataFrame) -> Table:
    """Lay out the tests of a calibration, which come worst first."""
    intervals = [
        None if show(low) is None else f"{show(low)} to {show(high)}"
        for low, high in zip(tests["bias_low"], tests["bias_high"], strict=True)
    ]
    cells: dict[str, Callable[[Any], str | None]] = dict.fromkeys(_TESTS, show)
    cells |= {"direction": _WORDS.__getitem__, "interval": lambda text: text}
    return _table("tests", tests.assign(interval=intervals), _TESTS, cells)


def divergence_rows(divergences: Divergences) -> list[tuple[str, str, str]]:
    """Return names, values in nats with their errors, and reasons where there is none."""
    named = {
        "ELBO": divergences.elbo,
        "log evidence": divergences.log_evidence,
        "KL(q, p)": divergences.kl_q_p,
        "KL(p, q)": divergences.kl_p_q,
        "chi-square": divergences.chi_square,
        **{f"Renyi, order {order:g}": each for order, each in divergences.renyi.items()},
    }
    rows = []
    for name, measure in named.items():
        value = show(measure.value)
        error = show(measure.mcse)
        shown = "not known" if value is None else value
        if value is not None and error is not None:
            shown += f" \N{PLUS-MINUS SIGN} {error}"
        rows.append((name, shown, measure.reason))
    return rows


def _table(
    name: str,
    data: pd.DataFrame,
    columns: dict[str, Column],
    cells: dict[str, Callable[[Any], str | None]],
) -> Table:
    rows: list[list[str | None]] = []
    room = _MOST_CHARACTERS
    parts = [map(cells[key], data[key]) for key in columns]
    for row in zip(map(str, data.index), *parts, strict=True):
        room -= _length(row)
        if room < 0 and len(rows) >= ROWS_SHOWN:
            break
        rows.append(list(row))
    heads = (Column("quantity", "", "text"), *columns.values())
    return Table(name, heads, rows, len(data))


def _length(row: Sequence[str | None] | Iterable[str | None]) -> int:
    """Return about how many bytes a row takes as JSON."""
    return sum(len((cell or "null").encode()) + 3 for cell in row)
