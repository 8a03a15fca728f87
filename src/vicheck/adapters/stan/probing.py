"""What each entry of z does to the parameters of a Stan model, seen from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicheck.adapters.stan.sources import StanModel, constrain_rows
from vicheck.errors import ModelError

__all__ = ["Moved", "MovedArray", "probe"]

Floats = NDArray[np.float64]

_STEP = 0.1
"""How far an entry of z is moved to see what depends on it."""


@dataclass(frozen=True, eq=False)
class MovedArray:
    """How one parameter depends on z."""

    entries: tuple[int, ...]
    """The entries of z that are its own."""
    in_order: bool
    """Whether each element, in row-major order, moves with an entry of its own."""
    elements: tuple[int, ...]
    """The element, in row-major order, that each of these entries moves; Stan has matrices by
    columns. Empty where some move several."""
    alone: bool
    """Whether each element moves with a single entry of z."""
    falling: bool
    """Whether all elements fall where z rises."""


@dataclass(frozen=True, eq=False)
class Moved:
    """For each entry of z the constrained numbers that move with it, and by how much."""

    places: tuple[NDArray[np.intp], ...]
    steps: tuple[Floats, ...]

    def of_array(self, places: Sequence[int]) -> MovedArray:
        """Look at the parameter whose elements are at these places.

        The first parameter that an entry of z moves is its own: bounds may depend on earlier ones.
        """
        own = set(places)
        entries = tuple(i for i, moved in enumerate(self.places) if int(moved[0]) in own)
        in_order = len(entries) == len(own) and all(
            place in self.places[entry] for place, entry in zip(places, entries, strict=True)
        )
        within = [np.flatnonzero(np.isin(places, moved)) for moved in self.places]
        elements = [int(each) for entry in entries for each in within[entry]]
        return MovedArray(
            entries,
            in_order,
            tuple(elements) if len(elements) == len(entries) == len(own) else (),
            sum(map(len, within)) == len(own),
            all((self.steps[i][np.isin(self.places[i], places)] < 0.0).all() for i in entries),
        )


def probe(model: StanModel, dim: int) -> Moved:
    """Move each entry of z by itself."""
    z = 0.5 * np.random.default_rng(0).standard_normal(dim)
    at = constrain_rows(model, z[None], transformed=False)[0]
    places, steps = [], []
    for entry in range(dim):
        moved = z.copy()
        moved[entry] += _STEP
        step = constrain_rows(model, moved[None], transformed=False)[0] - at
        changed = np.flatnonzero(step)
        if not changed.size:
            raise ModelError(f"entry {entry} of the unconstrained vector moves no parameter")
        places.append(changed)
        steps.append(step[changed])
    return Moved(tuple(places), tuple(steps))
