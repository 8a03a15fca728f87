"""What experiments that are repeated share: three ways to estimate means, and quartiles of runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vicheck.paper.experiment import Numbers, defined_values
from vicheck.results.psis import PsisResult

__all__ = ["WAYS", "describe_quartiles", "rmse", "values_by_row", "weigh"]

Floats = NDArray[np.float64]

WAYS = {"plain": ("vi", "o", "VI"), "is": ("is", "s", "IS"), "psis": ("psis", "^", "PSIS")}
"""Colour, marker and label of plain VI, importance sampling and PSIS."""


def weigh(log_ratios: Floats, smoothed: PsisResult) -> dict[str, Floats]:
    """Return the weights of draws in each of the three ways."""
    return {
        "plain": np.full(len(log_ratios), 1 / len(log_ratios)),
        "is": np.exp(log_ratios - np.logaddexp.reduce(log_ratios)),
        "psis": np.exp(smoothed.log_weights),
    }


def rmse(estimate: Floats, truth: Floats) -> float:
    """Return the root of the mean squared error."""
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))


def values_by_row(rows: Sequence[Numbers], name: str) -> list[list[float]]:
    """Return one number of the runs of each row, where it is defined."""
    return [defined_values(row["runs"], name) for row in rows]


def describe_quartiles(values: Sequence[float]) -> str:
    """Describe values by their median and quartiles."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"
