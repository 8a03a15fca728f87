"""What log ratios are made of: their expansion by orders in draws that are standard normal.

If e is standard normal, a function r(e) is a sum of uncorrelated Hermite terms, whose coefficients
are mean derivatives of r: e_i (a slope), e_i^2 - 1 (a wrong scale), e_i e_j (a correlation),
e_i^3 - 3 e_i (skewness), e_i^4 - 6 e_i^2 + 3 (tails), and e_k (e_i^2 - 1), a scale times a location
(a funnel). Mean derivatives are means of products of the draws with the slopes of r (Stein's
identity), so d^2 coefficients need no regression. Of many coordinates they need no matrix of d rows
either: what a term predicts at one draw is a sum over the inner products with others.
Coefficients of one half of the draws predict the log ratios of the other half; so noise in them
predicts nothing. A regression on the few predictions says what each accounts for.
"""

# Over 400 lines: one expansion, whose products are had in two ways, by draws and by coordinates.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Funnel", "RatioTerms", "ratio_terms"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]

_MOST_FUNNELS = 3
"""Groups of scales that are told apart."""
_MOST_SCALES = 16
"""Scales of one group that are looked at."""
_BLOCK = 512
"""Draws that are predicted at a time."""
_SURE = 5.0
"""Standard errors from zero of what is taken for more than noise."""
_LEAST_FUNNEL = 0.05
"""Share of the variance from which on scales are looked at more closely: the best of many, chosen
with hindsight, have some."""
_SAME = 0.5
"""A correlation that belongs to a funnel changes at least at this part of the funnel's rate."""
_ALIKE = 0.25
"""Part of the largest coefficient that others need to be named with it."""
_KINDS = ("scaling", "pairs", "triples", "evens")
"""Terms of a funnel."""
_SINGLE = ("slope", "curvature", "skew", "tails", "light", "alone")
"""Terms of one coordinate; the last are the cubic ones of scales of funnels."""


@dataclass(frozen=True, eq=False)
class Funnel:
    """Scales of one group, the locations whose curvature they change, and what that accounts for.

    Correlations between locations that come and go with the scale belong to it, and so does what
    the scales do alone: a sum over the locations of the same term.
    """

    scales: Ints
    locations: Ints
    sign: int
    """1 where locations spread out as the scale rises, and -1 where they draw together."""
    share: float


@dataclass(frozen=True, eq=False)
class RatioTerms:
    """Coefficients by coordinate, and what each kind of term accounts for of the variance of r."""

    num_draws: int
    sd: float
    """Of the log ratios, the extremes compressed."""
    slope: Floats
    """Mean slope of r in each coordinate, in nats per sd of q."""
    curvature: Floats
    """Mean second derivative: positive where q is too narrow."""
    cubic: Floats
    quartic: Floats
    """Mean fourth derivative: positive where p has the heavier tails."""
    of_slope: float
    of_curvature: float
    of_correlation: float
    of_skewness: float
    of_heavy_tails: float
    funnels: tuple[Funnel, ...]
    correlated: Floats
    """How much each coordinate takes part in correlations: the sum of its squared coefficients."""


class _Slopes(NamedTuple):
    """Arrays of shape ``(n, d)`` whose means, times what is left of a term, are coefficients."""

    first: Floats
    second: Floats
    third: Floats
    fourth: Floats


class _Half(NamedTuple):
    """Half of the draws, with their slopes."""

    e: Floats
    first: Floats
    second: Floats
    third: Floats
    fourth: Floats


class _Found(NamedTuple):
    """A funnel before it is known what it accounts for."""

    scales: Ints
    locations: Ints
    sign: int
    rate: float
    """By how much of itself the curvature of a location changes per sd of the scale."""
    of_alone: float
    """Part of the terms of the scales alone that comes from the same product."""


def ratio_terms(e: Floats, ratios: Floats, slopes: Floats | None, groups: Ints) -> RatioTerms:
    """Say what log ratios are made of.

    Parameters
    ----------
    e
        Draws in units of q, shape ``(S, d)``: standard normal, as far as can be.
    ratios
        Their log ratios, centred and with extremes compressed.
    slopes
        Derivatives of these by ``e``. Without them coefficients come from products of draws and
        ratios, with far more noise: pairs are then only found in few dimensions.
    groups
        Which parameter each coordinate belongs to: scales of one parameter are one funnel.
    """
    half = len(e) // 2
    parts = (slice(0, half), slice(half, 2 * half))
    e, ratios = e[: 2 * half], ratios[: 2 * half]
    of_draws = _slopes(e, ratios, slopes)
    halves = [_Half(e[part], *(each[part] for each in of_draws)) for part in parts]
    cross, scaling, evens = _crossed(halves, _by_pairs)
    found = _funnels(e, ratios, of_draws, scaling, groups)
    columns: dict[str, Floats] = {}
    for number, funnel in enumerate(found):
        pairs, triples, of_evens = _crossed(halves, partial(_of_funnel, funnel=funnel))
        cross, evens = cross - pairs, evens - of_evens
        terms = (scaling[funnel.scales].sum(axis=0), pairs, triples, of_evens)
        columns |= {f"{kind} {number}": each for kind, each in zip(_KINDS, terms, strict=True)}
    means = _Slopes(*(each.mean(axis=0) for each in of_draws))
    alone = np.zeros(e.shape[1], bool)
    alone[[k for funnel in found for k in funnel.scales]] = True
    single = _crossed(halves, partial(_by_coordinate, alone=alone, tailed=means.fourth > 0.0))
    columns |= dict(zip(_SINGLE, single, strict=True)) | {"cross": cross, "evens": evens}
    radial = np.square(np.square(e).sum(axis=1) - e.shape[1])
    if e.shape[1] > 1:
        columns["radial"] = radial
    share = _shares(columns, ratios)
    correlated = _correlated(halves)
    if share["cross"] > 0.0:
        # With more coordinates than draws, noise in d^2 coefficients hides what they predict; the
        # sum of their squares is known without bias all the same.
        whole = 0.5 * correlated.sum() / max(float(np.square(ratios).mean()), 1e-300)
        whole -= sum(share[f"pairs {number}"] for number in range(len(found)))
        left = 1.0 - sum(each for name, each in share.items() if name != "cross")
        share["cross"] = max(share["cross"], min(float(whole), left))
    if np.cov(evens, radial)[0, 1] < 0.0:
        share["evens"] = 0.0  # lighter tails than q's do no harm
    funnels = []
    for number, funnel in enumerate(found):
        total = sum(share[f"{kind} {number}"] for kind in _KINDS)
        for kind, part in (("cross", _part_of_cross(halves, funnel)), ("alone", funnel.of_alone)):
            total += part * share[kind]
            share[kind] *= 1.0 - part
        funnels.append(Funnel(funnel.scales, funnel.locations, funnel.sign, _within(total)))
    # What makes one tail heavier makes the other one lighter.
    light = share["light"] if share["light"] < share["skew"] else 0.0
    return RatioTerms(
        num_draws=2 * half,
        sd=float(ratios.std()),
        slope=means.first,
        curvature=means.second,
        cubic=means.third,
        quartic=means.fourth,
        of_slope=_within(share["slope"]),
        of_curvature=_within(share["curvature"]),
        of_correlation=_within(share["cross"]),
        of_skewness=_within(share["skew"] + share["alone"] + light),
        of_heavy_tails=_within(share["tails"] + share["evens"] + share.get("radial", 0.0)),
        funnels=tuple(sorted(funnels, key=lambda each: -each.share)),
        correlated=correlated,
    )


def _crossed(halves: list[_Half], predict: Callable[[_Half, Floats], Sequence[Floats]]) -> Any:
    """Predict the first half of the draws by the second, and the second by the first."""
    first, second = halves
    both = zip(predict(second, first.e), predict(first, second.e), strict=True)
    return [np.concatenate(each, axis=-1) for each in both]


def _within(share: float) -> float:
    return float(np.clip(share, 0.0, 1.0))


def _slopes(e: Floats, ratios: Floats, slopes: Floats | None) -> _Slopes:
    """Return what Hermite coefficients are means of, from slopes or from the ratios alone."""
    if slopes is not None:
        second = np.square(e) - 1.0
        return _Slopes(slopes, e * slopes, second * slopes, (e**3 - 3.0 * e) * slopes)
    r = ratios[:, None]
    return _Slopes(
        r * e,
        r * (np.square(e) - 1.0),
        r * (e**3 - 3.0 * e),
        r * (e**4 - 6.0 * np.square(e) + 3.0),
    )


def _are_few(half: _Half) -> bool:
    """Whether a matrix of all pairs of coordinates is cheaper than one of all pairs of draws."""
    return 1 < half.e.shape[1] <= len(half.e) // 4


def _squared(matrix: Floats, at: Floats) -> Floats:
    """Return the value of a quadratic form in each row."""
    return np.asarray(((at @ matrix) * at).sum(axis=1))


def _by_pairs(half: _Half, at: Floats) -> tuple[Floats, Floats, Floats]:
    """Return what terms of two coordinates predict at other draws, shape ``(n,)`` or ``(d, n)``.

    These are e_i e_j; e_k (e_i^2 - 1), by k; and (e_i^2 - 1) (e_j^2 - 1).
    """
    e, count = half.e, len(half.e)
    squares = np.square(e) - 1.0
    own = half.second.mean(axis=0)
    own_scaling = (e * half.second).mean(axis=0)
    own_even = (squares * half.second).mean(axis=0)
    if _are_few(half):
        even = np.square(at) - 1.0
        cross = _squared(e.T @ half.first / count, at) - np.square(at) @ own
        scaling = (e.T @ half.second / count) @ even.T - own_scaling[:, None] * even.T
        both = _squared(squares.T @ half.second / count, even) - np.square(even) @ own_even
        return 0.5 * cross, 0.5 * at.T * scaling, 0.125 * both
    crosses, scalings, evens = [], [], []
    for start in range(0, len(at), _BLOCK):
        there = at[start : start + _BLOCK]
        even = np.square(there) - 1.0
        inner = (e @ there.T) * (half.first @ there.T)
        crosses.append(0.5 * (inner.mean(axis=0) - np.square(there) @ own))
        stretch = half.second @ even.T
        scalings.append(0.5 * there.T * (e.T @ stretch / count - own_scaling[:, None] * even.T))
        inner = (squares @ even.T) * stretch
        evens.append(0.125 * (inner.mean(axis=0) - np.square(even) @ own_even))
    return np.concatenate(crosses), np.concatenate(scalings, axis=1), np.concatenate(evens)


def _of_funnel(half: _Half, at: Floats, funnel: _Found) -> tuple[Floats, Floats, Floats]:
    """Return what e_k e_i, e_k e_i e_j, and (e_k^2 - 1) (e_i^2 - 1) predict for its scales k."""
    e, count = half.e, len(half.e)
    pairs, triples, evens = np.zeros((3, len(at)))
    even = np.square(at) - 1.0
    where = funnel.locations
    for k in funnel.scales:
        of_k, at_k = e[:, k], at[:, k]
        both = of_k @ half.first[:, where] + half.first[:, k] @ e[:, where]
        pairs += at_k * (at[:, where] @ both) / (2 * count)
        changes = (np.square(of_k) - 1.0) @ half.second / count
        changes[k] = 0.0
        evens += 0.25 * even[:, k] * (even @ changes)
        own = of_k @ half.second / count
        own[k] = 0.0
        triples -= 0.5 * at_k * (np.square(at) @ own)
        if _are_few(half):
            others = np.where(np.arange(e.shape[1]) == k, 0.0, at)
            triples += 0.5 * at_k * _squared((e.T * of_k) @ half.first / count, others)
    if _are_few(half):
        return pairs, triples, evens
    for start in range(0, len(at), _BLOCK):
        some = slice(start, start + _BLOCK)
        inner, outer = e @ at[some].T, half.first @ at[some].T
        for k in funnel.scales:
            of_k, at_k = e[:, k], at[some, k]
            others = (inner - np.outer(of_k, at_k)) * (outer - np.outer(half.first[:, k], at_k))
            triples[some] += 0.5 * at_k * (of_k @ others) / count
    return pairs, triples, evens


def _by_coordinate(half: _Half, at: Floats, alone: Bools, tailed: Bools) -> list[Floats]:
    """Return what terms of one coordinate predict, in the order of ``_SINGLE``."""
    cubic = (at**3 - 3.0 * at) * (half.third.mean(axis=0) / 6.0)
    quartic = (at**4 - 6.0 * np.square(at) + 3.0) * (half.fourth.mean(axis=0) / 24.0)
    return [
        at @ half.first.mean(axis=0),
        0.5 * (np.square(at) - 1.0) @ half.second.mean(axis=0),
        cubic[:, ~alone].sum(axis=1),
        quartic[:, tailed].sum(axis=1),
        quartic[:, ~tailed].sum(axis=1),
        cubic[:, alone].sum(axis=1),
    ]


def _funnels(
    e: Floats, ratios: Floats, slopes: _Slopes, scaling: Floats, groups: Ints
) -> list[_Found]:
    """Return the groups of scales whose scale-by-location terms predict most."""
    if e.shape[1] < 2:
        return []
    predicted = scaling @ ratios / len(e)
    found = []
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        members = members[np.argsort(-predicted[members], kind="stable")][:_MOST_SCALES]
        members = members[predicted[members] > _ALIKE * predicted[members[0]]]
        together = scaling[members].sum(axis=0) * ratios
        share = float(together.mean() / max(np.square(ratios).mean(), 1e-300))
        if together.mean() > _SURE * together.std() / np.sqrt(len(e)) and share > _LEAST_FUNNEL:
            found.append((share, members))
    found.sort(key=lambda each: -each[0])
    described = [_described(e, slopes, members, groups) for _, members in found[:_MOST_FUNNELS]]
    return [funnel for funnel in described if len(funnel.locations)]


def _described(e: Floats, slopes: _Slopes, scales: Ints, groups: Ints) -> _Found:
    """Return which coordinates have a curvature that changes with some scales, and how."""
    dim = e.shape[1]
    strength, sign, rate, alone = np.zeros(dim), 0.0, np.zeros(2), np.zeros(2)
    for k in scales:
        products = e[:, k, None] * slopes.second
        change, error = products.mean(axis=0), products.std(axis=0) / np.sqrt(len(e))
        further = (np.square(e[:, k]) - 1.0) @ slopes.second / len(e)
        sure = np.abs(change) > 3.0 * error
        sure[scales] = False
        strength[sure] += np.square(change[sure])
        sign += (change * np.abs(change))[sure].sum()
        size = max(float(np.square(change[sure]).sum()), 1e-300)
        speed = abs(float(further[sure] @ change[sure])) / size
        rate += speed * size, size
        # A curvature that changes exponentially has third derivatives in proportion. Compressed
        # ratios change more slowly: what is implied is 0.5 to 0.6 of what is there in funnels.
        implied = 0.5 * speed**2 * change[sure].sum()
        cubic = float(slopes.third[:, k].mean())
        part = np.clip(2.0 * implied / cubic, 0.0, 1.0) if cubic else 0.0
        alone += abs(cubic) * part, abs(cubic)
    by_group = np.bincount(groups, strength)[groups]
    chosen = (strength > _ALIKE**2 * strength.max()) & (by_group > 0.5 * by_group.max())
    order = np.argsort(-by_group, kind="stable")
    return _Found(
        scales,
        order[chosen[order]],
        1 if sign > 0.0 else -1,
        float(rate[0] / rate[1]),
        float(alone[0] / alone[1]) if alone[1] else 0.0,
    )


def _part_of_cross(halves: list[_Half], funnel: _Found) -> float:
    """Return the part of all correlations that come and go with the first scale of a funnel.

    The matrix of correlations, and that of their changes with the scale, are compared without their
    diagonals: by the square of their cosine, estimated from two halves without bias. Correlations
    that belong to the funnel change at the rate at which its curvatures do.
    """
    one, two = halves
    scale = funnel.scales[0]
    keep = np.arange(one.e.shape[1]) != scale
    sizes = len(one.e), len(two.e)
    few = _are_few(one)
    inner: Any = None
    if not few:
        inner = (one.e[:, keep] @ two.e[:, keep].T) * (one.first[:, keep] @ two.first[:, keep].T)

    def product(a: Floats, b: Floats) -> float:
        own = (a @ one.second[:, keep]) * (b @ two.second[:, keep])
        if few:
            of_a, of_b = (
                (half.e[:, keep].T * by) @ half.first[:, keep] for half, by in ((one, a), (two, b))
            )
            whole = (of_a * of_b).sum()
        else:
            whole = a @ inner @ b
        return float(whole - own.sum()) / (sizes[0] * sizes[1])

    ones, of_one, of_two = np.ones(sizes[0]), one.e[:, scale], two.e[:, scale]
    still, changing = product(ones, ones), product(of_one, of_two)
    if still <= 0.0 or changing <= np.square(_SAME * funnel.rate) * still:
        return 0.0
    both = 0.5 * (product(ones, of_two) + product(of_one, ones))
    return float(min(1.0, both**2 / (still * changing)))


def _correlated(halves: list[_Half]) -> Floats:
    """Return the sum over j of the squared coefficients of e_i e_j, for each i, without bias."""
    one, two = halves
    if _are_few(one):
        of_one, of_two = (half.e.T @ half.first / len(half.e) for half in halves)
        total = (of_one * of_two).sum(axis=0)
    else:
        inner = one.e @ two.e.T / (len(one.e) * len(two.e))
        total = (one.first * (inner @ two.first)).sum(axis=0)
    return np.asarray(total - one.second.mean(axis=0) * two.second.mean(axis=0))


def _shares(columns: dict[str, Floats], ratios: Floats) -> dict[str, float]:
    """Regress the log ratios on what terms predict; return what each accounts for of R squared.

    A prediction that is not sure to help is left out: it would only take from others.
    """
    names = list(columns)
    matrix = np.stack([columns[name] for name in names], axis=1)
    matrix = matrix - matrix.mean(axis=0)
    sd = matrix.std(axis=0)
    matrix = matrix / np.where(sd > 0.0, sd, 1.0)
    ratios = ratios - ratios.mean()
    gram = matrix.T @ matrix
    weights = np.linalg.lstsq(gram, matrix.T @ ratios, rcond=1e-10)[0]
    inverse = np.linalg.pinv(gram, rcond=1e-10)
    left = ratios - matrix @ weights
    spread = inverse @ (matrix.T * np.square(left)) @ matrix @ inverse
    error = np.sqrt(np.maximum(np.diagonal(spread), 0.0))
    shares = weights * (matrix.T @ ratios) / max(float(ratios @ ratios), 1e-300)
    shares = np.where(np.abs(weights) > 3.0 * error, np.maximum(shares, 0.0), 0.0)
    return dict(zip(names, shares.tolist(), strict=True))
