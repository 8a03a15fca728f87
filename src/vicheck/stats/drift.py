"""How far quantities have moved from the starts of chains to their ends, and how sure that is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.results.chains import Drift, Heights
from vicheck.stats.multiplicity import holm
from vicheck.stats.stretches import Stretch

__all__ = [
    "Known",
    "Watched",
    "adjusted_beyond",
    "correlations",
    "drift_between",
    "heights_along",
    "nested_rhat",
    "settling",
]

Floats = NDArray[np.float64]

_BLOCK = 2**19
"""Numbers of an array that is worked on at a time."""
_WITHIN_80_PERCENT = 2.563
"""Sds between the 10% and the 90% quantile of a normal distribution."""
_GROUPS = 16
"""Groups of chains that began next to each other, for nested R-hat."""


class Watched(NamedTuple):
    """Quantities of chains, each of shape ``(n, Q)``."""

    starts: Floats
    ends: Floats
    averages: Floats
    """Over the last few steps of each chain."""
    spreads: Floats
    """Squared deviations from the mean of all chains, averaged likewise."""


class Known(NamedTuple):
    """What is known of the draws that starts were taken from."""

    mean: Floats
    """Of each quantity, over all of them."""
    error: Floats
    """Standard error of that mean: where tails are heavy, one draw can make both."""
    variance: Floats
    variance_error: Floats


def drift_between(watched: Watched, known: Known, inflation: float = 1.0) -> Drift:
    """Compare chains at their starts and towards their ends, chain by chain.

    Chains are independent, and start and end of one are not: errors come from differences within
    chains. These are regressions, because the mean and the variance of the draws that starts were
    taken from are known much better than those of the starts. With e the average over the last
    steps of a chain, a its start, and b the slope of e on a, the shift is ``mean(e) - mean - b
    (mean(a) - mean)``: the paired difference where nothing is forgotten (b = 1), and that of two
    means where everything is (b = 0). For the variance, e and a are squared deviations.

    Errors by the delta method are too small where tails are heavy, so the p-value of growth is
    that of logarithms of deviations from the common median, at starts and ends: if starts are draws
    from what the chains leave as it is, both can be exchanged, whatever the tails.

    Parameters
    ----------
    watched
        The quantities.
    known
        What is known of the draws that starts were taken from.
    inflation
        Factor of errors: above 1 if starts are weighted draws, of which some come repeatedly.

    Returns
    -------
    Drift
        NaN for quantities that are not finite at all starts and ends, and for fewer than two
        chains. Quantities that are constant have not moved.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> starts, ends = rng.normal(size=(1000, 1)), rng.normal(0.5, 2.0, (1000, 1))
    >>> watched = Watched(starts, ends, ends, (ends - ends.mean(axis=0)) ** 2)
    >>> standard = Known(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1))
    >>> found = drift_between(watched, standard)
    >>> bool(abs(found.shift[0] - 0.25) < 3 * found.shift_error[0] < 0.12)
    True
    >>> bool(abs(found.growth[0] - np.log(2)) < 3 * found.growth_error[0] < 0.1)
    True
    """
    count, width = watched.starts.shape
    if count < 2:
        return Drift(*np.full((6, width), np.nan))
    blocks = [
        _of_block(
            Watched(*(each[:, some] for each in watched)),
            Known(*(each[some] for each in known)),
            inflation,
        )
        for some in _blocks(width, count)
    ]
    shift, shift_error, shift_t, growth, growth_error, growth_t = np.concatenate(blocks, axis=1)
    shift_p, growth_p = holm(_two_sided(np.stack([shift_t, growth_t]), count))
    return Drift(shift, shift_error, shift_p, growth, growth_error, growth_p)


def _of_block(watched: Watched, known: Known, inflation: float) -> Floats:
    """Return shift and growth, each with its error and Student's t, shape ``(6, Q)``."""
    starts, ends, averages, spreads = watched
    with np.errstate(all="ignore"):
        before, variance = starts - starts.mean(axis=0), spreads.mean(axis=0)
        sd = np.sqrt(np.where(variance > 0.0, variance, known.variance))

        squares = np.square(starts - known.mean)
        slope = _slope(spreads, squares)
        by_chance = slope * (squares.mean(axis=0) - known.variance)
        new_variance = np.where(by_chance < variance, variance - by_chance, variance)
        growth = 0.5 * np.log(new_variance / known.variance)
        growth_error = 0.5 * np.hypot(
            inflation * _error(spreads - slope * squares) / new_variance,
            (1.0 - slope) * known.variance_error / known.variance,
        )

        late = averages - averages.mean(axis=0)
        slope = _slope(averages, starts)
        by_chance = slope * (starts.mean(axis=0) - known.mean)
        shift = (averages.mean(axis=0) - known.mean - by_chance) / sd
        rest = (late - slope * before) / sd
        of_sd = 0.5 * (spreads / variance - 1.0)  # what each chain adds to the error of the log sd
        of_known = (1.0 - slope) * known.error / sd
        shift_t = shift / np.hypot(inflation * _error(rest), of_known)
        shift_error = np.hypot(inflation * _error(rest - shift * of_sd), of_known)

        wider = _log_deviations(starts, ends)
        growth_t = wider.mean(axis=0) / (inflation * _error(wider))
        growth_t = np.where(growth_t * growth < 0.0, 0.0, growth_t)
        found = np.stack([shift, shift_error, shift_t, growth, growth_error, growth_t])
    found[:, (starts == starts[:1]).all(axis=0) & (ends == starts[:1]).all(axis=0)] = 0.0
    found[:, ~(np.isfinite(starts).all(axis=0) & np.isfinite(averages).all(axis=0))] = np.nan
    return found


def _slope(late: Floats, before: Floats) -> Floats:
    """Return the slopes of what is there late on what was there before, between 0 and 1."""
    apart = before - before.mean(axis=0)
    variance = np.square(apart).mean(axis=0)
    slope = np.clip((late * apart).mean(axis=0) / variance, 0.0, 1.0)
    return np.where(variance > 0.0, slope, 0.0)


def settling(middle: Stretch, late: Stretch, inflation: float = 1.0) -> Drift:
    """Return how far quantities still move from the middle of chains to their last steps.

    Where chains have arrived, nothing moves any more but by chance.
    """
    count, width = middle.averages.shape
    if count < 2:
        return Drift(*np.full((6, width), np.nan))
    with np.errstate(all="ignore"):
        variance, new_variance = (each.spreads.mean(axis=0) for each in (middle, late))
        sd = np.sqrt(np.where(new_variance > 0.0, new_variance, variance))
        moved = (late.averages - middle.averages) / sd
        wider = 0.5 * (late.spreads / new_variance - middle.spreads / variance)
        found = [
            moved.mean(axis=0),
            inflation * _error(moved),
            0.5 * np.log(new_variance / variance),
            inflation * _error(wider),
        ]
        still = (variance == 0.0) & (new_variance == 0.0)
        shift, shift_error, growth, growth_error = (np.where(still, 0.0, each) for each in found)
        t = np.stack([shift / shift_error, growth / growth_error])
    shift_p, growth_p = holm(_two_sided(np.where(still, 0.0, t), count))
    return Drift(shift, shift_error, shift_p, growth, growth_error, growth_p)


def correlations(middle: Floats, late: Floats) -> Floats:
    """Return those of each quantity over the chains; 0 where it does not vary, NaN if unknown.

    Unlike nested R-hat they do not depend on how wide the starts were, so they tell chains that
    have forgotten these from chains that spread slowly from starts that were too narrow.
    """
    if len(middle) < 2:
        return np.full(middle.shape[1], np.nan)
    with np.errstate(all="ignore"):
        before, now = (each - each.mean(axis=0) for each in (middle, late))
        scale = np.sqrt(np.square(before).mean(axis=0) * np.square(now).mean(axis=0))
        found = (before * now).mean(axis=0) / scale
    return np.where(scale == 0.0, 0.0, found)


def heights_along(middle: Floats, end: Floats, dim: int) -> Heights:
    """Return what log densities of so many parameters do from the middle of chains to the end."""
    if len(middle) < 2:
        return Heights(np.nan, np.nan, np.nan, np.nan)
    with np.errstate(all="ignore"):
        sd, gain = end.std(), end - middle
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        shift, shift_error = (gain.mean() / sd, error / sd) if sd > 0.0 else (0.0, 0.0)
        low, high = np.quantile(end, [0.1, 0.9])
        spread = (high - low) / _WITHIN_80_PERCENT
    memory = correlations(middle[:, None], end[:, None])[0]
    return Heights(float(memory), float(shift), float(shift_error), float(spread**2 / dim))


def _log_deviations(starts: Floats, ends: Floats) -> Floats:
    """Return by how much each chain ends farther from the middle than it began, in logarithms.

    The middle and the unit are those of starts and ends together, so that exchanging them changes
    signs only. Logarithms have an error where a variance has none.
    """
    middle = np.median(np.concatenate([starts, ends]), axis=0)
    apart, now_apart = np.abs(starts - middle), np.abs(ends - middle)
    both = np.concatenate([apart, now_apart])
    unit = np.median(both, axis=0)
    unit = np.where(unit > 0.0, unit, both.mean(axis=0))
    return np.asarray(np.log1p(now_apart / unit) - np.log1p(apart / unit))


def adjusted_beyond(
    estimates: Floats, errors: Floats, tolerance: float | Floats, count: int
) -> Floats:
    """Return p-values of the hypotheses that no true value exceeds a tolerance in size.

    By Student's distribution of estimates from so many chains, adjusted by Holm's method, all
    numbers as one family; NaN stays NaN.
    """
    beyond = np.abs(estimates) - tolerance
    with np.errstate(divide="ignore", invalid="ignore"):
        # What is within the tolerance is, whatever its error.
        t = np.where(beyond <= 0.0, 0.0, beyond / errors)
    return holm(_two_sided(t, count))


def nested_rhat(starts: Floats, ends: Floats) -> Floats:
    """Return nested R-hat: how much the ends of chains still depend on where they began.

    After Margossian et al. (2024), ``sqrt(1 + B / W)``, with B the variance between, and W within
    groups of chains with a common start. Here a group, for each quantity, are the chains that began
    next to each other in that quantity, and what B has by chance, W over the size of a group, is
    subtracted. A value of 1 means that ends do not depend on starts; of 2, that three quarters of
    their variance do.

    Parameters
    ----------
    starts, ends
        Quantities, shape ``(n, Q)``; NaN where they are not finite, or too few.

    Examples
    --------
    >>> starts, others = np.random.default_rng(1).normal(size=(2, 1000, 2))
    >>> ends = np.sqrt([[0.75, 0.0]]) * starts + np.sqrt([[0.25, 1.0]]) * others
    >>> nested_rhat(starts, ends).round(1)
    array([1.9, 1. ])
    """
    if len(starts) < 2 * _GROUPS:
        return np.full(starts.shape[1], np.nan)
    blocks = _blocks(starts.shape[1], len(starts))
    return np.concatenate([_rhat_of_block(starts[:, some], ends[:, some]) for some in blocks])


def _rhat_of_block(starts: Floats, ends: Floats) -> Floats:
    size = len(starts) // _GROUPS
    order = np.argsort(starts, axis=0, kind="stable")[: size * _GROUPS]
    with np.errstate(all="ignore"):
        grouped = np.take_along_axis(ends, order, axis=0).reshape(_GROUPS, size, -1)
        within = grouped.var(axis=1, ddof=1).mean(axis=0)
        between = grouped.mean(axis=1).var(axis=0, ddof=1) - within / size
        found = np.sqrt(1.0 + np.maximum(between, 0.0) / within)
    return np.where((ends == ends[:1]).all(axis=0), 1.0, found)


def _blocks(num_quantities: int, num_chains: int) -> list[slice]:
    """Return columns that are worked on together."""
    width = max(1, _BLOCK // max(1, num_chains))
    return [slice(first, first + width) for first in range(0, num_quantities, width)]


def _error(contributions: Floats) -> Floats:
    """Return the standard error of a mean over chains."""
    count = len(contributions)
    spread = np.square(contributions - contributions.mean(axis=0)).sum(axis=0)
    return np.asarray(np.sqrt(spread / (count * max(1, count - 1))))


def _two_sided(t: Floats, count: int) -> Floats:
    """Return p-values of Student's t from so many chains; NaN stays NaN."""
    from scipy.special import stdtr

    return np.asarray(np.minimum(1.0, 2.0 * stdtr(max(1, count - 1), -np.abs(t))))
