"""Climbs of the log density from many starts, in the scales of an approximation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.vi.curvature import climb, climb_to_mode
from vicheck.vi.density import Density
from vicheck.vi.modes.place import MAX_DENSE, Place

__all__ = ["Climbs", "climb_from"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
IsHome = Callable[[Floats, NDArray[np.intp], Floats], Mask]

_STAGE, _MOST_STAGED = 25, 64
"""Steps of a climb after which the scales are taken from the curvature where it is, and the largest
dimension where that is done."""
_FLATTER = 0.01
"""Curvature, in units of q's own, below which a density counts as flat there."""
_HOMEWARD, _AT_HOME = 0.3, 0.1
"""How far from q's own mode a Newton step with q's curvature may end, as a share of the way there
and in sds, from a point where the density is taken to lead to it."""
_HOME = 4.0
"""Sds from q's own mode, beyond those that draws are away from it, up to which that is tried."""
_UNARRIVED = 2
"""Ends of climbs that have not arrived and are followed up all the same, the highest."""


class Climbs(NamedTuple):
    """Where climbs have ended."""

    ends: Floats
    """Shape ``(climbs, d)``."""
    arrived: NDArray[np.bool_]
    """Which of them say that they are at a mode."""
    unarrived: NDArray[np.intp]
    """Those that have not arrived and are followed up all the same, the highest."""


def climb_from(density: Density, place: Place, starts: Floats, most: int, is_cheap: bool) -> Climbs:
    """Climb from all starts together.

    Parameters
    ----------
    density, place
        What is climbed, and where the approximation lies, whose scales are used at first.
    starts
        Shape ``(starts, d)``.
    most
        Evaluations of a climb at most.
    is_cheap
        Whether calls cost more than evaluations.
    """
    lanes, dim = np.zeros(len(starts), np.intp), len(place.mean)
    directions = place.sd
    if dim <= MAX_DENSE:  # the curvature at q knows the correlations
        floor = 0.1 / np.square(place.sd)[None]
        directions = climb(density, lanes[:1], place.mean[None], 0, floor)[1].directions[0]
    home = None
    if not is_cheap and dim <= MAX_DENSE:
        home = _home(density, place, directions, len(starts))
    directions = np.broadcast_to(directions, (len(starts), *directions.shape))
    if dim > _MOST_STAGED or not is_cheap:
        ends, arrived = starts.copy(), np.zeros(len(starts), bool)
        going = np.arange(len(starts))
        for again in (True, False):  # a curvature there would cost more than to climb on
            is_home = None if home is None else home.begun(going, ends)
            ends[going], arrived[going] = climb_to_mode(
                density, lanes[going], ends[going], directions[going], most, is_home
            )
            if home is not None:  # one place stands for all that lead to it
                ends[home.came & arrived] = place.mean
            if again:
                going = _highest_unarrived(density, ends, arrived)
            if not len(going):
                break
        return Climbs(ends, arrived, going[~arrived[going]])
    # A climb that is still on its way after some steps is where scales are not those of q: it goes
    # on in those of the curvature there. Of a cheap density that is one call of compiled code.
    ends, arrived, going = starts.copy(), np.zeros(len(starts), bool), np.arange(len(starts))
    for spent in range(0, most, _STAGE + dim):
        if spent:
            floor = _FLATTER / np.square(place.sd)
            directions = climb(density, lanes[going], ends[going], 0, floor)[1].directions
        steps = min(_STAGE, most - spent)
        new, arrived[going] = climb_to_mode(density, lanes[going], ends[going], directions, steps)
        moved = (new != ends[going]).any(axis=1)
        ends[going] = new
        going = going[moved & ~arrived[going] & np.isfinite(new).all(axis=1)]
        if not len(going):
            break
    return Climbs(ends, arrived, _highest_unarrived(density, ends, arrived))


def _highest_unarrived(
    density: Density, ends: Floats, arrived: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Return which climbs to follow up although they have used up their evaluations."""
    rows = np.flatnonzero(~arrived & np.isfinite(ends).all(axis=1))
    if not len(rows):
        return rows
    log_p = density(np.zeros(1, np.intp), ends[rows][None])[0][0]
    order = np.argsort(-np.where(np.isfinite(log_p), log_p, -np.inf), kind="stable")
    return np.asarray(rows[order[:_UNARRIVED]])


class _Home:
    """Which climbs have come to where q's own mode is next.

    There the gradient is that of a parabola with q's curvature, so that a Newton step leads to the
    place where such a step from q's mean leads to: near enough to go on without climbing.
    """

    def __init__(self, place: Place, directions: Floats, slope: Floats, num_climbs: int) -> None:
        self.mean, self.directions, self.slope = place.mean, directions, slope
        self.came = np.zeros(num_climbs, bool)

    def begun(self, climbs: NDArray[np.intp], z: Floats) -> IsHome:
        """Take note of where some climbs begin; return what says that they have come home."""
        self.climbs = climbs
        self.away = np.linalg.solve(self.directions, (z[climbs] - self.mean).T).T
        return self._is_near

    def _is_near(self, step: Floats, which: NDArray[np.intp], gradient: Floats) -> Mask:
        """Say which climbs are there, and remember them."""
        way = self.away[which] + step - self.slope
        distance = np.linalg.norm(way, axis=1)
        missed = np.linalg.norm(way + gradient, axis=1)
        allowed = np.maximum(_HOMEWARD * distance, _AT_HOME)
        near = (missed < allowed) & (distance < _HOME + np.sqrt(way.shape[1]))
        self.came[self.climbs[which]] = near
        return np.asarray(near)


def _home(density: Density, place: Place, directions: Floats, num_climbs: int) -> _Home | None:
    """Return where climbs may end early, in units of the directions; None if q is at no mode."""
    gradient = density(np.zeros(1, np.intp), place.mean[None, None])[1][0, 0]
    slope = directions.T @ gradient
    if not np.linalg.norm(slope) < _HOME:
        return None
    return _Home(place, directions, slope, num_climbs)
