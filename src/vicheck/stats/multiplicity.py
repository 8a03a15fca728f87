"""Adjusted p-values for many quantities tested at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["benjamini_hochberg", "holm"]

Floats = NDArray[np.float64]


def holm(p_values: ArrayLike) -> Floats:
    """Return Holm's (1979) adjusted p-values, all numbers taken as one family.

    Rejecting those at most alpha makes any false rejection at all have probability at most
    alpha, whatever the dependence. `nan` stays `nan` and does not count as a test.

    Examples
    --------
    >>> holm([0.01, 0.04, np.nan, 0.03])
    array([0.03, 0.06,  nan, 0.06])
    """
    return _adjust(p_values, _holm_sorted)


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Return Benjamini and Hochberg's (1995) adjusted p-values, all numbers as one family.

    Rejecting those at most alpha makes the expected share of false rejections among all
    rejections at most alpha, for independent or positively dependent tests. `nan` stays `nan`
    and does not count as a test.

    Examples
    --------
    >>> benjamini_hochberg([0.01, 0.04, np.nan, 0.02])
    array([0.03, 0.04,  nan, 0.03])
    """
    return _adjust(p_values, _benjamini_hochberg_sorted)


def _holm_sorted(p: Floats) -> Floats:
    return np.asarray(np.maximum.accumulate(p * np.arange(p.size, 0, -1)))


def _benjamini_hochberg_sorted(p: Floats) -> Floats:
    # The factors are at least 1; rounding must not make an adjusted value fall below its p.
    scaled = p * (p.size / np.arange(1, p.size + 1))
    return np.asarray(np.minimum.accumulate(scaled[::-1])[::-1])


def _adjust(p_values: ArrayLike, adjust_sorted: Callable[[Floats], Floats]) -> Floats:
    """Apply a rule for sorted p-values to those that are numbers."""
    array = np.asarray(p_values)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"p_values must be real numbers, got dtype {array.dtype}")
    values = array.astype(np.float64)
    tested = ~np.isnan(values)
    p = values[tested]
    if np.any((p < 0.0) | (p > 1.0)):
        raise ValueError(
            f"p_values must lie between 0 and 1, got values from {p.min():g} to {p.max():g}"
        )
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(adjust_sorted(p[order]), 1.0)
    values[tested] = adjusted
    return values
