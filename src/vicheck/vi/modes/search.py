"""The search for modes: which ends of climbs of the log density are modes of their own.

Any solver can use it to look beyond its optimum, and so can the check of a fit made elsewhere:
all it takes is a model, and where the approximation already is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.draws import Approximation, Draws
from vicheck.errors import require_count
from vicheck.model import Model, double_precision
from vicheck.results.modes import ModeSearch
from vicheck.vi.curvature import FLATTEST, Curvature, climb
from vicheck.vi.density import Density
from vicheck.vi.families.family import Family
from vicheck.vi.modes.climbs import Climbs, climb_from
from vicheck.vi.modes.place import MAX_DENSE, Place, place_of
from vicheck.vi.modes.starts import Starts, choose_starts
from vicheck.vi.modes.symmetry import describe_symmetry
from vicheck.vi.modes.tails import endless_coordinate

__all__ = ["NUM_STARTS", "Found", "find_modes", "higher_than_modes", "search_modes"]

Floats = NDArray[np.float64]

NUM_STARTS = 48
"""A basin that catches a tenth of the starts is missed with probability 0.9**48 < 0.01."""
_FEWEST_STARTS = 12
"""For a density so expensive that more would take longer than the fit."""
_EVALUATIONS, _FEW_EVALUATIONS = 150, 60
"""Evaluations of a climb at most, of cheap densities and of others."""
_LEAST_BUDGET, _LEAST_ON_HOST = 3000, 1000
"""Evaluations that a search may always take, of a density that is compiled and of another."""
_POLISHING_STEPS = 8
"""Newton steps from the end of a climb to the mode itself."""
_LEFT = 0.05
"""Nats that a mode may still be higher than where a climb has ended."""
_CURVATURES = 3
"""Curvatures that it takes to polish a mode, about."""
_CURVED = 1e-6
"""Curvature, relative to that of the coordinates, that rounding does not make."""
_SAME, _SAME_NATS = 0.5, 0.5
"""Ends of climbs closer to each other than this, in sds and in nats, are one."""
_MOST_MODES = 12
"""Modes that are looked at more closely, those of highest density."""
_DIP, _LINE = 0.1, 24
"""Nats by which the density must dip between two modes, and points where that is looked at."""
_HARDLY_DRAWN = np.log(1e-4)
"""Share, in logs, of q's volume; of 100,000 draws ten fall into it."""
_HARDLY_KNOWN = np.log(1e-3)
"""Share, in logs, of q's draws that count when weighted for a mode: of 100,000, a hundred."""
_HIGHER = 0.1
"""Nats by which a mode must be higher than the approximation's own, to be another within reach."""
_HIGHEST_DRAWS = 4
"""Draws to climb from, where draws are higher than all modes."""


class Found(NamedTuple):
    """A search with the curvature at its modes, of which the other modes are fitted."""

    search: ModeSearch
    curvature: Curvature
    """With a leading axis over the modes."""
    is_cheap: bool
    """Whether evaluations of the density cost next to nothing."""


def search_modes(
    model: Model,
    around: Family | Approximation | Draws | Place,
    *,
    num_starts: int = NUM_STARTS,
    seed: int = 0,
) -> ModeSearch:
    """Look for modes of the posterior that an approximation does not reach.

    Parameters
    ----------
    model
        The model with its data.
    around
        The approximation, such as the ``q`` of a `vicheck.Fit` or a `vicheck.Check`; draws from it;
        or its mean and sds on the unconstrained scale (a `vicheck.vi.modes.place.Place`).
    num_starts
        Climbs of the density. They begin at the approximation's mean, in the prior, in boxes of
        several widths around zero and around the approximation, and at points of high density. A
        basin that catches a tenth of all starts is found by 48 of them with 99%. Each takes at most
        150 evaluations of the density with its gradient. To choose places of high density takes
        several hundred, and 8192 with up to three parameters, where points fill the space.
    seed
        The same seed gives the same starts.

    Returns
    -------
    ModeSearch
        With all modes. No others means only that no start led to one.

    Raises
    ------
    ValueError
        When ``num_starts`` is less than 1, or mean and sds do not fit the model.
    """
    require_count("num_starts", num_starts, 1)
    with double_precision():
        now = model.snapshot()
        return find_modes(now, place_of(around, now), num_starts, seed).search


def find_modes(
    model: Model,
    place: Place,
    num_starts: int,
    seed: int,
    budget: float = np.inf,
    elbo: float = np.nan,
    more: Floats | None = None,
) -> Found:
    """Search; an expensive density gets fewer and shorter climbs, within a budget of evaluations.

    The ELBO of the approximation, where it is known, says how much it holds at least. ``more`` are
    draws of it to climb from besides, of shape ``(n, d)``.
    """
    density = Density(model.program, model.data, {})
    # Compiled code may call a function on the host, whose time the size of the model does not tell.
    on_host = not density.is_compiled or model.program.runs_unseen_code("log_density", model.data)
    is_cheap = density.is_cheap and not on_host
    most, most_modes = _EVALUATIONS, _MOST_MODES
    if not is_cheap:
        budget = max(_LEAST_ON_HOST if on_host else _LEAST_BUDGET, budget)
        num_starts = int(min(num_starts, max(_FEWEST_STARTS, budget / _FEW_EVALUATIONS)))
        most = _FEW_EVALUATIONS
    starts = choose_starts(model, density, place, num_starts, seed, is_cheap)
    if more is not None:
        starts = Starts(np.concatenate([starts.z, more]), starts.origins + ("draw",) * len(more))
    climbs = climb_from(density, place, starts.z, most, is_cheap)
    if not is_cheap:
        left = budget - density.num_evaluations[0]
        most_modes = int(np.clip(left / (_CURVATURES * (model.dim + 1)), 1, _MOST_MODES))
    modes = _polished(density, place, climbs, most_modes)
    reached = _reached(density, place, modes)
    order = np.lexsort((-modes.log_p, ~reached))
    at = modes.z[order]
    endless = endless_coordinate(density, place)
    search = ModeSearch(
        starts={origin: starts.origins.count(origin) for origin in dict.fromkeys(starts.origins)},
        num_arrived=int(modes.counts.sum()),
        num_evaluations=int(density.num_evaluations[0]),
        num_reached=int(reached.sum()),
        z=at,
        log_p=modes.log_p[order],
        log_mass=modes.log_mass[order],
        counts=modes.counts[order].astype(float),
        away=(np.abs(at - place.mean) / place.sd).max(axis=1),
        most_reached=float(elbo),
        symmetry=describe_symmetry(model, at, modes.log_p[order]),
        endless="" if endless is None else model.coordinates[endless],
    )
    return Found(search, _take(modes.curvature, order), is_cheap)


def higher_than_modes(search: ModeSearch | None, log_p: Floats) -> NDArray[np.intp]:
    """Return the highest draws, if they lie higher than any mode that was found.

    Then there is a mode that no start has led to, too narrow for that, and these draws are in it.
    """
    if search is None or not len(search.log_p):
        return np.empty(0, np.intp)
    known = np.where(np.isfinite(log_p), log_p, -np.inf)
    highest = np.argsort(-known, kind="stable")[:_HIGHEST_DRAWS]
    return highest[known[highest] > search.log_p.max() + _HIGHER]


class _Modes(NamedTuple):
    z: Floats
    log_p: Floats
    log_mass: Floats
    counts: NDArray[np.int64]
    curvature: Curvature


def _polished(density: Density, place: Place, climbs: Climbs, most_modes: int) -> _Modes:
    """Return the modes to which ends of climbs belong, with their curvature.

    A climb measures its gradient in sds of the approximation; at a narrower or wider mode that says
    little, so its end is followed by Newton steps. What has no mode then was none.
    """
    lane, (ends, arrived, unarrived) = np.zeros(1, np.intp), climbs
    log_p = density(lane, ends[None])[0][0]
    log_p = np.where(np.isfinite(log_p) & np.isfinite(ends).all(axis=1), log_p, -np.inf)
    candidates: list[int] = []
    members: list[list[int]] = []
    for row in np.argsort(-log_p, kind="stable"):
        if log_p[row] == -np.inf or not (arrived[row] or row in unarrived):
            continue
        for index, other in enumerate(candidates):
            near = np.abs(ends[row] - ends[other]) < _SAME * place.sd
            if near.all() and log_p[other] - log_p[row] < _SAME_NATS:
                members[index].append(row)
                break
        else:
            candidates.append(int(row))
            members.append([int(row)])
    candidates, members = candidates[:most_modes], members[:most_modes]
    dim = len(place.mean)
    if not candidates:
        empty = np.empty((0, dim))
        return _Modes(empty, np.empty(0), np.empty(0), np.empty(0, int), Curvature(empty, empty))
    dense = dim <= MAX_DENSE
    lanes = np.zeros(len(candidates), np.intp)
    z, curvature = climb(
        density, lanes, ends[candidates], _POLISHING_STEPS if dense else 0, FLATTEST, dense
    )
    value, gradient = (part[0] for part in density(lane, z[None]))
    log_mass, is_top = np.full(len(z), np.nan), np.ones(len(z), bool)
    if curvature.hessian is not None:
        for row, hessian in enumerate(curvature.hessian):
            log_mass[row], is_top[row] = _laplace(value[row], hessian)
        is_top &= _left_to_gain(gradient, curvature) < _LEFT
    is_mode = np.isfinite(value) & is_top
    counts = np.array([len(each) for each in members])
    keep = _distinct(z, value, place, counts, is_mode)
    return _Modes(z[keep], value[keep], log_mass[keep], counts[keep], _take(curvature, keep))


def _distinct(
    z: Floats, log_p: Floats, place: Place, counts: NDArray[np.int64], is_mode: NDArray[np.bool_]
) -> list[int]:
    """Return the modes that are left after polishing, which may have brought some together."""
    keep: list[int] = []
    for row in np.argsort(-log_p, kind="stable"):
        if not is_mode[row]:
            continue
        for other in keep:
            near = np.abs(z[row] - z[other]) < 0.5 * _SAME * place.sd
            if near.all() and log_p[other] - log_p[row] < 0.1 * _SAME_NATS:
                counts[other] += counts[row]
                break
        else:
            keep.append(int(row))
    return keep


def _left_to_gain(gradient: Floats, curvature: Curvature) -> Floats:
    """Return how much higher the top of the parabola is that has this gradient and curvature."""
    noise = np.einsum("ijk,ij->ik", curvature.directions, gradient)
    return np.asarray(0.5 * np.square(noise).sum(axis=1))


def _laplace(log_p: float, hessian: Floats) -> tuple[float, bool]:
    """Return the log of the integral of a Gaussian so curved, and whether the point is no saddle.

    Along a direction without any curvature there is no such integral, but there may be a mode.
    """
    scale = np.sqrt(np.maximum(np.abs(np.diagonal(hessian)), FLATTEST))
    scaled = hessian / np.outer(scale, scale)
    if not np.isfinite(scaled).all():
        return np.nan, False
    lowest = np.linalg.eigvalsh(scaled)[0]
    if lowest <= _CURVED:
        return np.nan, bool(lowest > -_CURVED)
    log_det = np.linalg.slogdet(scaled)[1] + 2.0 * np.log(scale).sum()
    return float(log_p + 0.5 * len(hessian) * np.log(2.0 * np.pi) - 0.5 * log_det), True


def _reached(density: Density, place: Place, modes: _Modes) -> NDArray[np.bool_]:
    """Say which modes the approximation reaches.

    The one that a climb from its mean ends at, or would, is its own. Another is no other if the
    density does not dip on the way there, or if it is within reach and no higher: draws of q are
    there, and their ratios say how many there should be. Unless the mode is so small against q that
    hardly a draw hits it, as it happens in many dimensions: then not even one in q's bulk is
    reached. That is not said where q is only a little wider along each of many axes: there draws
    beside the mode, weighted, know it well.
    """
    reached = np.zeros(len(modes.z), bool)
    if not len(modes.z):
        return reached
    at_mean = density(np.zeros(1, np.intp), place.mean[None, None])[0][0, 0]
    if not np.isfinite(at_mean):
        at_mean = -np.inf
    dips = _dips(density, place.mean, at_mean, modes.z, modes.log_p)
    within = place.reaches(modes.z)
    own = np.flatnonzero(~dips)
    # Without a mode of its own the approximation is taken as it lies.
    top = modes.log_p[own].max() if len(own) else at_mean
    if len(own):
        best = own[np.argmax(modes.log_p[own])]
        dips &= _dips(density, modes.z[best], modes.log_p[best], modes.z, modes.log_p)
    higher = modes.log_p > top + _HIGHER
    with np.errstate(invalid="ignore"):
        too_small = modes.log_mass - modes.log_p - place.log_volume < _HARDLY_DRAWN
        too_small &= _log_share_of_draws(place, modes.curvature) < _HARDLY_KNOWN
    return (~dips | (within & ~higher)) & ~too_small


def _log_share_of_draws(place: Place, curvature: Curvature) -> Floats:
    """Return the log of the share of q's draws that count when weighted for each mode.

    For a Gaussian with the curvature of the mode, at q's mean: 1 over the second moment of its
    ratio to q. Along an axis of q on which it is narrower, by b in precision, that is (2 b - 1) /
    b^2: next to nothing is lost where q is a little too wide, though in many dimensions the mode
    has a tiny part of its volume. NaN where the curvature is not known.
    """
    if curvature.hessian is None:
        return np.full(len(curvature.directions), np.nan)
    root = np.diag(place.sd) if place.root is None else place.root
    shares = []
    for hessian in curvature.hessian:
        in_units = root.T @ hessian @ root
        known = bool(np.isfinite(in_units).all())
        b = np.maximum(np.linalg.eigvalsh(in_units), 1.0) if known else np.array([np.nan])
        shares.append(0.5 * np.log((2.0 * b - 1.0) / np.square(b)).sum())
    return np.array(shares)


def _dips(
    density: Density, start: Floats, at_start: float, ends: Floats, at_ends: Floats
) -> NDArray[np.bool_]:
    """Say for which ends the density, on the line from the start, is lower than at both."""
    fractions = np.arange(1, _LINE) / _LINE
    lines = start + fractions[:, None, None] * (ends - start)
    log_p = density(np.zeros(1, np.intp), lines.reshape(1, -1, len(start)))[0][0]
    lowest = np.where(np.isnan(log_p), -np.inf, log_p).reshape(len(fractions), -1).min(axis=0)
    return np.asarray(lowest < np.minimum(at_start, at_ends) - _DIP)


def _take(curvature: Curvature, rows: Any) -> Curvature:
    return Curvature(*(part if part is None else part[rows] for part in curvature))
