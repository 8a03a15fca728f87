"""The search for modes: climbs of the log density from over-dispersed starts.

Any solver can use it to look beyond its optimum, and so can the check of a fit made elsewhere:
all it takes is a model, and where the approximation already is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.draws import Approximation, Draws
from vicheck.model import Model
from vicheck.runtime.jax_settings import double_precision
from vicheck.vi.curvature import MAX_EVALUATIONS, climb_to_mode
from vicheck.vi.density import Density
from vicheck.vi.families.family import Family
from vicheck.vi.families.moments import mean_and_sd

__all__ = [
    "APART",
    "FAR",
    "MAX_EVALUATIONS",
    "Mode",
    "Place",
    "climb_from_starts",
    "is_far",
    "random_starts",
    "search_beyond",
    "search_modes",
]

Floats = NDArray[np.float64]
T = TypeVar("T")

FAR = 4.0
"""Sds from which on a climb has left an approximation."""
APART = 1.0
"""Sds from which on an optimum is another one."""
_SPREAD = 4.0
"""Random starts lie within this of zero, on the unconstrained scale: over-dispersed."""
_PLACE_DRAWS = 1000
"""Draws that mean and sds of an approximation made elsewhere are estimated from."""


class Place(NamedTuple):
    """Where an approximation lies: its mean and sds, each of shape ``(d,)``."""

    mean: Any
    sd: Any


class Mode(NamedTuple):
    """A mode of the posterior's density on the unconstrained scale."""

    z: Floats
    log_p: float


def search_modes(
    model: Model,
    around: Family | Approximation | Draws | Place,
    *,
    num_starts: int = 3,
    seed: int = 0,
) -> list[Mode]:
    """Look for modes that an approximation does not reach.

    Parameters
    ----------
    model
        The model with its data.
    around
        The approximation, such as the ``q`` of a `vicheck.Fit` or a `vicheck.Check`; draws from it;
        or its mean and sds on the unconstrained scale. Steps of the search are measured in its sds.
    num_starts
        Random starts of the search; each costs at most 60 evaluations of the density.
    seed
        The same seed gives the same starts.

    Returns
    -------
    list of Mode
        Modes more than 4 sds of the approximation away from its mean and from each other in at
        least one coordinate, the one with the highest density first. An empty list means only that
        no start led to one.

    Raises
    ------
    ValueError
        When ``num_starts`` is less than 1, or mean and sds do not fit the model.
    """
    if num_starts < 1:
        raise ValueError(f"num_starts must be at least 1, got {num_starts}")
    with double_precision():
        given = _place_of(around, model)
        mean, sd = (np.asarray(array, np.float64) for array in given)
        for name, array in (("mean", mean), ("sd", sd)):
            if array.shape != (model.dim,):
                raise ValueError(
                    f"around must have a {name} of shape ({model.dim},), as the model has "
                    f"{model.dim} parameters, got shape {array.shape}"
                )
        if not (np.isfinite(mean).all() and np.isfinite(sd).all() and (sd > 0.0).all()):
            raise ValueError(
                f"around must have finite means and positive sds, got mean={mean}, sd={sd}"
            )
        now = model.snapshot()
        density = Density(now.program, now.data, {})
        starts = random_starts(num_starts, now.dim, seed)
        places = search_beyond(
            climb_from_starts(density, starts, sd),
            Place(mean, sd),
            settle=lambda z, known: Place(z, sd),
            place_of=lambda place: place,
        )[1:]
        at = np.stack([place.mean for place in places])[None] if places else np.empty((1, 0))
        values = density(np.zeros(1, np.intp), at)[0][0] if places else ()
        modes = [Mode(place.mean, float(v)) for place, v in zip(places, values, strict=True)]
    return sorted(modes, key=lambda mode: -mode.log_p)


def _place_of(around: Family | Approximation | Draws | Place, model: Model) -> Place:
    """Return mean and sds of an approximation on the unconstrained scale."""
    if isinstance(around, Approximation):
        around = around.family() or around.draws(_PLACE_DRAWS)
    if isinstance(around, Draws):
        theta = {name: around.values[name][:_PLACE_DRAWS] for name, _ in model.program.layout}
        z = jax.vmap(lambda row: model.program.unconstrain(row, model.data))(theta)
        return Place(z.mean(axis=0), z.std(axis=0))
    return Place(*mean_and_sd(around)) if isinstance(around, Family) else around


def search_beyond(
    ends: Any,
    first: T,
    settle: Callable[[Floats, Sequence[T]], T | None],
    place_of: Callable[[T], Place],
) -> list[T]:
    """Follow up climbs that ended far from all that is known; return all optima, the first first.

    Parameters
    ----------
    ends
        Where climbs ended, shape ``(starts, d)``; NaN where none arrived.
    first
        The optimum that is known to begin with.
    settle
        Returns the optimum that an end leads to, given those known so far, or None.
    place_of
        Returns where an optimum lies. Those less than 1 sd from a known one are not new.
    """
    known = [first]
    for end in np.asarray(ends):
        if not np.isfinite(end).all() or not is_far(end, map(place_of, known), FAR):
            continue
        optimum = settle(end, known)
        if optimum is not None and is_far(place_of(optimum).mean, map(place_of, known), APART):
            known.append(optimum)
    return known


def is_far(z: Any, places: Iterable[Place], sds: float = FAR) -> bool:
    """Whether z differs from each place by some of its sds, in any coordinate."""
    return all((np.abs(z - place.mean) > sds * place.sd).any() for place in places)


def random_starts(num_starts: int, dim: int, seed: int) -> Floats:
    """Return over-dispersed starts, shape ``(num_starts, d)``."""
    rng = np.random.default_rng((seed, 1))
    return rng.uniform(-_SPREAD, _SPREAD, (num_starts, dim))


def climb_from_starts(density: Density, starts: Floats, directions: Floats) -> Floats:
    """Climb the log density from each start; return the modes, NaN where none was found.

    Parameters
    ----------
    density
        Of which the first lane is climbed.
    starts
        Shape ``(starts, d)``.
    directions
        The columns of a matrix, or scales of the axes: about one sd long.
    """
    lanes = np.zeros(len(starts), np.intp)
    repeated = np.broadcast_to(directions, (len(starts), *directions.shape))
    ends, arrived = climb_to_mode(density, lanes, starts, repeated)
    return np.where(arrived[:, None], ends, np.nan)
