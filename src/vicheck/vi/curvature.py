"""The curvature of a posterior: where a fit starts, and in which units it moves.

Second derivatives are differences of gradients: nothing more has to be compiled, and densities that
have no second derivatives, such as Stan's, need no way of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.vi.density import ROWS, Density, Lanes
from vicheck.vi.quasi_newton import minimise, no_memory

__all__ = [
    "FLATTEST",
    "MAX_EVALUATIONS",
    "Curvature",
    "along",
    "climb",
    "climb_to_mode",
    "precisions_by_draws",
    "turned",
]

Floats = NDArray[np.float64]

FLATTEST = 1e-10
"""Second derivatives below it are raised to it where no better bound is known."""
_PROBES = 8
_FRACTIONS = 4.0 ** -np.arange(8.0)
"""Fractions of a Newton step that are tried, the whole step first."""
_LEAST_GAIN = 1e-3
"""In nats; Newton's method stops there, and variational inference continues."""
_FIRST_DIFFERENCE = 1e-3
"""Distance of the first differences, in units of z."""
_DIFFERENCE = 0.01
"""Distance of differences, in the scale of the curvature that they find: rounding and higher
derivatives both change the difference little there."""
_SHORT, _LONG = 1e-5, 0.1
"""Between these distances, in that scale, differences are good enough."""
_TRIES = 4
"""How many distances are tried at most."""
_FLAT = 100.0
"""By how much, in logs, the distance was too short where there is no curvature at all."""
_MANY = 64
"""From this dimension on a Hessian costs more than many steps of a quasi-Newton method."""
_ARRIVED = 0.1
"""Gradient, in sds, at which a mode is found."""
MAX_EVALUATIONS = 60
"""Evaluations of the density in one climb to a mode."""
_PAIRS_TO_TRUST = 8
"""Steps after which an inverse Hessian that was learnt tells how near a mode is."""
_LONGEST = 100.0
"""Largest change in one step of a climb, in sds."""


class Curvature(NamedTuple):
    """Size of the second derivatives of ``-log_p``, made positive; a leading axis over fits."""

    directions: Any
    """A root of the inverse Hessian, ``(d, d)``, or the roots of its diagonal, ``(d,)``."""
    precisions: Any
    """Diagonal of the Hessian."""
    hessian: Any = None
    """The Hessian of ``-log_p`` as it is, ``(d, d)``; None where only its diagonal is known."""


def climb(
    density: Density,
    lanes: Lanes,
    z: Floats,
    max_steps: int,
    floor: Any,
    dense: bool = True,
    narrowing: float = np.inf,
) -> tuple[Floats, Curvature]:
    """Climb the log density from z, shape ``(l, d)``; return the ends and the curvature there.

    By damped Newton steps or, where a Hessian costs more than many gradients, by quasi-Newton steps
    between one Hessian and the next. The end need not be a mode: the climb stops after
    ``max_steps``, and where no step gains. No steps at all give the curvature at z. Second
    derivatives below ``floor`` are raised to it: where the density is flat, its curvature says
    nothing about scales. Unless ``dense``, the diagonal of the Hessian is estimated, and no more. A
    step after which a second derivative is more than ``narrowing`` times what it was is not taken:
    it may lead into the neck of a funnel.
    """
    z = z.copy()
    value, gradient = _at(density, lanes, z)
    value, gradient = np.where(np.isfinite(value), value, -np.inf), gradient.copy()
    floor = np.broadcast_to(floor, z.shape)
    curvature = _curvature(density, lanes, z, gradient, floor, dense)
    going = np.arange(len(lanes))
    for _ in range(max_steps):
        some = Curvature(*(part if part is None else part[going] for part in curvature))
        step = _quasi_newton_steps if dense and z.shape[1] >= _MANY else _newton_step
        end, reached, slope, arrived = step(density, lanes[going], z[going], gradient[going], some)
        with np.errstate(invalid="ignore"):
            gain = reached - value[going]
        better = gain > 0.0
        if not better.any():
            break
        tried = going[better]
        fresh = _curvature(density, lanes[tried], end[better], slope[better], floor[tried], dense)
        wide = (fresh.precisions <= narrowing * curvature.precisions[tried]).all(axis=1)
        better[better] = wide
        moved = going[better]
        z[moved], value[moved], gradient[moved] = end[better], reached[better], slope[better]
        for part, new in zip(curvature, fresh, strict=True):
            if part is not None:
                part[moved] = new[wide]
        going = going[better & ~arrived & (gain > _LEAST_GAIN)]
        if not len(going):
            break
    return z, curvature


def _newton_step(
    density: Density, lanes: Lanes, z: Floats, gradient: Floats, curvature: Curvature
) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
    """Return the best fraction of a Newton step, value and gradient there, and False: no mode."""
    roots = curvature.directions
    with np.errstate(invalid="ignore"):  # a gradient may be infinite: such a step gains nothing
        if roots.ndim == 2:
            newton = roots**2 * gradient
        else:
            newton = (roots @ (np.swapaxes(roots, 1, 2) @ gradient[..., None]))[..., 0]
        trials = z[:, None] + _FRACTIONS[:, None] * newton[:, None]
    values, gradients = density(lanes, trials)
    values = np.where(np.isfinite(values), values, -np.inf)
    best = values.argmax(axis=1)
    each = np.arange(len(z))
    at_best = (part[each, best] for part in (trials, values, gradients))
    return (*at_best, np.zeros(len(z), bool))


def _quasi_newton_steps(
    density: Density, lanes: Lanes, z: Floats, gradient: Floats, curvature: Curvature
) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
    """Return a mode or a point on the way, value and gradient there, and whether it is a mode."""
    end, arrived = climb_to_mode(density, lanes, z, curvature.directions)
    value, gradient = _at(density, lanes, end)
    return end, np.where(np.isfinite(value), value, -np.inf), gradient, arrived


def climb_to_mode(
    density: Density,
    lanes: Lanes,
    z: Floats,
    directions: Floats,
    max_evaluations: int = MAX_EVALUATIONS,
    is_home: Callable[[Floats, NDArray[np.intp], Floats], NDArray[np.bool_]] | None = None,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Climb from each row of z, shape ``(l, d)``; return the ends, and which are modes.

    A climb that uses up its evaluations has found none: in a funnel there is none. Directions,
    shape ``(l, d, d)`` or ``(l, d)``, of length zero lead nowhere. Climbs for the same set of data
    are evaluated together. One for which ``is_home`` says, from its step, its number and its
    gradient, that a known mode is where it goes, ends there and then.
    """
    back = turned(directions)

    def moved(step: Floats, which: NDArray[np.intp]) -> Floats:
        return z[which] + along(directions[which], step)

    def function(step: Floats, which: NDArray[np.intp]) -> tuple[Floats, Floats]:
        value, gradient = _at(density, lanes[which], moved(step, which))
        slope = along(back[which], gradient)
        if is_home is not None:  # nothing is left to climb
            slope = np.where(is_home(step, which, slope)[:, None], 0.0, slope)
        return -value, -slope

    end = minimise(
        function,
        np.zeros_like(z),
        tolerance=_ARRIVED,
        max_evaluations=max_evaluations,
        longest=np.full(z.shape[1], _LONGEST),
        # Many climbs at once would spend more time on large matrices than on the density.
        memory=no_memory(len(z), z.shape[1], _MANY),
    )
    # Of a mode much narrower than the directions the gradient stays large in their units; there
    # the inverse Hessian that was learnt tells how little is left to gain.
    with np.errstate(invalid="ignore", over="ignore"):
        left = -0.5 * np.einsum("ij,ij->i", end.memory.direction(end.gradient), end.gradient)
    learnt = end.memory.num_pairs >= min(z.shape[1], _PAIRS_TO_TRUST)
    arrived = np.abs(end.gradient).max(axis=1) < _ARRIVED
    arrived |= learnt & (left < _ARRIVED**2)
    return moved(end.x, np.arange(len(z))), arrived


def along(directions: Floats, step: Floats) -> Floats:
    """Return steps, shape ``(l, d)``, along scaled axes or along the columns of matrices."""
    if directions.ndim == 2:
        return directions * step
    return np.asarray((directions @ step[..., None])[..., 0])


def turned(directions: Floats) -> Floats:
    """Return directions transposed, where they are matrices."""
    return np.swapaxes(directions, 1, 2) if directions.ndim == 3 else directions


def _at(density: Density, lanes: Lanes, z: Floats) -> tuple[Floats, Floats]:
    """Return value and gradient at one point for each lane; a lane may come several times."""
    if len(lanes) > 1 and (lanes == lanes[0]).all():
        value, gradient = density(lanes[:1], z[None])
        return value[0], gradient[0]
    value, gradient = density(lanes, z[:, None])
    return value[:, 0], gradient[:, 0]


def _curvature(
    density: Density, lanes: Lanes, z: Floats, gradient: Floats, floor: Floats, dense: bool
) -> Curvature:
    """Return the size of the second derivatives of ``-log_p``.

    Negative curvature counts by its size: what matters is the scale on which the density changes.
    """
    if not dense:
        diagonal = _bounded(_diagonal(density, lanes, z), floor)
        return Curvature(1.0 / np.sqrt(diagonal), diagonal)
    hessian = _hessian(density, lanes, z, gradient)
    # Scaled to a unit diagonal first: parameters may differ by many orders of magnitude.
    diagonal = _bounded(np.diagonal(hessian, axis1=1, axis2=2), floor)
    scale = np.sqrt(diagonal)
    scaled = hessian / (scale[:, :, None] * scale[:, None, :])
    entries = np.arange(z.shape[1])
    scaled[:, entries, entries] = 1.0
    values, vectors = np.linalg.eigh(scaled)
    values = np.maximum(np.abs(values), 1e-12)
    directions = vectors / np.sqrt(values)[:, None, :] / scale[:, :, None]
    precisions = diagonal * (vectors**2 @ values[..., None])[..., 0]
    return Curvature(directions, precisions, hessian)


def precisions_by_draws(
    told: Callable[[Floats, NDArray[np.intp]], tuple[Floats, NDArray[np.bool_]]], z: Floats
) -> Floats:
    """Return diagonals of Hessians of ``-log_p`` at z, from draws very near to it.

    ``told`` returns, from the sds of draws around some rows of z and the numbers of these, the
    diagonals in units of these sds, and which draws were all finite.
    """
    lengths = _FIRST_DIFFERENCE * np.maximum(1.0, np.abs(z))
    precisions, which = np.zeros_like(z), np.arange(len(z))
    for _ in range(_TRIES):
        tried = lengths[which]
        curvature, finite = told(tried, which)
        reach, finite = np.sqrt(np.abs(curvature)), finite[:, None]
        precisions[which] = np.where(finite, curvature / tried**2, precisions[which])
        # As for differences along axes.
        with np.errstate(divide="ignore"):
            better = np.where(reach > 0.0, _DIFFERENCE * tried / reach, 100.0 * tried)
        better = np.where(finite, np.clip(better, 1e-4 * tried, 1e4 * tried), 1e-2 * tried)
        poor = ~finite | (reach < _SHORT) | (reach > _LONG)
        poor &= tried < 1e6
        lengths[which] = np.where(poor, better, tried)
        which = which[poor.any(axis=1)]
        if not len(which):
            break
    return precisions


def _hessian(density: Density, lanes: Lanes, z: Floats, gradient: Floats) -> Floats:
    """Return Hessians of ``-log_p`` by differences of gradients along the axes.

    One gradient for each axis, at a distance that the curvature itself tells. Of an axis for which
    none is suitable the row counts that came closest.
    """
    dim = z.shape[1]
    lengths = _FIRST_DIFFERENCE * np.maximum(1.0, np.abs(z))
    hessian, misses = np.zeros((len(z), dim, dim)), np.full(z.shape, np.inf)
    some, axes = np.arange(len(z)), np.arange(dim)
    for _ in range(_TRIES):
        part = np.ix_(some, axes)
        tried = lengths[part]
        rows = _rows(density, lanes[some], z[some], gradient[some], tried, axes)
        diagonal = np.abs(rows[:, np.arange(len(axes)), axes])
        finite = np.isfinite(rows).all(axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.abs(tried)
            reach = size * np.sqrt(diagonal)
            better = np.where(diagonal > 0.0, _DIFFERENCE / np.sqrt(diagonal), 100.0 * size)
            miss = np.log(np.maximum(_SHORT / reach, reach / _LONG))
        miss = np.where(finite, np.clip(miss, 0.0, _FLAT), 2.0 * _FLAT)
        closer = miss < misses[part]
        hessian[part] = np.where(closer[..., None], _finite(rows), hessian[part])
        misses[part] = np.minimum(miss, misses[part])
        poor = (miss > 0.0) & (size < 1e6)
        # An axis that is redone for one lane is redone for all that are: arrays stay rectangular.
        # Where a neighbour is not finite, only nearer ones may be; where nothing has changed, it
        # may do so on the other side.
        better = np.where(finite, np.clip(better, 1e-4 * size, 1e4 * size), 1e-2 * size)
        better *= np.where(diagonal > 0.0, 1.0, -np.sign(tried))
        lengths[part] = np.where(poor, better, tried)
        some, axes = some[poor.any(axis=1)], axes[poor.any(axis=0)]
        if not len(some):
            break
    return 0.5 * (hessian + np.swapaxes(hessian, 1, 2))


def _rows(
    density: Density,
    lanes: Lanes,
    z: Floats,
    gradient: Floats,
    lengths: Floats,
    axes: NDArray[np.intp],
) -> Floats:
    """Return rows of Hessians of ``-log_p``; lengths are those of the axes, shape ``(l, axes)``."""
    count, dim = z.shape
    rows = np.empty((count, len(axes), dim))
    # As many as fill some calls of compiled code; all of them may be too many to hold.
    width = max(ROWS, 2**21 // max(1, count * dim))
    for start in range(0, len(axes), width):
        these = axes[start : start + width]
        points = np.repeat(z[:, None], len(these), axis=1)
        each = lengths[:, start : start + width]
        points[:, np.arange(len(these)), these] += each
        values, gradients = density(lanes, points)
        gradients = np.where(np.isfinite(values)[..., None], gradients, np.nan)
        with np.errstate(invalid="ignore"):
            rows[:, start : start + width] = (gradient[:, None] - gradients) / each[..., None]
    return rows


def _diagonal(density: Density, lanes: Lanes, z: Floats) -> Floats:
    """Return an estimate of the diagonal of Hessians of ``-log_p``, from random combinations."""
    rng = np.random.default_rng(0)
    probes = rng.choice([-1.0, 1.0], (_PROBES, z.shape[1]))
    lengths = _FIRST_DIFFERENCE * np.maximum(1.0, np.abs(z))
    diagonal, corrected = np.zeros_like(z), np.zeros((len(z), 1), bool)
    for _ in range(_TRIES):
        offsets = probes * lengths[:, None]
        products = _differences(density, lanes, z, offsets)
        diagonal = (probes * products).mean(axis=1) / (2.0 * lengths)
        # A probe moves all coordinates: which of them went too far is not known.
        finite = np.isfinite(diagonal).all(axis=1, keepdims=True)
        diagonal = _finite(diagonal)
        reach = lengths * np.sqrt(np.abs(diagonal))
        # Lengths that differ much let large coordinates hide small ones: they are corrected once.
        if (finite & (corrected | (reach < _LONG / 10.0))).all():
            break
        nearer = np.minimum(lengths, 0.01 * lengths / np.maximum(reach, 1e-300))
        lengths = np.where(finite, np.where(corrected, lengths, nearer), 0.01 * lengths)
        corrected |= finite
    return diagonal


def _differences(density: Density, lanes: Lanes, z: Floats, offsets: Floats) -> Floats:
    """Return how much less the gradients are on one side of z than on the other.

    They are not finite where the density is not, whatever its gradient there.
    """
    count = offsets.shape[1]
    points = np.concatenate([z[:, None] + offsets, z[:, None] - offsets], axis=1)
    values, gradients = density(lanes, points)
    gradients = np.where(np.isfinite(values)[..., None], gradients, np.nan)
    with np.errstate(invalid="ignore"):
        return np.asarray(gradients[:, count:] - gradients[:, :count])


def _bounded(diagonal: Floats, floor: Floats) -> Floats:
    return np.maximum(np.abs(diagonal), floor)


def _finite(array: Floats) -> Floats:
    return np.where(np.isfinite(array), array, 0.0)
