"""`Conclusions`: what follows from the draws of a check, for a file that does not hold them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vicheck.results.record import Record
from vicheck.results.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Columns", "Conclusions", "columns_of", "table_of"]

Columns = dict[str, tuple[float | str, ...]]
"""A table: an entry of each column for each quantity."""


@dataclass(frozen=True, eq=False, repr=False)
class Conclusions(Record):
    """The verdict and the tables of a check, as they were when it had its draws."""

    verdict: Verdict
    moments: Columns
    quantiles: Columns
    summary: Columns

    def fit(self, names: Sequence[str]) -> bool:
        """Whether the tables have an entry for each quantity."""
        tables = (self.moments, self.quantiles, self.summary)
        return all(len(column) == len(names) for table in tables for column in table.values())


def columns_of(table: pd.DataFrame) -> Columns:
    """Return a table as plain columns."""
    return {str(name): tuple(table[name].tolist()) for name in table}


def table_of(columns: Columns, names: Sequence[str]) -> pd.DataFrame:
    """Return plain columns as a table."""
    import pandas as pd

    return pd.DataFrame({name: list(column) for name, column in columns.items()}, pd.Index(names))
