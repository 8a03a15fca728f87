"""Which estimates of a table of moments or quantiles are reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["reported"]


def reported(table: pd.DataFrame, what: str, weights_work: bool) -> tuple[pd.Series, pd.Series]:
    """Return the estimates of ``"mean"``, ``"sd"`` or ``"q5"``, say, and which are weighted.

    Where the weights work, weighted estimates have no error but that of chance, also of what may be
    used without them. Where they do not, each quantity has the estimate that may be used of it, or
    the plain one where neither may.
    """
    weighted = (table[f"use_{what}"] == "psis") | weights_work
    return table[f"psis_{what}"].where(weighted, table[f"vi_{what}"]), weighted
