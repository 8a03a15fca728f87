"""Statistics of calibration probabilities as a table, one row for each quantity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vicheck.judging.cutoffs import SIGNIFICANT_BELOW, SMALL_STRETCH
from vicheck.stats.calibration import bias, dispersion, mean_bias
from vicheck.stats.coverage import coverage, covers_as_claimed
from vicheck.stats.multiplicity import benjamini_hochberg, holm
from vicheck.stats.symmetry import paper_ks, symmetry_test
from vicheck.stats.uniformity import uniformity_test

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["tests_table", "uniformity_table", "worst_first"]

Floats = NDArray[np.float64]

_STATISTICS = (
    "statistic", "p_value", "p_value_over", "p_value_under",
    "median", "bias", "bias_low", "bias_high",
    "mean_bias", "mean_bias_low", "mean_bias_high",
    "dispersion", "dispersion_low", "dispersion_high", "dispersion_p_value",
    "coverage_50", "coverage_90", "coverage_99", "covers",
    "ks_statistic", "ks_p_value",
)  # fmt: skip
"""In the order in which `_statistics` returns them."""

_COLUMNS = (
    "statistic", "p_value", "p_adjusted", "q_value", "p_value_over", "p_value_under", "direction",
    "median", "bias", "bias_low", "bias_high",
    "mean_bias", "mean_bias_low", "mean_bias_high",
    "dispersion", "dispersion_low", "dispersion_high", "dispersion_p_value",
    "dispersion_p_adjusted", "coverage_50", "coverage_90", "coverage_99", "covers",
    "ks_statistic", "ks_p_value", "num_datasets",
)  # fmt: skip


def tests_table(probabilities: Floats, names: Sequence[str]) -> pd.DataFrame:
    """Test each column of probabilities for symmetry and coverage; estimate bias and dispersion.

    Parameters
    ----------
    probabilities
        Shape ``(M, Q)``; NaN where there is none.
    names
        Of the quantities.
    """
    level = SIGNIFICANT_BELOW / len(names)
    table = _table_of(probabilities, names, _STATISTICS, lambda p: _statistics(p, level))
    table["p_adjusted"] = holm(table["p_value"].to_numpy())
    table["q_value"] = benjamini_hochberg(table["p_value"].to_numpy())
    table["dispersion_p_adjusted"] = holm(table["dispersion_p_value"].to_numpy())
    side = np.where(table["p_value_over"] <= table["p_value_under"], "over", "under")
    significant = table["p_adjusted"] < SIGNIFICANT_BELOW
    table["direction"] = np.where(significant, side, "none")
    table["covers"] = table["covers"] == 1.0  # False, too, where a quantity is nowhere known
    return table[list(_COLUMNS)]


def uniformity_table(probabilities: Floats, names: Sequence[str], level: float) -> pd.DataFrame:
    """Test each column of probabilities for uniformity by a simultaneous band of a given level."""
    columns = ("inside", "p_value", "statistic", "point", "excursion")
    table = _table_of(probabilities, names, columns, lambda p: uniformity_test(p, level))
    table.insert(2, "p_adjusted", holm(table["p_value"].to_numpy()))
    return table.assign(inside=table["inside"] == 1.0)


def worst_first(table: pd.DataFrame, decides: str = "") -> pd.DataFrame:
    """Sort quantities: that which decides, asymmetric ones, those that do not cover, the rest.

    Parameters
    ----------
    table
        As made by `tests_table`.
    decides
        The quantity that the verdict names first, if it names any.

    Notes
    -----
    Within each group they are sorted by adjusted p-value and, where these agree, by the size of the
    bias.
    """
    keys = table.assign(
        decides=table.index != decides,
        symmetric=~(table["p_adjusted"] < SIGNIFICANT_BELOW),
        size=-table["bias"].abs(),
    )
    order = ["decides", "symmetric", "covers", "p_adjusted", "size"]
    return table.loc[keys.sort_values(order, kind="stable").index]


def _table_of(
    probabilities: Floats,
    names: Sequence[str],
    columns: Sequence[str],
    statistics: Callable[[Floats], Sequence[Any]],
) -> pd.DataFrame:
    """Compute statistics of each quantity from the datasets where it is known.

    The function returns them in the order of ``columns``, as arrays with one entry for each
    quantity it was given; a quantity that is nowhere known has NaN. The number of datasets is
    added as ``num_datasets``.
    """
    import pandas as pd

    known = np.isfinite(probabilities)
    values = np.full((len(columns), len(names)), np.nan)
    for rows, which in _groups(known):
        if rows.size:
            values[:, which] = statistics(probabilities[np.ix_(rows, which)])
    table = pd.DataFrame(values.T, pd.Index(names, name="quantity"), columns)
    return table.assign(num_datasets=known.sum(axis=0))


def _statistics(p: Floats, level: float) -> tuple[Any, ...]:
    return (
        *symmetry_test(p),
        *bias(p),
        *mean_bias(p),
        *dispersion(p),
        *(coverage(p, claimed) for claimed in (0.5, 0.9, 0.99)),
        covers_as_claimed(p, level, stretch=SMALL_STRETCH),
        *paper_ks(p),
    )


def _groups(known: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield rows and columns of the parts that are known: as a rule there is only one."""
    if (known == known[:, :1]).all():
        yield np.flatnonzero(known[:, 0]), np.arange(known.shape[1])
        return
    patterns, which = np.unique(np.packbits(known, axis=0), axis=1, return_inverse=True)
    for pattern in range(patterns.shape[1]):
        columns = np.flatnonzero(which == pattern)
        yield np.flatnonzero(known[:, columns[0]]), columns
