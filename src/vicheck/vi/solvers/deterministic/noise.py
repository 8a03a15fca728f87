"""Fixed standard normal noise for the deterministic solver: antithetic, from scrambled Sobol."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

from vicheck.runtime.seeds import generators

__all__ = ["FEWEST", "make_noise", "standardised"]

Floats = NDArray[np.float64]

FEWEST = 32
"""Fewest draws of a fit: half of them noise, the other half its negative."""

_MAX_SOBOL_DIM = 1000
"""Above it, pseudo-random numbers: a few hundred Sobol points are no better, and cost more."""

_LEAST = 1e-12
"""No point is closer to a face of the cube, where normal numbers are infinite."""


def make_noise(num_draws: int, dim: int, seeds: NDArray[np.int64]) -> Floats:
    """Return standard normal numbers for each seed, shape ``(seeds, num_draws / 2, dim)``.

    Their negatives are the other half of the draws. Points in the unit cube are shifted, modulo 1,
    by each seed: averages over such sets are independent of each other, and the points are kept,
    because making them costs more than a fit. A short set is the beginning of a longer one, so that
    doubling the draws keeps the existing ones.
    """
    shifts = [rng.random(dim) for rng in generators(np.random.PCG64, seeds, dim)]
    noise = _points(num_draws // 2, dim) + np.array(shifts)[:, None]
    noise -= noise >= 1.0
    np.clip(noise, _LEAST, 1.0 - _LEAST, out=noise)
    return np.asarray(ndtri(noise, out=noise))


def standardised(noise: Floats, pairs: bool = True, per_coordinate: int = 2) -> Floats:
    """Return sets of normal numbers with unit second moments: exactly one for each coordinate.

    When there are so many of them ``per_coordinate``, each to be mirrored, the moments of ``pairs``
    are made zero too. On such noise the optimum for a Gaussian posterior is found exactly. Halves
    that are long enough are treated each for itself, so that here too a short set is the beginning
    of a longer one.
    """
    _, count, dim = noise.shape
    exact = pairs and count >= per_coordinate * dim
    half = count // 2
    if 2 * half >= FEWEST and (half >= per_coordinate * dim or not exact):
        parts = np.split(noise, [half], axis=1)
        halves = (standardised(part, pairs, per_coordinate) for part in parts)
        return np.concatenate(list(halves), axis=1)
    if not exact:
        return np.asarray(noise / np.sqrt(np.square(noise).mean(axis=1, keepdims=True)))
    moments = np.swapaxes(noise, 1, 2) @ noise / count
    inverse = np.linalg.inv(np.linalg.cholesky(moments))
    return np.asarray(noise @ np.swapaxes(inverse, 1, 2))


@lru_cache(maxsize=4)
def _points(num_points: int, dim: int) -> Floats:
    rng = np.random.default_rng(0)
    if dim > _MAX_SOBOL_DIM:
        return rng.random((num_points, dim))
    return np.asarray(Sobol(dim, rng=rng).random(num_points))
