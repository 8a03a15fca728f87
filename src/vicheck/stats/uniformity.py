"""The stricter reading of calibration probabilities: uniform, as for an exact posterior.

Simultaneous bands for the empirical distribution function (ECDF) after Sailynoja, Buerkner and
Vehtari (2022), "Graphical test for discrete uniformity and its applications in goodness-of-fit
evaluation and multiple sample comparison", Statistics and Computing 32. At each of K equidistant
points the number of p at or below is binomial; pointwise intervals of level 1 - gamma make the
band, and gamma is chosen so that the whole ECDF stays inside with the desired probability.
"""

from __future__ import annotations

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
    "Band",
    "UniformityTest",
    "band_coverage",
    "ecdf_counts",
    "simultaneous_band",
    "uniformity_test",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MAX_POINTS = 1000  # more make the band slower to compute and look no different
_LOG_PRECISION = 1e-5  # of gamma: it moves the coverage by less than 1e-5 (1 - coverage)
_SMALLEST = 1e-10  # p-values: what 1 - coverage can resolve in double precision, with room
_MAX_VALUES = 2500  # of the statistic up to which its law is tabulated in full


class Band(NamedTuple):
    """A simultaneous band for the ECDF of uniform numbers."""

    points: Floats
    """Where the ECDF is looked at: i / K for i = 1, ..., K."""
    lower: Floats
    """Smallest ECDF inside the band, at each point."""
    upper: Floats
    """Largest ECDF inside the band, at each point."""
    gamma: float
    """At each point alone the ECDF is inside with probability of at least 1 - gamma."""


class UniformityTest(NamedTuple):
    """Whether the ECDF is in its band; each a number, or an array with one entry per quantity."""

    inside: Any
    """Whether the whole ECDF lies inside the band."""
    p_value: Any
    """p-value of the statistic; not below 1e-10."""
    statistic: Any
    """Smallest two-sided binomial tail probability of the ECDF over all points."""
    point: Any
    """The point where it is smallest."""
    excursion: Any
    """ECDF minus uniform at that point: positive when too many p lie below it."""


def simultaneous_band(
    num_datasets: int, level: float = 0.95, num_points: int | None = None
) -> Band:
    """Return the band in which the ECDF of ``num_datasets`` uniform numbers stays as a whole.

    Parameters
    ----------
    num_datasets
        M, the number of calibration probabilities of each quantity.
    level
        Probability with which the ECDF lies in the band at all points at once. The ECDF takes
        discrete values: the level is the least probability, and the band the narrowest of its
        kind that keeps it.
    num_points
        K, the number of equidistant points; by default M, at most 1000.

    Examples
    --------
    >>> band = simultaneous_band(100, num_points=4)
    >>> band.points
    array([0.25, 0.5 , 0.75, 1.  ])
    >>> band.lower, band.upper
    (array([0.15, 0.39, 0.65, 1.  ]), array([0.35, 0.61, 0.85, 1.  ]))
    """
    num, points = _as_sizes(num_datasets, num_points)
    check_level(level)
    gamma = _gamma(num, points, float(level))
    lower, upper = _bounds(gamma, num, points)
    return Band(np.arange(1, points + 1) / points, lower[1:] / num, upper[1:] / num, gamma)


def band_coverage(gamma: float, num_datasets: int, num_points: int | None = None) -> float:
    """Return the exact probability that the ECDF of uniform numbers stays in the band of a gamma.

    A Poisson process of rate M, given M events in all, has the law of M uniform numbers. Its
    increments are independent, and between equidistant points they have the same law, so one
    convolution for each point carries along the probability of each count so far in the band.

    Examples
    --------
    >>> round(band_coverage(0.05, 1000), 3)                            # a pointwise band
    0.335
    """
    if not 0.0 < gamma <= 1.0:
        raise ValueError(f"gamma must lie in (0, 1], got {gamma}")
    return _coverage(gamma, *_as_sizes(num_datasets, num_points))


def uniformity_test(
    probabilities: ArrayLike, level: float = 0.05, num_points: int | None = None
) -> UniformityTest:
    """Test that calibration probabilities are uniform, by whether their ECDF stays in its band.

    Parameters
    ----------
    probabilities
        Calibration probabilities, shape ``(M,)`` or ``(M, Q)``. Draws of q instead of its
        distribution function need `randomised_probability`, which has no ties.
    level
        Level of the test: the band has level 1 - ``level``.
    num_points
        As in `simultaneous_band`.

    Notes
    -----
    The p-value is the probability of a statistic at most as large. Its law is exact up to M = 50;
    above it is computed exactly at 169 values and interpolated between them.

    Examples
    --------
    >>> p = np.random.default_rng(1).random(500)
    >>> uniformity_test(p).inside, uniformity_test(p**2).inside
    (True, False)
    >>> result = uniformity_test(p**2)
    >>> result.excursion > 0.2, result.p_value < 1e-9                   # too many small p
    (True, True)
    """
    check_level(level)
    p = as_probabilities(probabilities)
    num, points = _as_sizes(len(p), num_points)
    statistic, place, excursion = (np.empty(num_columns(p)) for _ in range(3))
    for where, block in column_blocks(p):
        counts = ecdf_counts(block, points)
        tails = _tail_probabilities(counts, num, points)
        worst = tails.argmin(axis=1)
        rows = np.arange(len(block))
        statistic[where] = np.minimum(1.0, 2.0 * tails[rows, worst])
        place[where] = (worst + 1) / points
        excursion[where] = counts[rows, worst] / num - place[where]
    inside = statistic >= _gamma(num, points, 1.0 - float(level))
    log_gammas, log_p_values = _law(num, points)
    with np.errstate(divide="ignore"):  # log 0 is -inf, and gets the smallest p-value
        p_values = np.exp(np.interp(np.log(statistic), log_gammas, log_p_values))
    # Interpolation must not contradict the band.
    p_values = np.where(
        inside, np.maximum(p_values, np.nextafter(level, 1.0)), np.minimum(p_values, level)
    )
    fields = (inside, p_values, statistic, place, excursion)
    return UniformityTest(*(shaped(each, p) for each in fields))


def ecdf_counts(block: Floats, points: int) -> Integers:
    """Return how many p of each row lie at or below i / K, for i = 1, ..., K - 1."""
    # i / K times K may come out just above i.
    bins = np.maximum(np.ceil(block * points - 1e-9), 0.0).astype(np.int64)
    bins += (np.arange(len(block)) * (points + 1))[:, None]
    counts = np.bincount(bins.ravel(), minlength=len(block) * (points + 1))
    # At 1 all are below: no information.
    return np.cumsum(counts.reshape(len(block), points + 1), axis=1)[:, 1:points]


def _tail_probabilities(counts: Integers, num: int, points: int) -> Floats:
    """Return the smaller of Pr(B <= count) and Pr(B >= count), B ~ Binomial(M, i / K)."""
    z = np.arange(1, counts.shape[1] + 1) / points
    low = counts.min(axis=0)
    width = int((counts.max(axis=0) - low).max()) + 1
    if width > len(counts):
        return _tails(counts, z, num)
    # Many quantities share the same counts: look them up.
    table = _tails(np.minimum(low + np.arange(width)[:, None], num), z, num)
    return np.take_along_axis(table, counts - low, axis=0)


def _tails(counts: Integers, z: Floats, num: int) -> Floats:
    from scipy.special import betainc

    below = betainc(num - counts, counts + 1.0, 1.0 - z)
    above = betainc(counts, num - counts + 1.0, z)
    return np.asarray(np.minimum(below, above))


def _bounds(gamma: float, num: int, points: int) -> tuple[Integers, Integers]:
    """Return the smallest and largest count inside the band at i / K, for i = 0, ..., K."""
    from scipy.stats import binom

    lower = binom.ppf(0.5 * gamma, num, np.arange(points + 1) / points).astype(np.int64)
    return lower, num - lower[::-1]  # of 1 - p the ECDF has the same law


def _coverage(gamma: float, num: int, points: int) -> float:
    lower, upper = _bounds(gamma, num, points)
    if (lower > upper).any():  # rounding leaves no count inside: a gamma near 1 and an odd M
        return 0.0
    pmf = _poisson(num / points)
    inside, first = np.ones(1), 0
    half = slice(1, points // 2 + 1)
    for low, high in zip(lower[half].tolist(), upper[half].tolist(), strict=True):
        inside = np.convolve(inside, pmf)[low - first : high - first + 1]
        first = low
    # The other half, seen from 1 backwards, is the same; the two must meet at M in all.
    onwards = inside if points % 2 == 0 else np.convolve(inside, pmf)
    met = np.convolve(onwards, inside)[num - 2 * first]
    return min(1.0, float(met / np.exp(_log_poisson(np.array([float(num)]), float(num))[0])))


def _poisson(mean: float) -> Floats:
    """Return the Poisson probabilities of 0, 1, ... as far as they matter."""
    counts = np.arange(mean + 12.0 * np.sqrt(mean) + 30.0)
    with np.errstate(under="ignore"):
        return np.exp(_log_poisson(counts, mean))


def _log_poisson(counts: Floats, mean: float) -> Floats:
    from scipy.special import gammaln

    return np.asarray(counts * np.log(mean) - mean - gammaln(counts + 1.0))


@lru_cache(maxsize=128)
def _gamma(num: int, points: int, level: float) -> float:
    """Return the largest gamma with a coverage of at least ``level``, by bisection."""
    if _coverage(1.0, num, points) >= level:  # so few datasets that no ECDF can leave the band
        return 1.0
    # At each point and side the band is missed with probability gamma / 2 at most.
    low, high = np.log((1.0 - level) / points), 0.0
    while high - low > _LOG_PRECISION:
        middle = 0.5 * (low + high)
        if _coverage(float(np.exp(middle)), num, points) >= level:
            low = middle
        else:
            high = middle
    return float(np.exp(low))


@lru_cache(maxsize=32)
def _law(num: int, points: int) -> tuple[Floats, Floats]:
    """Return the logs of values of the statistic and of the probability to be at most these."""
    gammas = _values_of_statistic(num, points)
    above = np.minimum(gammas * (1.0 + 1e-9), 1.0)  # where the band no longer holds the value
    missed = [1.0 - _coverage(gamma, num, points) for gamma in above.tolist()]
    log_p_values = np.log(np.clip(np.maximum.accumulate(missed), _SMALLEST, 1.0))
    log_p_values[-1] = 0.0
    return np.log(gammas), log_p_values


def _values_of_statistic(num: int, points: int) -> Floats:
    """Return values in rising order up to 1: all that can occur if there are few."""
    smallest = _SMALLEST / points
    if num * points <= _MAX_VALUES:
        counts, z = np.arange(num + 1)[:, None], np.arange(1, points) / points
        values = np.unique(np.minimum(1.0, 2.0 * _tails(counts, z, num)))
        return np.append(values[(values > smallest) & (values < 1.0)], 1.0)
    tail, body = np.geomspace(smallest, 1e-5, 20), np.geomspace(1e-5, 1.0, 150)
    return np.concatenate([tail[:-1], body])


def _as_sizes(num_datasets: int, num_points: int | None) -> tuple[int, int]:
    if num_datasets < 1:
        raise ValueError(f"num_datasets must be at least 1, got {num_datasets}")
    points = max(2, min(num_datasets, _MAX_POINTS)) if num_points is None else num_points
    if points < 2:
        raise ValueError(f"num_points must be at least 2, got {num_points}")
    return int(num_datasets), int(points)
