"""Geweke's split t: a t with two scales along each of its axes, read off the density."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vicheck.stats.t_mixtures import TMixture, single_t

__all__ = ["split_t"]

Floats = NDArray[np.float64]

_REACHES = np.array([0.5, 1.0, 2.0, 3.0, 4.0])
"""Sds at which the density is looked at along each axis."""
_NARROWEST, _LARGEST = 0.4, 4.0
"""Factors by which one side may differ from the scale of q."""


def split_t(log_density: Callable[[Floats], Floats], around: TMixture) -> TMixture:
    """Return a t, or a normal, that is split along its axes by the density along each of them.

    The scale on one side is the largest at which a normal is as low as the density somewhere on
    that side, for each distance that is looked at (Geweke 1989, equation 4).
    """
    loc, root = around.locs[0], around.roots[0]
    dim = len(loc)
    away = np.concatenate([_REACHES, -_REACHES])
    steps = (away[:, None, None] * np.eye(dim)).reshape(-1, dim)
    heights = log_density(np.concatenate([loc[None], loc + steps @ root.T]))
    drops = np.maximum(heights[0] - heights[1:], 1e-6).reshape(len(away), dim)
    scales = np.abs(away)[:, None] / np.sqrt(2.0 * drops)
    up, down = (
        np.clip(side.max(axis=0), _NARROWEST, _LARGEST)
        for side in (scales[: len(_REACHES)], scales[len(_REACHES) :])
    )
    return single_t(loc, root, float(around.dfs[0]), up, down)
