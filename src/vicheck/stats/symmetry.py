"""Tests that calibration probabilities are symmetric about 1/2, with exact null laws.

Butler (1969), "A test for symmetry using the sample distribution function", Ann. Math. Statist.
40: order the datasets by |p - 1/2| from largest to smallest and add up the signs of p - 1/2. If p
is symmetric about 1/2 the signs are independent of the order, so the sums are a simple random
walk, of which the law of the maximum is known exactly. The paper instead compares p with 1 - p by
the two-sample Kolmogorov-Smirnov test, as if the two were independent samples: see `paper_ks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicheck.stats.calibration import (
    as_probabilities,
    check_level,
    column_blocks,
    num_columns,
    shaped,
)

__all__ = [
    "PaperKs",
    "SymmetryTest",
    "leaving_probability",
    "paper_ks",
    "paper_ks_size",
    "reaching_probability",
    "symmetry_test",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LEVELS = 2**52  # of the distance to the nearer of 0 and 1: as fine as a p next to 1 can be
_STEPS = np.array([-1, 1, 0], dtype=np.int32)  # for p below, above and at 1/2
_MAX_EXACT = 10_000  # ks_2samp turns from its exact to its asymptotic p-value above this


class SymmetryTest(NamedTuple):
    """Butler's test; each a number, or an array with one entry per quantity."""

    statistic: Any
    """Largest distance of the walk from 0, a whole number of steps."""
    p_value: Any
    """Two-sided: the chance that a random walk gets as far."""
    p_value_over: Any
    """One-sided, against q that over-estimates: p tends to be small, the walk goes down."""
    p_value_under: Any
    """One-sided, against q that under-estimates: p tends to be large, the walk goes up."""


class PaperKs(NamedTuple):
    """The paper's test; each a number, or an array with one entry per quantity."""

    statistic: Any
    """Largest difference between the distribution functions of p and of 1 - p."""
    p_value: Any
    """p-value as if p and 1 - p were independent samples."""


class _Extremes(NamedTuple):
    """Of the walk of each quantity."""

    highest: Integers
    lowest: Integers
    num_steps: Integers


def symmetry_test(
    probabilities: ArrayLike, *, seed: int = 0, randomised: bool = False
) -> SymmetryTest:
    """Test that calibration probabilities are symmetric about 1/2, by Butler's exact test.

    Parameters
    ----------
    probabilities
        Calibration probabilities Pr_q(quantity < true value), shape ``(M,)`` or ``(M, Q)``,
        small when q sits too high. `nan` is refused: drop the datasets whose fit failed.
    seed
        Breaks ties. Without ties, as for a continuous q, it changes nothing.
    randomised
        The statistic is a whole number, so the p-values are discrete, and a test at 5% rejects
        somewhat less often. With True they are exactly uniform under symmetry: a random share of
        the probability of the observed value is subtracted.

    Notes
    -----
    Datasets with the same |p - 1/2|, up to rounding, are walked in random order, and p = 1/2 is
    no step: under symmetry the signs do not depend on the order, nor on how many steps there
    are, so the law stays exact, for each seed. A quantity's result depends on its own p and the
    seed only (with ``randomised``, on its column's position too).

    Examples
    --------
    >>> p = np.random.default_rng(1).random(500)
    >>> round(symmetry_test(p).p_value, 2)
    0.56
    >>> result = symmetry_test(p**1.5)                                 # p too small: q too high
    >>> result.p_value < 1e-4, result.p_value_over < 1e-4, result.p_value_under > 0.5
    (True, True, True)
    """
    p = as_probabilities(probabilities)
    highest, lowest, num_steps = _walk(p, seed)
    farthest = np.maximum(highest, -lowest)
    laws = (
        (leaving_probability, farthest),
        (reaching_probability, -lowest),
        (reaching_probability, highest),
    )
    p_values = [_for_each(law, height, num_steps) for law, height in laws]
    if randomised:
        # A separate stream: that of the seed alone breaks the ties.
        share = np.random.default_rng([seed, 1]).random(farthest.size)
        beyond = [_for_each(law, height + 1, num_steps) for law, height in laws]
        pairs = zip(p_values, beyond, strict=True)
        p_values = [more + share * (at_least - more) for at_least, more in pairs]
    return SymmetryTest(*(shaped(each, p) for each in (farthest, *p_values)))


def reaching_probability(height: ArrayLike, num_steps: int) -> Any:
    """Return Pr(max walk >= height) for a simple random walk that starts at 0.

    By reflection at the height, Pr(S >= height) + Pr(S > height), S the walk's end.

    Examples
    --------
    >>> reaching_probability([0, 1, 2, 3], 3)
    array([1.   , 0.625, 0.25 , 0.125])
    """
    heights = _as_heights(height)
    table = _reaching_table(_as_num_steps(num_steps))
    at = np.clip(heights, 0, table.size - 1)
    return _number_or_array(np.where(heights >= table.size, 0.0, table[at]))


def leaving_probability(height: ArrayLike, num_steps: int) -> Any:
    """Return Pr(max |walk| >= height) for a simple random walk that starts at 0.

    By reflection at both barriers, 2 (R(h) - R(3h) + R(5h) - ...), R(h) the probability of
    `reaching_probability`: of going to h, from there to -h, back to h and so on.

    Examples
    --------
    >>> leaving_probability([0, 1, 2, 3], 3)
    array([1.  , 1.  , 0.5 , 0.25])
    """
    heights = _as_heights(height)
    table = _reaching_table(_as_num_steps(num_steps))
    asked, places = np.unique(heights, return_inverse=True)
    # The first step always reaches 1: exactly so, not up to rounding.
    probabilities = [
        1.0 if h <= min(1, num_steps) else _alternating_sum(table, h, 2 * h) for h in asked.tolist()
    ]
    return _number_or_array(np.array(probabilities)[places].reshape(heights.shape))


def paper_ks(probabilities: ArrayLike) -> PaperKs:
    """Return the paper's test of p against 1 - p, the two-sample Kolmogorov-Smirnov test.

    Parameters
    ----------
    probabilities
        Calibration probabilities, shape ``(M,)`` or ``(M, Q)``.

    Notes
    -----
    The two samples are the same numbers, so the p-value is too small: `paper_ks_size` is how
    often the test really rejects, 9 to 11% for a nominal 5%. It is given for comparison with the
    paper; judge by `symmetry_test`. The number is that of ``scipy.stats.ks_2samp(p, 1 - p)``: the
    exact law for two independent samples up to M = 10,000, an approximation above (R's
    ``ks.test`` takes the limit from M = 100 on). Ties are those of exact arithmetic: 0.3 and
    1 - 0.7 are one number here, although they differ in their last digit.

    Examples
    --------
    >>> p = np.random.default_rng(1).random(500)
    >>> statistic, p_value = paper_ks(p)
    >>> round(statistic, 3), round(p_value, 2)
    (0.048, 0.61)
    """
    p = as_probabilities(probabilities)
    num = len(p)
    steps = _tied_maximum(p)
    asked, places = np.unique(steps, return_inverse=True)
    p_values = np.array([_ks_p_value(height, num) for height in asked.tolist()])[places]
    return PaperKs(shaped(steps / num, p), shaped(p_values, p))


def paper_ks_size(num_datasets: int, level: float = 0.05) -> float:
    """Return how often the paper's test rejects p that are symmetric, where it claims ``level``.

    Exact, for p without ties: the chance that a random walk of M steps goes as far as the
    smallest statistic that the test takes as significant.

    Examples
    --------
    >>> [round(paper_ks_size(num), 3) for num in (100, 500, 1000)]
    [0.092, 0.109, 0.107]
    """
    check_level(level)
    if num_datasets < 1:
        raise ValueError(f"num_datasets must be at least 1, got {num_datasets}")
    num = int(num_datasets)
    accepted, rejected = 0, num + 1
    while rejected - accepted > 1:
        middle = (accepted + rejected) // 2
        if _ks_p_value(middle, num) <= level:
            rejected = middle
        else:
            accepted = middle
    return float(leaving_probability(rejected, num))


def _walk(p: NDArray[Any], seed: int) -> _Extremes:
    """Return the highest and lowest point of each quantity's walk, its start included."""
    num, tolerance = len(p), _tolerance(p)
    # One order of the datasets breaks the ties of all quantities, so none depends on the others.
    ranks = np.random.default_rng(seed).permutation(num).astype(np.int64)
    highest, lowest, num_steps = (np.empty(num_columns(p), np.int64) for _ in range(3))
    for where, block in column_blocks(p):
        unsorted = _keys(block, tolerance)
        keys = np.sort(unsorted, axis=1)
        tied = np.flatnonzero((_gaps(keys) <= tolerance).any(axis=1))
        if tied.size:
            keys[tied] = _sort_ties_by_rank(unsorted[tied], ranks, tolerance)
        steps = _STEPS[keys & 3]
        walk = np.cumsum(steps, axis=1, dtype=np.int32)
        highest[where], lowest[where] = walk.max(axis=1, initial=0), walk.min(axis=1, initial=0)
        num_steps[where] = np.count_nonzero(steps, axis=1)
    return _Extremes(highest, lowest, num_steps)


def _tied_maximum(p: NDArray[Any]) -> Integers:
    """Return the walk's largest distance from 0 where a run of ties ends."""
    tolerance = _tolerance(p)
    farthest = np.empty(num_columns(p), np.int64)
    for where, block in column_blocks(p):
        keys = np.sort(_keys(block, tolerance), axis=1)
        walk = np.abs(np.cumsum(_STEPS[keys & 3], axis=1, dtype=np.int32))
        walk[:, :-1][_gaps(keys) <= tolerance] = 0
        farthest[where] = walk.max(axis=1)
    return farthest


def _keys(block: Floats, tolerance: int) -> Integers:
    """Return for each p, in one integer, its distance to the nearer of 0 and 1 and its side.

    The side is in the last two bits: 0 below 1/2, 1 above, 2 at it. Integers sort several times
    faster than an argsort.
    """
    levels = np.rint(np.minimum(block, 1.0 - block) * _LEVELS).astype(np.int64)
    side = np.where(levels >= _LEVELS // 2 - tolerance, 2, block > 0.5)
    return np.asarray((levels << 2) | side)


def _gaps(sorted_keys: Integers) -> Integers:
    """Return the distance of each dataset to the next, in levels."""
    return np.diff(sorted_keys >> 2, axis=1)


def _sort_ties_by_rank(keys: Integers, ranks: Integers, tolerance: int) -> Integers:
    """Sort along rows; numbers that are equal but for rounding, by the rank of their dataset."""
    order = np.argsort(keys, axis=1)
    in_order = np.take_along_axis(keys, order, axis=1)
    group = np.zeros(keys.shape, np.int64)
    np.cumsum(_gaps(in_order) > tolerance, axis=1, out=group[:, 1:])
    by_rank = (((group * ranks.size) + ranks[order]) << 2) | (in_order & 3)
    by_rank.sort(axis=1)
    return np.asarray(by_rank)


def _tolerance(p: NDArray[Any]) -> int:
    """Return the distance, in levels, up to which two numbers are one but for rounding.

    Without it p = r / (S + 1) and 1 - p would differ in the last digit, the same one of the two
    would always come first, and the walk would go further than it should under symmetry.
    """
    return int(4 * np.finfo(p.dtype).eps * _LEVELS)


@lru_cache(maxsize=256)
def _reaching_table(num_steps: int) -> Floats:
    """Return Pr(max walk >= h) for h = 0, 1, ... as far as it is a positive double."""
    from scipy.special import betainc

    # Pr(S >= h) <= exp(-h^2 / 2M), which is zero in double precision from exp(-750) on.
    end = min(num_steps, math.isqrt(1500 * num_steps) + 1)
    heights = np.arange(end + 2)
    # S = 2B - M with B binomial, and Pr(B >= b) = I_{1/2}(b, M - b + 1), 0 for b > M.
    at_least = (num_steps + heights + 1) // 2
    tail = np.zeros(heights.size)
    inside = at_least <= num_steps
    some = at_least[inside].astype(np.float64)
    tail[inside] = betainc(some, num_steps - some + 1.0, 0.5)
    table = tail[:-1] + tail[1:]
    table[0] = 1.0
    table.flags.writeable = False
    return table


@lru_cache(maxsize=32)
def _ks_table(num: int) -> Floats:
    """Return C(2M, M - h) / C(2M, M) for h = 0, ..., M."""
    steps = np.arange(num, dtype=np.float64)
    logs = np.cumsum(np.log((num - steps) / (num + steps + 1.0)))
    with np.errstate(under="ignore"):
        table = np.concatenate([[1.0], np.exp(logs)])
    table.flags.writeable = False
    return table


def _ks_p_value(height: int, num: int) -> float:
    """Return Pr(D >= height / M) for two independent samples of size M, as ks_2samp does."""
    if height == 0:
        return 1.0
    if num <= _MAX_EXACT:
        return _alternating_sum(_ks_table(num), height, height)
    from scipy.stats import kstwo

    return float(np.clip(kstwo.sf(height / num, np.round(num / 2)), 0.0, 1.0))


def _alternating_sum(table: Floats, first: int, step: int) -> float:
    """Return 2 (t[first] - t[first + step] + t[first + 2 step] - ...), as a probability."""
    total = table[first :: 2 * step].sum() - table[first + step :: 2 * step].sum()
    return min(1.0, max(0.0, 2.0 * float(total)))


def _for_each(
    law: Callable[[ArrayLike, int], Any], height: Integers, num_steps: Integers
) -> Floats:
    """Apply a law to heights of walks of different length."""
    probabilities = np.empty(height.size)
    for steps in np.unique(num_steps).tolist():
        these = num_steps == steps
        probabilities[these] = law(height[these], steps)
    return probabilities


def _as_heights(height: ArrayLike) -> Integers:
    heights = np.asarray(height)
    if heights.dtype.kind not in "iu":
        raise TypeError(f"height must be whole numbers, got dtype {heights.dtype}")
    return heights.astype(np.int64)


def _as_num_steps(num_steps: int) -> int:
    if num_steps < 0:
        raise ValueError(f"num_steps must be at least 0, got {num_steps}")
    return int(num_steps)


def _number_or_array(values: Floats) -> Any:
    return values if values.ndim else values.item()
