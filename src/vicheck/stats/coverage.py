"""Whether central intervals of q hold the truth as often as they claim.

Calibration probabilities are uniform if and only if they are symmetric about 1/2 and |2p - 1| is
uniform. The first is what `vicheck.stats.symmetry` tests. The second is about coverage: |2p - 1| is
at most c where q's central interval of probability c holds the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicheck.stats.calibration import (
    as_probabilities,
    check_level,
    column_blocks,
    num_columns,
    shaped,
)
from vicheck.stats.uniformity import ecdf_counts, simultaneous_band

__all__ = ["coverage", "covers_as_claimed", "detectable_stretch"]

Floats = NDArray[np.float64]

_AT_THE_BEST = 0.7  # probability at one interval that makes about 0.8 or more for all
_MOST_STRETCH = 100.0  # a factor beyond which none is looked for


def coverage(probabilities: ArrayLike, claimed: float) -> Any:
    """Return how often q's central interval of probability ``claimed`` holds the truth.

    Parameters
    ----------
    probabilities
        Calibration probabilities, shape ``(M,)`` or ``(M, Q)``.
    claimed
        Between 0 and 1.

    Examples
    --------
    >>> float(coverage([0.01, 0.3, 0.6, 0.99], 0.9))
    0.5
    """
    if not 0.0 < claimed < 1.0:
        raise ValueError(f"claimed must lie between 0 and 1, got {claimed}")
    p = as_probabilities(probabilities)
    held = np.empty(num_columns(p))
    for where, block in column_blocks(p):
        held[where] = np.mean(np.abs(2.0 * block - 1.0) <= claimed + 1e-9, axis=1)
    return shaped(held, p)


def covers_as_claimed(
    probabilities: ArrayLike, level: float = 0.05, *, stretch: float = 1.0
) -> Any:
    """Test that all central intervals of q hold the truth as often as they claim, or nearly so.

    Parameters
    ----------
    probabilities
        Calibration probabilities, shape ``(M,)`` or ``(M, Q)``.
    level
        Level of the test.
    stretch
        What counts as nearly so: an interval may cover as often as that of a normal q whose sd is
        too small, or too large, by this factor.

    Returns
    -------
    bool or array
        One for each quantity: False where the number of datasets whose interval holds the truth is,
        at some of up to 1000 equidistant probabilities, so small or so large that intervals which
        nearly cover would not give it. The pointwise level is that of `simultaneous_band`: exact
        for a ``stretch`` of 1, conservative for a larger one.

    Examples
    --------
    >>> from scipy.stats import norm
    >>> z = norm.ppf((np.arange(1000) + 0.5) / 1000)
    >>> covers_as_claimed(norm.cdf(1.05 * z)), covers_as_claimed(norm.cdf(1.5 * z))
    (True, False)
    """
    p = as_probabilities(probabilities)
    lower, upper = _bounds(len(p), level, stretch)
    covers = np.empty(num_columns(p), bool)
    for where, block in column_blocks(p):
        counts = ecdf_counts(np.abs(2.0 * block - 1.0), lower.size + 1)
        covers[where] = ((counts >= lower) & (counts <= upper)).all(axis=1)
    return shaped(covers, p)


@lru_cache(maxsize=32)
def detectable_stretch(num_datasets: int, level: float = 0.05, *, stretch: float = 1.0) -> float:
    """Return the factor by which q has to be too narrow for `covers_as_claimed` to find it.

    It is found with a probability of 0.8 or a little more, for a normal posterior: at the one
    interval where it shows best with 0.7, and simulated for 20 to 10,000 datasets that makes 0.8 to
    0.96 for all of them together. Infinite when so few datasets cannot show it.

    Parameters
    ----------
    num_datasets
        M.
    level, stretch
        As in `covers_as_claimed`.

    Examples
    --------
    >>> f"{detectable_stretch(1000):.2f} {detectable_stretch(100):.2f}"
    '1.11 1.33'
    """
    from scipy.stats import binom

    lower, _ = _bounds(num_datasets, level, stretch)

    def is_found(narrow: float) -> bool:
        too_few = binom.cdf(lower - 1, num_datasets, _held(lower.size + 1, 1.0 / narrow))
        return bool(too_few.max() >= _AT_THE_BEST)

    return _smallest(is_found, stretch)


@lru_cache(maxsize=32)
def _bounds(num: int, level: float, stretch: float) -> tuple[Floats, Floats]:
    """Return the smallest and largest number of intervals of probability i / K that may hold.

    For i = 1, ..., K - 1: those of probability 1 always hold.
    """
    from scipy.stats import binom

    if not stretch >= 1.0:
        raise ValueError(f"stretch must be at least 1, got {stretch}")
    check_level(level)
    band = simultaneous_band(num, 1.0 - level)
    tail, points = 0.5 * band.gamma, band.points.size
    lower = binom.ppf(tail, num, _held(points, 1.0 / stretch))
    upper = binom.isf(tail, num, _held(points, stretch))
    lower.flags.writeable = upper.flags.writeable = False
    return lower, upper


def _held(points: int, stretch: float) -> Floats:
    """Return how often intervals of probability i / K hold the truth, for i = 1, ..., K - 1.

    That is for a normal q whose sd is too large by the factor ``stretch``.
    """
    from scipy.special import ndtr, ndtri

    tail = 0.5 - 0.5 * np.arange(1, points) / points
    return np.asarray(1.0 - 2.0 * ndtr(stretch * ndtri(tail)))


def _smallest(is_found: Callable[[float], bool], low: float) -> float:
    """Return the smallest factor that is found, by bisection to three digits."""
    high = _MOST_STRETCH
    if not is_found(high):
        return np.inf
    while high - low > 1e-3 * low:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high
