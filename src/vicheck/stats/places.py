"""Places at which to look at a function of a few coordinates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["far_apart", "strewn"]

Floats = NDArray[np.float64]

_FARTHEST = 3.0
_OUTWARD = 1.5
"""Added to the squared distances of normal draws, because there are places in the middle anyway."""


def strewn(count: int, dim: int, rng: np.random.Generator) -> Floats:
    """Return places around zero, which is one of them, as far out as normal draws, evenly."""
    if dim == 1:
        return np.linspace(-_FARTHEST, _FARTHEST, count)[:, None]
    from scipy.stats import chi2, norm, qmc

    uniform = qmc.Sobol(dim + 1, rng=rng).random_base2(count.bit_length())[:count]
    directions = norm.ppf(uniform[:, :dim])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    places = directions * np.sqrt(_OUTWARD + chi2.ppf(uniform[:, dim:], dim))
    places[0] = 0.0
    return np.asarray(places)


def far_apart(pool: Floats, known: Floats, count: int, least: float) -> Floats:
    """Return rows of a pool that are far from those known, and from each other.

    The farthest first; fewer than asked for if no other is farther than the least distance.
    """
    distance = np.linalg.norm(pool[:, None] - known, axis=2).min(axis=1)
    chosen: list[int] = []
    while len(chosen) < count and distance.max() >= least:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(pool - pool[chosen[-1]], axis=1))
    return pool[np.array(chosen, np.intp)]
