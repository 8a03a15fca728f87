"""Where an approximation lies, and whether it reaches a point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.draws import Approximation, Draws
from vicheck.model import Model
from vicheck.vi.families.abilities import HasMoments, HasRoots
from vicheck.vi.families.family import Family
from vicheck.vi.families.moments import mean_and_sd

__all__ = ["MAX_DENSE", "Place", "place_of"]

Floats = NDArray[np.float64]

MAX_DENSE = 256
"""Up to this dimension a place has a covariance, and modes have a Hessian."""
_REACH = 4.0
"""Sds that draws of an approximation reach to."""
_PLACE_DRAWS = 1000
"""Draws that mean and covariance of an approximation made elsewhere are estimated from."""


@dataclass(frozen=True, eq=False)
class Place:
    """Mean and sds of an approximation, of shape ``(d,)``, on the unconstrained scale.

    ``root`` is a root of the covariance matrix, where that is known and not diagonal.
    """

    mean: Any
    sd: Any
    root: Any = None

    @property
    def log_volume(self) -> float:
        """Log of the integral of a Gaussian of this size and of height 1."""
        log_sizes = np.log(self.sd).sum()
        if self.root is not None:
            log_sizes = np.linalg.slogdet(self.root)[1]
        return float(log_sizes + 0.5 * len(self.sd) * np.log(2.0 * np.pi))

    def standardised(self, z: Floats) -> Floats:
        """Return points of shape ``(n, d)`` in coordinates in which this is N(0, 1)."""
        away = z - self.mean
        return np.asarray(
            away / self.sd if self.root is None else np.linalg.solve(self.root, away.T).T
        )

    def distances(self, z: Floats) -> Floats:
        """Return how far points of shape ``(n, d)`` are from the mean, in sds along the way."""
        return np.asarray(np.linalg.norm(self.standardised(z), axis=1))

    def reaches(self, z: Floats) -> NDArray[np.bool_]:
        """Say which points lie no farther from the mean than draws do along their direction."""
        return self.distances(z) <= _REACH


def place_of(around: Family | Approximation | Draws | Place, model: Model) -> Place:
    """Return where an approximation lies, or say what is wrong with what was given for it."""
    if isinstance(around, Place):
        return _checked(around, model)
    if isinstance(around, Approximation):
        around = around.family() or around.draws(_PLACE_DRAWS)
    if isinstance(around, Draws):
        theta = {name: around.values[name][:_PLACE_DRAWS] for name, _ in model.program.layout}
        z = np.asarray(jax.vmap(lambda row: model.program.unconstrain(row, model.data))(theta))
        return _from_moments(z.mean(axis=0), np.cov(z, rowvar=False).reshape(model.dim, model.dim))
    if not isinstance(around, HasMoments) or model.dim > MAX_DENSE:
        return _checked(Place(*mean_and_sd(around)), model)
    if isinstance(around, HasRoots):  # in NumPy: single operations take JAX long to compile
        scales, factor = around.roots()
        covariance = factor @ factor.T
        covariance[np.diag_indices(len(scales))] += np.square(scales)
        return _from_moments(np.asarray(around.mean), covariance)
    return _from_moments(np.asarray(around.mean), np.asarray(around.covariance()))


def _from_moments(mean: Floats, covariance: Floats) -> Place:
    sd = np.sqrt(np.diagonal(covariance))
    if len(mean) > MAX_DENSE:
        return Place(mean, sd)
    values, vectors = np.linalg.eigh(covariance / np.outer(sd, sd))
    return Place(mean, sd, sd[:, None] * vectors * np.sqrt(np.maximum(values, 1e-12)))


def _checked(given: Place, model: Model) -> Place:
    mean, sd = (np.asarray(array, np.float64) for array in (given.mean, given.sd))
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
    return Place(mean, sd, given.root)
