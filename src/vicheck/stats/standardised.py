"""Draws of an approximation in units of its own: independent standard normals, as far as can be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_WHITENED", "Standard", "compressed", "from_moments", "from_ranks"]

Floats = NDArray[np.float64]

MAX_WHITENED = 1000
"""Up to this dimension correlations of q are taken out; above it draws are only scaled."""
_COMPRESSED_FROM = 3.0
"""Robust sds from the median beyond which log ratios count for their logarithm."""
_LEAST_UNIT = 0.05
"""Nats from the median that are never compressed."""
_IQR = 1.349
"""Of a standard normal."""
_NOISE = 6.0
"""Correlations of so many standard errors, and less, may be those of independent draws."""


class Standard(NamedTuple):
    """Draws in units of q, shape ``(S, d)``, and the slopes of the log ratio in the same units."""

    e: Floats
    slopes: Floats | None


def from_moments(z: Floats, slopes: Floats, mean: Floats, covariance: Floats) -> Standard:
    """Standardise draws whose mean and covariance under q are known.

    Each coordinate stays as close to itself as independent ones can (Mahalanobis whitening of the
    correlations), so that it can keep its name. ``covariance`` may be the variances alone.
    """
    sd = np.sqrt(covariance if covariance.ndim == 1 else np.diagonal(covariance))
    e, slopes = (z - mean) / sd, slopes * sd
    if covariance.ndim == 1 or np.count_nonzero(covariance) == len(sd):
        return Standard(e, slopes)
    root, inverse = _roots(covariance / np.outer(sd, sd))
    return Standard(e @ inverse, slopes @ root)


def from_ranks(values: Floats) -> Standard:
    """Standardise draws of which nothing else is known, by their ranks.

    Normal scores do not depend on the scale that a parameter is written on: where q is Gaussian and
    independent on some scale, they are its noise.
    """
    from scipy.special import ndtri

    num_draws, dim = values.shape
    ranks = np.argsort(np.argsort(values, axis=0, kind="stable"), axis=0, kind="stable")
    e = np.asarray(ndtri((ranks + 0.5) / num_draws))
    if 1 < dim <= min(MAX_WHITENED, num_draws // 4):
        correlation = e.T @ e / num_draws
        np.fill_diagonal(correlation, 1.0)
        if np.abs(correlation - np.eye(dim)).max() * np.sqrt(num_draws) > _NOISE:
            e = e @ _roots(correlation)[1]
    return Standard(e, None)


def _roots(correlation: Floats) -> tuple[Floats, Floats]:
    """Return the symmetric root of a correlation matrix, and its inverse."""
    values, vectors = np.linalg.eigh(correlation)
    roots = np.sqrt(np.maximum(values, 1e-10))
    return (vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T


def compressed(log_ratios: Floats, slopes: Floats | None) -> tuple[Floats, Floats | None]:
    """Return log ratios whose extremes count for their logarithm, centred, and their slopes.

    Draws that q puts where p has next to nothing have log ratios far below all others; a mean of
    squares would be about these alone, and not about the right tail. What is returned is a smooth
    function of the log ratio, and its slopes are those of this function.
    """
    middle = np.median(log_ratios)
    low, high = np.quantile(log_ratios, [0.25, 0.75])
    unit = max(_LEAST_UNIT, _COMPRESSED_FROM * float(high - low) / _IQR)
    x = (log_ratios - middle) / unit
    ratios = unit * np.arcsinh(x)
    if slopes is not None:
        slopes = slopes / np.sqrt(1.0 + x * x)[:, None]
    return ratios - ratios.mean(), slopes
