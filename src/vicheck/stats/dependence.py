"""Which pairs of quantities depend on each other differently under the posterior than under q.

Each quantity is turned into normal scores by its ranks among the draws of q, so that the answer is
the same on any monotone scale. The first two Hermite polynomials of the scores, h1(z) = z and
h2(z) = (z^2 - 1) / sqrt(2), are a coordinate and its spread: a covariance of h1 with h1 is a
correlation, one of h1 with h2 a funnel, one of h2 with h2 a common scale.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["PairShift", "pair_shifts"]

Floats = NDArray[np.float64]

_NEGLIGIBLE = -100.0
"""Log weights below this change nothing, but processors are slow with numbers that small."""


class PairShift(NamedTuple):
    """Two columns, and how much the weights change their dependence."""

    first: int
    second: int
    size: float
    """Largest change of a covariance of Hermite polynomials, which have unit variance under q."""


def pair_shifts(values: Floats, log_weights: Floats) -> list[PairShift]:
    """Rank pairs of quantities by how much the weights change their dependence, largest first.

    Parameters
    ----------
    values
        Draws from q, shape ``(S, Q)``. Columns that are constant or not finite are left out.
    log_weights
        Normalised log weights of the draws.

    Examples
    --------
    >>> z = np.random.default_rng(1).normal(size=(4000, 3))
    >>> log_ratios = -0.5 * (z[:, 2] / np.exp(z[:, 0])) ** 2 - z[:, 0]     # a funnel in 0 and 2
    >>> log_weights = log_ratios - np.logaddexp.reduce(log_ratios)
    >>> pair_shifts(z, log_weights)[0][:2]
    (0, 2)
    """
    with np.errstate(invalid="ignore", over="ignore"):
        spread = values.max(axis=0) - values.min(axis=0)
    columns = np.flatnonzero(np.isfinite(spread) & (spread > 0.0))
    if columns.size < 2 or np.isnan(log_weights).any():
        return []
    scores = _normal_scores(values[:, columns])
    features = np.concatenate([scores, (scores**2 - 1.0) / np.sqrt(2.0)], axis=1)
    weights = np.exp(np.where(log_weights > _NEGLIGIBLE, log_weights, -np.inf))
    weighted = _covariance(features, weights)
    plain = _covariance(features, np.full(len(values), 1.0 / len(values)))
    size = columns.size
    change = np.abs(weighted - plain).reshape(2, size, 2, size).max(axis=(0, 2))
    first, second = np.triu_indices(size, 1)
    order = np.argsort(-change[first, second], kind="stable")
    return [
        PairShift(int(columns[a]), int(columns[b]), float(change[a, b]))
        for a, b in zip(first[order], second[order], strict=True)
    ]


def _normal_scores(values: Floats) -> Floats:
    from scipy.special import ndtri

    ranks = np.empty_like(values)
    steps = (np.arange(len(values)) + 0.5) / len(values)
    np.put_along_axis(ranks, values.argsort(axis=0, kind="stable"), steps[:, None], axis=0)
    return np.asarray(ndtri(ranks))


def _covariance(features: Floats, weights: Floats) -> Floats:
    mean = weights @ features
    return (features * weights[:, None]).T @ features - np.outer(mean, mean)
