"""Whether a density ends at all: one that falls off as 1 / |x| belongs to no distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vicheck.vi.density import Density
from vicheck.vi.modes.place import Place

__all__ = ["endless_coordinate"]

Floats = NDArray[np.float64]

_FAR = (1e4, 3e5)
"""Sds from the approximation's mean at which tails are looked at; at one there may be a mode."""
_STEEP = 1.01
"""Power of 1 / |x| from which on a tail ends; that of the heaviest tails in use, Cauchy's, is 2."""
_TOO_LOW = 20.0
"""Nats by which a tail holds less than the approximation, per unit of log |x|, to be passed over:
so far away, more than that changes an sd."""
_MOST_COORDINATES = 100
"""In more dimensions it would take too many evaluations."""


def endless_coordinate(density: Density, place: Place) -> int | None:
    """Return the coordinate along which a density falls off no faster than 1 / |x|, or None.

    On the line through the approximation's mean, on both sides. Where the density on such a line
    has no integral, it has none in all of space either, but for lines that happen to be special.
    """
    dim = len(place.mean)
    if dim > _MOST_COORDINATES:
        return None
    rays = np.concatenate([np.diag(place.sd), -np.diag(place.sd)])
    steps = np.concatenate([far * rays for far in _FAR])
    points = np.concatenate([place.mean + steps, place.mean[None]])
    values, gradients = (part[0] for part in density(np.zeros(1, np.intp), points[None]))
    with np.errstate(invalid="ignore"):
        powers = -(steps * gradients[:-1]).sum(axis=1)
        heights = values[:-1] - values[-1] + np.repeat(np.log(_FAR), 2 * dim)
        endless = (powers < _STEEP) & (heights > -_TOO_LOW) & np.isfinite(heights)
    rows = np.flatnonzero(endless.reshape(len(_FAR), -1).all(axis=0))
    return int(rows[0] % dim) if len(rows) else None
