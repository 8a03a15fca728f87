"""Generalised Pareto distribution in the log domain: fit, posterior of the shape, quantiles.

Exceedances go in and come out as logarithms, so that a tail may span thousands of nats. The density
of an exceedance x > 0 is (1 + k x / sigma)^(-1/k - 1) / sigma.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MAX_LOG_SPREAD",
    "PRIOR_SHAPE",
    "PRIOR_WEIGHT",
    "GpdFit",
    "fit_gpd",
    "grid_size",
    "log_quantiles",
    "quartile_index",
]

PRIOR_SHAPE = 0.5
"""Centre of the weak prior on k (Vehtari et al. 2024)."""

PRIOR_WEIGHT = 10.0
"""Weight of that prior, counted in exceedances."""

MAX_LOG_SPREAD = 38.0
"""A tail whose largest exceedance is more nats than this above its first quartile is wide."""

Floats = NDArray[np.float64]


class GpdFit(NamedTuple):
    """A fitted generalised Pareto distribution, or one for each row of exceedances.

    ``k`` is shrunk by the weak prior; ``log_sigma`` belongs to the unshrunk k. ``k_grid`` and
    ``weights`` are the profile posterior on Zhang and Stephens' grid, before shrinkage.
    """

    k: Floats
    log_sigma: Floats
    k_grid: Floats
    weights: Floats


def fit_gpd(log_exceedances: Floats) -> GpdFit:
    """Fit a generalised Pareto distribution by Zhang and Stephens' (2009) estimator.

    Parameters
    ----------
    log_exceedances
        Logarithms of N >= 5 exceedances over the cut-off, sorted ascending, along the last axis.
        ``-inf`` stands for an exceedance of zero; the first quartile must be positive.

    Returns
    -------
    GpdFit
        Shape, scale and the posterior of the shape on `grid_size` points.

    Notes
    -----
    The likelihood is profiled over theta = -k / sigma, where k(theta) = mean log(1 - theta x);
    grid, weights and the mean over them are those of Zhang and Stephens (2009). The
    weak prior of Vehtari et al. (2024) then moves k to (N k + 10 * 0.5) / (N + 10).

    Examples
    --------
    >>> import numpy as np
    >>> u = (np.arange(1000) + 0.5) / 1000
    >>> fit = fit_gpd(log_quantiles(u, k=0.7, log_sigma=3.0))
    >>> round(float(fit.k), 2), round(float(fit.log_sigma), 2)
    (0.7, 3.0)
    """
    size = log_exceedances.shape[-1]
    # theta is measured in units of 1 / x_*, x_* being the first quartile of the exceedances.
    log_unit = log_exceedances[..., quartile_index(size)]
    log_x = log_exceedances - log_unit[..., None]
    num_grid = grid_size(size)
    steps = np.sqrt(num_grid / (np.arange(num_grid) + 0.5)) - 1.0
    theta_grid = np.exp(-log_x[..., -1:]) - steps / 3.0

    k_grid = _mean_log1p(log_x, theta_grid)
    log_density = _log_rate(theta_grid, k_grid, log_x) - k_grid
    weights = np.exp(size * (log_density - log_density.max(axis=-1, keepdims=True)))
    weights /= weights.sum(axis=-1, keepdims=True)

    theta = np.sum(weights * theta_grid, axis=-1, keepdims=True)
    k = _mean_log1p(log_x, theta)
    log_sigma = log_unit - _log_rate(theta, k, log_x)[..., 0]
    total = size + PRIOR_WEIGHT
    shrunk = k[..., 0] * (size / total) + PRIOR_SHAPE * (PRIOR_WEIGHT / total)
    return GpdFit(shrunk, log_sigma, k_grid, weights)


def grid_size(num_exceedances: int) -> int:
    """Return the number of grid points, 30 + floor(sqrt(N)) as in the R package loo."""
    return 30 + int(np.sqrt(num_exceedances))


def quartile_index(num_exceedances: int) -> int:
    """Return the index of Zhang and Stephens' first quartile, the floor(N/4 + 1/2)-th value."""
    return int(num_exceedances / 4 + 0.5) - 1


def log_quantiles(probabilities: Floats, k: float, log_sigma: float) -> Floats:
    """Return the logarithms of the quantiles sigma ((1 - u)^(-k) - 1) / k.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(log_quantiles(np.array([0.5]), k=1.0, log_sigma=0.0))
    array([1.])
    """
    hazard = -np.log1p(-probabilities)
    power = np.abs(k) * hazard
    if k == 0.0 or power.max() < 1e-12:
        return np.asarray(log_sigma + np.log(hazard))
    # log((exp(a) - 1) / k) with a = k * hazard of either sign and any size.
    log_ratio = np.log(-np.expm1(-power)) - np.log(np.abs(k))
    return np.asarray(log_sigma + (log_ratio + power if k > 0.0 else log_ratio))


def _mean_log1p(log_x: Floats, theta: Floats) -> Floats:
    """Return mean_i log(1 - theta_j x_i) for each j."""
    wide = log_x[..., -1] >= MAX_LOG_SPREAD
    if not wide.any():
        terms = theta[..., None] * -np.exp(log_x)[..., None, :]
        return np.asarray(np.log1p(terms, out=terms).mean(axis=-1))
    if not wide.all():
        result = np.empty_like(theta)
        for which in (wide, ~wide):
            result[which] = _mean_log1p(log_x[which], theta[which])
        return result
    # So wide a tail has theta < 0 throughout, and log(1 + exp(...)) needs no exp. The sum of the
    # terms may exceed all doubles, their mean cannot.
    terms = np.logaddexp(0.0, np.log(-theta)[..., None] + log_x[..., None, :])
    return np.asarray((terms / log_x.shape[-1]).sum(axis=-1))


def _log_rate(theta: Floats, k: Floats, log_x: Floats) -> Floats:
    """Return log(-theta / k) = -log sigma, which tends to -log mean(x) as theta tends to 0."""
    exponential = k == 0.0
    result = np.log(np.divide(-theta, k, out=np.ones_like(theta), where=~exponential))
    if exponential.any():
        limit = -np.log(np.exp(log_x).mean(axis=-1, keepdims=True))
        result = np.where(exponential, limit, result)
    return np.asarray(result)
