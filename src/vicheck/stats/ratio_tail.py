"""How draws with large ratios differ from the rest: by coordinate, by pair, and as a far region."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FarRegion", "Pairs", "Tail", "far_region", "tail_contrast", "worst_pairs"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]

_MOST_PAIRS = 20
_SURE = 4.0
"""Standard errors from zero of a pair that is shown."""
_WIDTH = 0.5
"""Of the bins along the way to a far region, in sds of q."""
_LEAST_IN_BIN = 10
_LEAST_DISTANCE = 1.5
"""Sds of q from its mean to that of the largest ratios."""
_LEAST_RISE = 1.0
"""Nats by which the log density falls and rises again."""


class Tail(NamedTuple):
    """How the draws with the largest ratios differ from the others, by coordinate."""

    is_tail: Bools
    shift: Floats
    """Mean there minus mean of the others, in sds of q."""
    spread: Floats
    """Sd there over sd of the others."""


class Pairs(NamedTuple):
    """Pairs of coordinates that log ratios depend on together, the worst first."""

    first: Ints
    second: Ints
    share: Floats
    """What their terms account for of the variance of the log ratios."""
    cross: Floats
    """Mean mixed second derivative of the log ratio: zero without a correlation that q lacks."""
    scaling: Floats
    """Mean derivative, by the first, of the curvature in the second: not zero in a funnel."""
    tail_correlation: Floats
    """Correlation in the tail minus that of the other draws."""


class FarRegion(NamedTuple):
    """A region beyond a valley of the density, with the draws of the largest ratios."""

    direction: Floats
    distance: float
    """In sds of q, from its mean to where the density is highest beyond the valley."""
    mass: float
    """Share of the weights beyond the valley."""


def tail_contrast(e: Floats, ratios: Floats) -> Tail:
    """Compare the draws in the tail, as many as Pareto smoothing takes, with the others."""
    count = len(ratios)
    length = math.ceil(min(0.2 * count, 3.0 * math.sqrt(count)))
    is_tail = np.zeros(count, bool)
    is_tail[np.argsort(-ratios, kind="stable")[:length]] = True
    inside, outside = e[is_tail], e[~is_tail]
    with np.errstate(all="ignore"):
        spread = inside.std(axis=0) / outside.std(axis=0)
    return Tail(is_tail, inside.mean(axis=0) - outside.mean(axis=0), spread)


def worst_pairs(
    e: Floats, ratios: Floats, slopes: Floats | None, among: Ints, is_tail: Bools
) -> Pairs:
    """Return the pairs among some coordinates whose terms are surest to be there and largest."""
    e = e[:, among]
    # Of products with slopes, or with ratios, as in `ratio_terms`.
    first = ratios[:, None] * e if slopes is None else slopes[:, among]
    second = ratios[:, None] * (np.square(e) - 1.0) if slopes is None else e * first
    cross, cross_sure = _means(e, first)
    scaling, scaling_sure = _means(e, second)
    cross, cross_sure = 0.5 * (cross + cross.T), cross_sure | cross_sure.T
    terms = np.where(scaling_sure, 0.5 * np.square(scaling), 0.0)
    share = np.where(cross_sure, np.square(cross), 0.0) + terms + terms.T
    share /= max(float(np.square(ratios).mean()), 1e-300)
    upper = np.triu_indices(len(among), 1)
    order = np.argsort(-share[upper], kind="stable")[:_MOST_PAIRS]
    order = order[share[upper][order] > 0.0]
    i, j = upper[0][order], upper[1][order]
    swap = np.abs(scaling[j, i]) > np.abs(scaling[i, j])  # the scale comes first
    i, j = np.where(swap, j, i), np.where(swap, i, j)
    tail = [
        _correlation(e[is_tail][:, [a, b]]) - _correlation(e[~is_tail][:, [a, b]])
        for a, b in zip(i, j, strict=True)
    ]
    return Pairs(
        among[i], among[j], share[i, j], cross[i, j], scaling[i, j], np.asarray(tail, np.float64)
    )


def _means(left: Floats, right: Floats) -> tuple[Floats, Bools]:
    """Return means of all products of columns, and which are sure not to be zero."""
    count = len(left)
    mean = left.T @ right / count
    square = np.square(left).T @ np.square(right) / count
    error = np.sqrt(np.maximum(square - np.square(mean), 0.0) / count)
    sure = np.abs(mean) > _SURE * error
    np.fill_diagonal(sure, False)
    return mean, sure


def _correlation(both: Floats) -> float:
    with np.errstate(all="ignore"):
        both = (both - both.mean(axis=0)) / both.std(axis=0)
        return float((both[:, 0] * both[:, 1]).mean())


def far_region(e: Floats, log_p: Floats, log_ratios: Floats) -> FarRegion | None:
    """Return the region that the largest ratios lie in, if it lies beyond a valley of the density.

    Along the direction from the mean of q to the mean of these draws, the mean log density of draws
    in bins must fall from the centre into a valley and rise beyond it. That tells a mode from a
    tail, along which the density only falls.
    """
    count = len(e)
    largest = np.argsort(-log_ratios, kind="stable")[: max(_LEAST_IN_BIN, count // 100)]
    away = e[largest].mean(axis=0)
    distance = float(np.linalg.norm(away))
    if distance < _LEAST_DISTANCE:
        return None
    direction = away / distance
    along = e @ direction
    bins = np.floor(along / _WIDTH).astype(int)
    means, errors, places = [], [], []
    for number in range(int(bins.max()) + 1):
        there = log_p[bins == number]
        if len(there) < _LEAST_IN_BIN:
            break
        means.append(float(there.mean()))
        errors.append(float(there.std() / math.sqrt(len(there))))
        places.append((number + 0.5) * _WIDTH)
    for valley in range(2, len(means) - 1):
        top = valley + 1 + int(np.argmax(means[valley + 1 :]))
        fall, rise = means[0] - means[valley], means[top] - means[valley]
        noise = _SURE * math.hypot(errors[valley], max(errors[0], errors[top]))
        if min(fall, rise) > max(_LEAST_RISE, noise):
            with np.errstate(under="ignore"):
                weights = np.exp(log_ratios - log_ratios.max())
            beyond = weights[along > places[valley]].sum() / weights.sum()
            return FarRegion(direction, places[top], float(beyond))
    return None
