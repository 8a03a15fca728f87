"""Normals of most coordinates given the others: where their density is highest, and how it falls.

Laplace's method, for many places of the few coordinates at a time (Tierney and Kadane 1986; Rue,
Martino and Chopin 2009). Steps are Newton's, with a curvature that is kept while it works. It is
measured along axes in which it is nearly one, so that it is accurate however narrow the neck of a
funnel is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.vi.density import Density

__all__ = ["Normals", "normals_given"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_STEPS, _CUTS = 40, 8
_ARRIVED = 0.01
"""Sds from the top within which a climb ends."""
_LOST = 0.05
_LONGEST = 30.0
"""Of a step, in sds."""
_SLOW = 0.3
"""A step that leaves more than this of the way has a wrong curvature."""
_SLOW_STEPS = 2
_WIDTH = 1e-3
"""Of differences of gradients, in sds."""
_FLATTEST = 1e-4
"""Of the curvature there was, while climbing."""
_WRONG = 2.0
"""Log of a factor by which the curvature may differ from where its axes were taken."""
_AGAIN = 2
"""Times that it is measured again where it differs by more."""


class Normals(NamedTuple):
    """The other coordinates as normals, each given one place of a few."""

    drivers: Floats
    """The places, shape ``(n, k)``."""
    means: Floats
    """Shape ``(n, r)``."""
    roots: Floats
    """Lower roots of precisions, shape ``(n, r, r)``."""
    log_masses: Floats
    """Logs of what the density, as the normal, integrates to, but for a constant."""

    def beside(self, more: Normals) -> Normals:
        """Return these and more of them."""
        return Normals(*(np.concatenate(pair) for pair in zip(self, more, strict=True)))


def normals_given(
    density: Density, which: Ints, drivers: Floats, means: Floats, roots: Floats
) -> tuple[Normals, NDArray[np.bool_]]:
    """Find normals given places of the drivers, from guesses, and say where there are any.

    Parameters
    ----------
    density
        Of one set of data.
    which
        The coordinates that are drivers, shape ``(k,)``.
    drivers, means, roots
        Places, shape ``(n, k)``, and guesses at the others.
    """
    others = np.setdiff1d(np.arange(density.dim), which)
    z = np.empty((len(drivers), density.dim))
    z[:, which], z[:, others] = drivers, means
    with np.errstate(all="ignore"):
        z, heights, left, roots = _climbed(density, z, others, roots)
        roots, least = _measured(density, z, others, roots)
        found = np.isfinite(heights) & (left < _LOST) & (least > _FLATTEST)
    roots, heights = roots[found], heights[found]
    log_masses = heights - np.log(np.einsum("nii->ni", roots)).sum(axis=1)
    return Normals(drivers[found], z[found][:, others], roots, log_masses), found


def _climbed(
    density: Density, z: Floats, others: Ints, roots: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the tops, their heights, how many sds each is still away, and the last curvature."""
    z, roots = z.copy(), roots.copy()
    heights, gradients = _evaluated(density, z)
    left, slow = np.full(len(z), np.inf), np.zeros(len(z), int)
    for _ in range(_STEPS):
        steps, now = _newton(roots, gradients[:, others])
        slow = np.where(now > _SLOW * left, slow + 1, 0)
        left = np.where(np.isfinite(heights), now, np.inf)
        going = np.flatnonzero((left > _ARRIVED) & np.isfinite(left))
        if not len(going):
            break
        wrong = going[slow[going] >= _SLOW_STEPS]
        if len(wrong):
            roots[wrong], _ = _curved(density, z[wrong], others, roots[wrong])
            steps[wrong], left[wrong] = _newton(roots[wrong], gradients[wrong][:, others])
            slow[wrong] = 0
        steps *= np.minimum(1.0, _LONGEST / np.maximum(left, _ARRIVED))[:, None]
        for _ in range(_CUTS):
            tried = z[going]
            tried[:, others] += steps[going]
            values, slopes = _evaluated(density, tried)
            least = heights[going] - 1e-9 * (1.0 + np.abs(heights[going]))
            higher = np.isfinite(values) & (values >= least)
            rows = going[higher]
            z[rows], heights[rows], gradients[rows] = (
                tried[higher], values[higher], slopes[higher],
            )  # fmt: skip
            going = going[~higher]
            steps[going] *= 0.25
            if not len(going):
                break
    return z, heights, left, roots


def _measured(density: Density, z: Floats, others: Ints, roots: Floats) -> tuple[Floats, Floats]:
    """Return roots of the precisions, and the least curvature in units of that before."""
    roots, curvatures = _curved(density, z, others, roots)
    least = curvatures.min(axis=1)
    for _ in range(_AGAIN):
        far = np.abs(np.log(np.abs(curvatures))).max(axis=1) > _WRONG
        again = np.flatnonzero(far & (least > 0.0))
        if not len(again):
            break
        curvatures = np.ones_like(curvatures)
        roots[again], curvatures[again] = _curved(density, z[again], others, roots[again])
        least[again] = curvatures[again].min(axis=1)
    return roots, least


def _curved(density: Density, z: Floats, others: Ints, roots: Floats) -> tuple[Floats, Floats]:
    """Return new roots, and the curvatures along the axes in which the old ones are identities.

    Where the density is not finite nearby a curvature is minus infinity and the root the old one;
    in a root it is never negative.
    """
    (count, dim), size = z.shape, len(others)
    axes = np.linalg.inv(roots)
    points = np.broadcast_to(z[:, None, None], (count, 2, size, dim)).copy()
    points[..., others] += _WIDTH * np.stack([axes, -axes], axis=1)
    _, gradients = _evaluated(density, points.reshape(-1, dim))
    up, down = gradients.reshape(count, 2, size, dim)[..., others].swapaxes(0, 1)
    curvature = (down - up) @ axes.swapaxes(1, 2) / (2.0 * _WIDTH)
    curvature = 0.5 * (curvature + curvature.swapaxes(1, 2))
    finite = np.isfinite(curvature).all(axis=(1, 2))
    curvature[~finite] = np.eye(size)
    values, vectors = np.linalg.eigh(curvature)
    positive = np.maximum(np.abs(values), _FLATTEST)[:, None, :]
    new = roots @ np.linalg.cholesky((vectors * positive) @ vectors.swapaxes(1, 2))
    values[~finite] = -np.inf
    return new, values


def _newton(roots: Floats, gradients: Floats) -> tuple[Floats, Floats]:
    """Return Newton's steps, and their lengths in sds."""
    half = np.linalg.solve(roots, gradients[..., None])
    steps = np.linalg.solve(roots.swapaxes(1, 2), half)[..., 0]
    return steps, np.linalg.norm(half[..., 0], axis=1)


def _evaluated(density: Density, z: Floats) -> tuple[Floats, Floats]:
    values, gradients = density(np.zeros(1, np.intp), z[None])
    return np.array(values[0]), np.array(gradients[0])
