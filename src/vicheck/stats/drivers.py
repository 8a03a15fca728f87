"""Which coordinates the widths of others depend on, read off gradients at draws of a normal.

In a hierarchical model a few coordinates (scales of groups, noise) decide how far others spread,
and given these few the others are nearly normal. Here they are found whatever they are called.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["find_drivers"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_LEAST_ERRORS = 4.0
"""Standard errors by which a change of curvature has to differ from zero to count."""
_LEAST_PART = 0.05
"""Of what the strongest driver does: what does less is none."""
_MOST_DRIVERS = 6
_LARGEST = 5.0
"""A gradient differs by no more than so many units from that of the normal, so that no draw far out
decides alone."""


def find_drivers(z: Floats, gradients: Floats, mean: Floats, covariance: Floats) -> Ints:
    """Return the coordinates by which the curvature along others changes, the strongest first.

    The mean over a normal of the derivative of the curvature along a, with respect to b, is by
    Stein's lemma that of ``(g_a + v_a) v_a v_b``, where v is the gradient of the normal with
    its sign changed (up to a term that vanishes where the normal is optimal). A driver is a b that
    changes many, or some by much; a is measured by its conditional sd and b by its marginal one.
    What changes the curvature along drivers alone, as the steps of a walk do that of their scale,
    is none itself: given the drivers that curvature does not matter.

    Parameters
    ----------
    z, gradients
        Draws of the normal, shape ``(n, d)``, and gradients of the log density there.
    mean, covariance
        Of the normal.
    """
    precision = np.linalg.inv(covariance)
    curvature, sd = np.sqrt(np.diagonal(precision)), np.sqrt(np.diagonal(covariance))
    v = (z - mean) @ precision
    along = np.clip((gradients + v) / curvature, -_LARGEST, _LARGEST) * (v / curvature)
    across = v * sd
    changes = along.T @ across / len(z)
    spread = np.square(along).T @ np.square(across) / len(z) - np.square(changes)
    errors = np.sqrt(np.maximum(spread, 0.0) / len(z))
    changes = np.where(np.abs(changes) > _LEAST_ERRORS * errors, changes, 0.0)
    np.fill_diagonal(changes, 0.0)
    left, least = np.square(changes), 0.0
    found: list[int] = []
    while len(found) < min(_MOST_DRIVERS, len(mean) - 1):
        strength = left.sum(axis=0)
        strongest = int(strength.argmax())
        if strength[strongest] <= least:
            break
        found.append(strongest)
        least = max(least, _LEAST_PART * strength[strongest])
        left[strongest], left[:, strongest] = 0.0, 0.0
    return np.array(found, np.intp)
