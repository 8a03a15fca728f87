"""Modes that are the same except for the order of components, or for signs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from vicheck.model import Model

__all__ = ["describe_symmetry"]

Floats = NDArray[np.float64]

_SAME_HEIGHT = 0.1
"""Nats by which the densities of modes that are copies of each other may differ."""
_SAME_VALUE = 0.01
"""Difference of their parameters, relative to the largest of them."""
_MOST_COMPONENTS = 6
"""Orders of more components are too many to be tried."""


def describe_symmetry(model: Model, z: Floats, log_p: Floats) -> str:
    """Say what turns one mode into another, as the end of a sentence; empty where nothing does."""
    for first in range(len(z)):
        for second in range(first + 1, len(z)):
            if abs(log_p[first] - log_p[second]) < _SAME_HEIGHT:
                both = model.constrain(z[[first, second]])
                theta = {name: both[name] for name, _ in model.program.layout}
                found = _reordered(theta) or _negated(theta)
                if found:
                    return found
    return ""


def _reordered(theta: Mapping[str, Floats]) -> str:
    """Recognise parameters whose components come in another order, the same for all of them."""
    sizes = {array.shape[1] for array in theta.values() if array.ndim > 1}
    for size in sorted(size for size in sizes if 2 <= size <= _MOST_COMPONENTS):
        axes = {
            name: array
            for name, array in theta.items()
            if array.ndim > 1 and array.shape[1] == size
        }
        rest = [array for name, array in theta.items() if name not in axes]
        if not all(_equal(a[0], a[1], a) or (size == 2 and _is_other_share(a)) for a in rest):
            continue
        for order in permutations(range(size)):
            moved = [name for name, a in axes.items() if not _equal(a[0], a[1], a)]
            if moved and all(_equal(a[0][list(order)], a[1], a) for a in axes.values()):
                return f"the order of the components of {_listed(moved)}"
    return ""


def _negated(theta: Mapping[str, Floats]) -> str:
    """Recognise parameters that have the other sign."""
    moved = [name for name, a in theta.items() if not _equal(a[0], a[1], a)]
    same = all(_equal(np.abs(a[0]), np.abs(a[1]), a) for a in theta.values())
    return f"the sign of {_listed(moved)}" if moved and same else ""


def _equal(one: Floats, other: Floats, scale_of: Floats) -> bool:
    tolerance = _SAME_VALUE * float(np.abs(scale_of).max(initial=0.0))
    return bool(np.abs(one - other).max(initial=0.0) <= tolerance)


def _is_other_share(share: Floats) -> bool:
    """Whether p has become 1 - p: the share of the first of two components."""
    return share[0].size == 1 and bool(np.abs(share[0] + share[1] - 1.0).max() < _SAME_VALUE)


def _listed(names: list[str]) -> str:
    return " and ".join(", ".join(names).rsplit(", ", 1))
