"""Whether draws that follow each other are alike, as those of a Markov chain are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["likeness_of_neighbours"]

Floats = NDArray[np.float64]

_GROUP = 8
"""Draws in a row whose mean is looked at."""
_BLOCK = 64
"""Draws in a row that are compared with each other only: draws may come from one component of q
after the other."""
_LEAST_BLOCKS = 4


def likeness_of_neighbours(series: Floats) -> float:
    """Return how much more the means of eight draws in a row vary than of independent draws.

    The median over blocks of 64 draws of the F statistic between groups of eight and within them,
    computed from ranks: about 1 for independent draws, less for points that are spread evenly, 3
    for an autoregression of 0.5 and 15 for one of 0.9. NaN for fewer than 256 draws, or when all
    are equal.

    Examples
    --------
    >>> import numpy as np
    >>> steps = np.random.default_rng(1).normal(size=10_000)
    >>> likeness_of_neighbours(steps) < 1.5 < 10.0 < likeness_of_neighbours(steps.cumsum())
    True
    """
    num_blocks = len(series) // _BLOCK
    if num_blocks < _LEAST_BLOCKS:
        return float("nan")
    # Equal numbers have equal ranks, or their order would make them alike.
    _, ranks = np.unique(series[: num_blocks * _BLOCK], return_inverse=True)
    groups = ranks.astype(np.float64).reshape(num_blocks, -1, _GROUP)
    means = groups.mean(axis=2)
    num_groups = means.shape[1]
    between = _GROUP * np.square(means - means.mean(axis=1, keepdims=True)).sum(axis=1)
    within = np.square(groups - means[..., None]).sum(axis=(1, 2))
    varies = between + within > 0.0
    if not varies.any():
        return float("nan")
    with np.errstate(divide="ignore"):
        ratio = between[varies] / (num_groups - 1) / (within[varies] / (_BLOCK - num_groups))
    return float(np.median(ratio))
