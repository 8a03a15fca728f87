"""Quantiles of weighted draws, with their Monte Carlo errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicheck.results.estimates import QuantileEstimate
from vicheck.stats.columns import for_each_block
from vicheck.stats.estimates import draws_and_weights, unwrapped

__all__ = ["Quantiles", "quantiles", "weighted_quantiles"]

Floats = NDArray[np.float64]

_SLIGHTLY = 1e-12
"""By which a sum of weights that should equal a probability may fall short of it."""


class Quantiles(NamedTuple):
    """A row for each probability and a column for each quantity."""

    plain: Floats
    """Quantiles of the draws as they are, with equal weights."""
    weighted: Floats
    mcse: Floats
    """Monte Carlo standard error of ``weighted``; infinite where too few draws lie beyond it."""


def quantiles(
    values: ArrayLike, log_weights: ArrayLike, probabilities: ArrayLike
) -> QuantileEstimate:
    """Estimate quantiles of quantities from weighted draws.

    Parameters
    ----------
    values, log_weights
        As in `expectation`.
    probabilities
        Probabilities of the quantiles, shape ``(P,)`` or a single number.

    Returns
    -------
    QuantileEstimate
        ``value`` and ``mcse``, with the dimension of ``probabilities`` first.

    Notes ----- The quantile is the smallest value whose cumulative weight reaches the probability.
    Its error is half the distance between the quantiles one standard error of that cumulative
    weight below and above; it is infinite where one of these would lie beyond all draws.

    Examples
    --------
    >>> import numpy as np
    >>> from vicheck.stats.estimates import plain_log_weights
    >>> theta = np.random.default_rng(1).normal(size=10_000)
    >>> median = quantiles(theta, plain_log_weights(10_000), 0.5)
    >>> bool(abs(median.value) < 3 * median.mcse)
    True
    """
    h, weights = draws_and_weights(values, log_weights)
    probs = np.asarray(probabilities, dtype=np.float64)
    if not ((probs >= 0.0) & (probs <= 1.0)).all():
        raise ValueError(f"probabilities must lie between 0 and 1, got {probs.tolist()}")
    if h.size == 0:
        raise ValueError(f"values must hold at least one quantity, got shape {h.shape}")
    found = weighted_quantiles(h.reshape(len(h), -1), weights, probs.ravel())
    shape = (*probs.shape, *h.shape[1:])
    value, mcse = (unwrapped(part.reshape(shape)) for part in found[1:])
    return QuantileEstimate(value, mcse)


def weighted_quantiles(
    values: Floats, weights: Floats, probabilities: Floats, unseen: float = 0.0
) -> Quantiles:
    """Return quantiles of each column, by equal weights and by the ones that are given.

    Parameters
    ----------
    values
        Quantities, shape ``(S, Q)``.
    weights
        Of the draws, shape ``(S,)``: they sum to 1. Draws of weight zero do not count among the
        weighted ones, whatever their value.
    probabilities
        Shape ``(P,)``.
    unseen
        How many times the largest weight is missing from a sum of weights
        (`vicheck.stats.unseen.unseen_multiple`). The error of a cumulative weight is larger by it.

    Notes
    -----
    Each column is sorted once. With F the cumulative weight at the quantile of p, the squared
    error of F is (1 - p)^2 sum w^2 over the draws up to it plus p^2 sum w^2 over the others: the
    delta method for the mean of an indicator.
    """
    found = np.empty((3, len(probabilities), values.shape[1]))

    def work(block: slice, rows: Floats) -> None:
        for column, row in enumerate(rows, block.start):
            found[:, :, column] = _of_row(row, weights, probabilities, unseen)

    for_each_block(values, work)
    return Quantiles(*found)


def _of_row(row: Floats, weights: Floats, probs: Floats, unseen: float) -> Floats:
    """Return plain quantiles, weighted ones and the errors of these, shape ``(3, P)``."""
    size, unknown = len(row), np.full(len(probs), np.nan)
    order = np.argsort(row)
    ordered, w = row[order], weights[order]
    plain = ordered[_place(probs * size - size * _SLIGHTLY, size)]
    if np.isnan(ordered[-1]):  # NaN comes last
        plain = unknown
    counted = w > 0.0
    if not counted.all():
        ordered, w = ordered[counted], w[counted]
    if not w.size or np.isnan(ordered[-1]) or np.isnan(weights).any():
        return np.stack([plain, unknown, unknown])
    return np.stack([plain, *_weighted(ordered, w, probs, unseen)])


def _weighted(ordered: Floats, w: Floats, probs: Floats, unseen: float) -> tuple[Floats, Floats]:
    """Return quantiles of sorted draws, all with a weight, and their errors."""
    end = len(w) - 1
    with np.errstate(under="ignore", invalid="ignore"):
        total, squares = np.cumsum(w), np.cumsum(w * w)

        def place(at: Floats) -> NDArray[np.int64]:
            found = np.searchsorted(total, np.clip(at - _SLIGHTLY, 0.0, 1.0))
            return np.asarray(np.minimum(found, end))

        at = place(probs)
        last = np.searchsorted(ordered, ordered[at], side="right") - 1
        beyond = np.maximum(squares[-1] - squares[last], 0.0)
        error = np.sqrt((1.0 - probs) ** 2 * squares[last] + probs**2 * beyond)
        if unseen:
            below = np.array([w[: each + 1].max() for each in last])
            above = np.array([w[each + 1 :].max(initial=0.0) for each in last])
            error = np.hypot(error, unseen * ((1.0 - probs) * below - probs * above))
        # A draw that outweighs its error is no more exact than the distance to its neighbours.
        low = np.minimum(place(probs - error), np.maximum(at - 1, 0))
        high = np.maximum(place(probs + error), np.minimum(at + 1, end))
        mcse = 0.5 * (ordered[high] - ordered[low])
    within = (probs - error >= 0.0) & (probs + error <= 1.0)
    settled = within | (probs == 0.0) | (probs == 1.0) | (ordered[0] == ordered[-1])
    return ordered[at], np.where(settled, mcse, np.inf)


def _place(count: Floats, size: int) -> NDArray[np.int64]:
    """Return which of the sorted draws is the smallest that at least so many do not exceed."""
    return np.clip(np.ceil(count).astype(np.int64) - 1, 0, size - 1)
