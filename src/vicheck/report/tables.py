"""Tables for a page: every number as the text that is shown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from vicheck.plain_text import plain

if TYPE_CHECKING:
    import pandas as pd

    from vicheck.results.estimates import Divergences

__all__ = [
    "Column",
    "Table",
    "calibration_table",
    "chains_rows",
    "changes_table",
    "direction_in_words",
    "divergence_rows",
    "moments_table",
    "quantiles_table",
    "show",
    "show_to",
]

ROWS_SHOWN, CHAINS_SHOWN = 50, 10
MOST_BYTES = 1_100_000
"""Of the rows of all tables together: a page stays below 2 MB."""

_MOST_DECIMALS, _LONGEST = 6, 1e7
"""Where numbers end that are written with their decimals."""

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


def _as_json(row: list[str | None]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def show(number: Any) -> str | None:
    """Write a number with three digits, or None when it is not one."""
    value = float(number)
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0.0 else "-inf"
    return f"{value:.3g}" if abs(value) < 1e5 else f"{value:.2e}"


def show_to(number: Any, error: Any) -> str | None:
    """Write a number as far as its error lets it be known: to two digits of that."""
    value, size = float(number), abs(float(error))
    plain = show(value)
    if plain is None or not 0.0 < size < math.inf or not abs(value) / size > 1e-12:
        return plain
    decimals = 1 - math.floor(math.log10(size))
    if not 0 < decimals <= _MOST_DECIMALS or abs(value) >= _LONGEST:
        return plain
    return f"{value:.{decimals}f}"


_MOMENTS = {
    "use_mean": Column("mean by", "which estimate of the mean to use", "text"),
    "use_sd": Column("sd by", "which estimate of the standard deviation to use", "text"),
    "vi_mean": Column("VI mean", "mean of q", "largest"),
    "vi_sd": Column("VI sd", "standard deviation of q", "largest"),
    "psis_mean": Column("PSIS mean", "mean by smoothed weights", "largest"),
    "psis_sd": Column("PSIS sd", "standard deviation by smoothed weights", "largest"),
    "shift": Column("shift", "PSIS minus VI mean, in posterior sds", "size"),
    "mcse": Column("MCSE", "Monte Carlo standard error of the PSIS mean", "largest"),
    "khat": Column("khat", "governs the error of this quantity's PSIS mean", "largest"),
}
_RESPONSE = {
    "lr_sd": Column("LR sd", "standard deviation by linear response, to first order", "largest"),
}
_DRIFT = {
    "drift": Column("drift", "of the mean along short chains, in posterior sds", "size"),
    "drift_error": Column("drift error", "standard error of the drift", "largest"),
}
_REFERENCE = {
    "ref_mean": Column("reference mean", "by NUTS", "largest"),
    "ref_sd": Column("reference sd", "by NUTS", "largest"),
    "vi_error": Column("VI error", "in sds of the reference", "size"),
    "psis_error": Column("PSIS error", "in sds of the reference", "size"),
    "marginal_khat": Column("marginal khat", "small even where the marginal is wrong", "largest"),
}
_TESTS = {
    "direction": Column("direction", "after adjustment for many quantities", "text"),
    "bias": Column("bias", "in sds of q, positive when q sits too high", "size"),
    "interval": Column("95% interval", "of the bias", "largest"),
    "dispersion": Column(
        "dispersion",
        "what q's sd would have to be multiplied by: above 1, q is too narrow",
        "largest",
    ),
    "coverage_90": Column(
        "90% coverage", "how often q's central 90% interval holds the truth", "smallest"
    ),
    "p_value": Column("p", "exact test of symmetry", "smallest"),
    "p_adjusted": Column("adjusted p", "by Holm's method", "smallest"),
    "ks_p_value": Column("paper's KS p", "rejects twice as often as it claims", "smallest"),
}
_CHANGES = {
    "before_mean": Column(
        "mean before", "of the approximation that the rescue began with", "largest"
    ),
    "before_sd": Column("sd before", "of the same", "largest"),
    "mean": Column("mean now", "what to report", "largest"),
    "sd": Column("sd now", "what to report", "largest"),
    "mcse": Column("MCSE", "Monte Carlo standard error of the mean", "largest"),
    "change": Column("change", "of the mean, in the new sds", "size"),
    "source": Column("by", "where mean and sd come from", "text"),
}
_USE = {"vi": "VI", "psis": "PSIS", "nuts": "NUTS", "neither": "neither"}


_WHICH = ("use_mean", "use_sd")


def direction_in_words(direction: str) -> str:
    """Say what "over", "under" and "none" mean."""
    return _WORDS[direction]


def moments_table(moments: pd.DataFrame, most_bytes: int = MOST_BYTES) -> Table:
    """Lay out the moments of a check, which come worst first."""
    further = _RESPONSE | _DRIFT | _REFERENCE
    columns = _MOMENTS | {name: each for name, each in further.items() if name in moments}
    texts: dict[str, list[str | None]] = {
        name: [show(number) for number in moments[name]] for name in columns if name not in _WHICH
    }
    for name in ("vi_mean", "psis_mean"):
        both = zip(moments[name], moments["mcse"], strict=True)
        texts[name] = [show_to(number, error) for number, error in both]
    for name in _WHICH:
        texts[name] = [_USE[each] for each in moments[name]]
    return _table("quantities", moments.index, columns, texts, most_bytes)


def quantiles_table(quantiles: pd.DataFrame, total: int, most_bytes: int = MOST_BYTES) -> Table:
    """Lay out quantiles of a check, those of the worst quantities first, of which there are more.

    Weighted ones have their Monte Carlo errors beside them.
    """
    labels = [name.removeprefix("vi_q") for name in quantiles if name.startswith("vi_q")]
    columns: dict[str, Column] = {}
    texts: dict[str, list[str | None]] = {}
    for label in labels:
        use, plain_, weighted, error = (
            f"{part}_q{label}" for part in ("use", "vi", "psis", "mcse")
        )
        columns[use] = Column(f"{label}% by", "", "text")
        columns[plain_] = Column(f"VI {label}%", "", "largest")
        columns[weighted] = Column(f"PSIS {label}%", "", "largest")
        numbers = zip(quantiles[plain_], quantiles[weighted], quantiles[error], strict=True)
        rows = [(show_to(one, e), show_to(other, e), show(e)) for one, other, e in numbers]
        texts[use] = [_USE[each] for each in quantiles[use]]
        texts[plain_] = [one for one, _, _ in rows]
        texts[weighted] = [
            None if other is None else f"{other} \N{PLUS-MINUS SIGN} {e or 'unknown'}"
            for _, other, e in rows
        ]
    table = _table("quantiles", quantiles.index, columns, texts, most_bytes)
    return replace(table, total=total)


def calibration_table(tests: pd.DataFrame, most_bytes: int = MOST_BYTES) -> Table:
    """Lay out the tests of a calibration, which come worst first."""
    texts: dict[str, list[str | None]] = {
        name: [show(number) for number in tests[name]]
        for name in _TESTS
        if name not in ("direction", "interval")
    }
    texts["direction"] = [_WORDS[each] for each in tests["direction"]]
    texts["interval"] = [
        None if show(low) is None else f"{show(low)} to {show(high)}"
        for low, high in zip(tests["bias_low"], tests["bias_high"], strict=True)
    ]
    return _table("tests", tests.index, _TESTS, texts, most_bytes)


def changes_table(changes: pd.DataFrame, most_bytes: int = MOST_BYTES) -> Table:
    """Lay out what a rescue has changed, the largest change first."""
    texts: dict[str, list[str | None]] = {
        name: [show(number) for number in changes[name]] for name in _CHANGES if name != "source"
    }
    both = zip(changes["mean"], changes["mcse"], strict=True)
    texts["mean"] = [show_to(number, error) for number, error in both]
    texts["source"] = [_USE[each] for each in changes["source"]]
    return _table("changes", changes.index, _CHANGES, texts, most_bytes)


def chains_rows(table: pd.DataFrame) -> list[list[str]]:
    """Return the quantities that short chains have moved most, as texts."""
    rows = []
    for name, row in table.head(CHAINS_SHOWN).iterrows():
        columns = ("start_mean", "end_mean", "start_sd", "end_sd", "rhat")
        *moments, rhat = (show(row[column]) or "unknown" for column in columns)
        drift, error = (show_to(row[each], row["drift_error"]) for each in ("drift", "drift_error"))
        moved = "unknown" if drift is None else f"{drift} \N{PLUS-MINUS SIGN} {error}"
        rows.append([plain(str(name)), *moments, moved, rhat])
    return rows


def divergence_rows(divergences: Divergences) -> list[tuple[str, str, str]]:
    """Return names with units, values with their errors, and what is to be said of these."""
    named = {
        "ELBO, nats": divergences.elbo,
        "log evidence, nats": divergences.log_evidence,
        "KL(q, p), nats": divergences.kl_q_p,
        "KL(p, q), nats": divergences.kl_p_q,
        "chi-square": divergences.chi_square,
        **{f"Renyi of order {order:g}, nats": each for order, each in divergences.renyi.items()},
    }
    rows = []
    for name, measure in named.items():
        value = show_to(measure.value, measure.mcse)
        error = show(measure.mcse)
        shown = "not known" if value is None else value
        if value is not None and error is not None:
            shown += f" \N{PLUS-MINUS SIGN} {error}"
        rows.append((name, shown, measure.reason or measure.caution))
    return rows


def _table(
    name: str,
    names: Iterable[Any],
    columns: dict[str, Column],
    texts: dict[str, list[str | None]],
    most_bytes: int,
) -> Table:
    shown = [plain(str(each)) for each in names]
    every: list[list[str | None]] = [
        list(row) for row in zip(shown, *(texts[key] for key in columns), strict=True)
    ]
    room, kept = most_bytes, 0
    for kept, row in enumerate(every):
        room -= len(_as_json(row).encode("utf-8", "replace")) + 1
        if room < 0 and kept >= ROWS_SHOWN:
            break
    else:
        kept = len(every)
    heads = (Column("quantity", "", "text"), *columns.values())
    return Table(name, heads, every[:kept], len(every))
