"""Truths by brute force, from the density that is fitted: quadrature and importance sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from truth.problem import Moments, Truth
from vicheck.model import Model, double_precision

__all__ = ["by_importance_sampling", "by_quadrature", "moments_of"]

Floats = Any
Box = Sequence[tuple[float, float]]

_NEGLIGIBLE = 45.0
"""Nats below the maximum from which on a point does not count."""
_CHUNK = 20_000


def by_quadrature(model: Model, box: Box, size: int, coarse: int | None = None) -> Truth:
    """Return moments and evidence on a grid of ``size`` points in each coordinate of z.

    ``box`` has to hold all of the posterior. A first grid, of ``coarse`` points in each coordinate,
    finds the part of it that counts. The sum over a grid of a smooth density that vanishes at the
    border converges faster than any power of the spacing.
    """
    if coarse:
        points, _ = _grid(box, coarse)
        values = _log_densities(model, points)
        counts = points[values > values.max() - _NEGLIGIBLE]
        widths = [2.0 * (high - low) / (coarse - 1) for low, high in box]
        box = [
            (max(low, part.min() - width), min(high, part.max() + width))
            for (low, high), part, width in zip(box, counts.T, widths, strict=True)
        ]
    points, volume = _grid(box, size)
    values = _log_densities(model, points)
    weights = np.exp(values - logsumexp(values))
    keep = weights > 0.0
    edge = np.zeros(len(points), dtype=bool)
    for (low, high), column in zip(box, points.T, strict=True):
        edge |= (column == low) | (column == high)
    if weights[edge].sum() > 1e-6:
        raise ValueError(f"the border of the grid holds {weights[edge].sum():.1e} of the posterior")
    known = moments_of(model, points[keep], weights[keep])
    return Truth(known, "quadrature", float(logsumexp(values) + np.log(volume)))


def by_importance_sampling(model: Model, num_draws: int = 400_000, freedom: float = 5.0) -> Truth:
    """Return moments by draws from a t around the mode of a posterior that has only one.

    The tails of the t are heavier than the posterior's, so the weights are bounded; their effective
    number says how well the moments are known.
    """
    mode, covariance = _laplace(model)
    rng = np.random.default_rng(20_270)
    root = np.linalg.cholesky(1.2 * covariance)
    normals = rng.standard_normal((num_draws, model.dim))
    stretch = rng.chisquare(freedom, num_draws) / freedom
    points = mode + normals @ root.T / np.sqrt(stretch)[:, None]
    distances = (normals**2).sum(axis=1) / stretch
    log_t = -0.5 * (freedom + model.dim) * np.log1p(distances / freedom)
    log_ratios = _log_densities(model, points) - log_t
    weights = np.exp(log_ratios - logsumexp(log_ratios))
    if weights.max() > 1e-3:
        raise ValueError(f"one draw has the weight {weights.max():.2g}: the t does not fit")
    known = moments_of(model, points, weights)
    return Truth(known, "importance sampling", num_draws=float(1.0 / (weights**2).sum()))


def moments_of(model: Model, z: Floats, weights: Floats) -> dict[str, Moments]:
    """Return mean and sd of everything the model reports, from weighted points."""
    total: dict[str, Floats] = {}
    for place in range(0, len(z), _CHUNK):
        part = model.constrain(z[place : place + _CHUNK])
        for name, values in part.items():
            total.setdefault(name, []).append(values)
    known = {}
    for name, parts in total.items():
        values = np.concatenate(parts).astype(float)
        columns = values.reshape(len(values), -1)
        means = weights @ columns
        sds = np.sqrt(weights @ (columns - means) ** 2)
        labels = model.indexing.labels({name: values.shape[1:]})
        for label, mean, sd in zip(labels, means, sds, strict=True):
            known[label] = Moments(float(mean), float(sd))
    return known


def _grid(box: Box, size: int) -> tuple[Floats, float]:
    ticks = [np.linspace(low, high, size) for low, high in box]
    points = np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, len(box))
    return points, float(np.prod([each[1] - each[0] for each in ticks]))


def _log_densities(model: Model, z: Floats) -> Floats:
    """Return log densities, minus infinity where they are undefined, in chunks of one size."""
    values = []
    for place in range(0, len(z), _CHUNK):
        part = z[place : place + _CHUNK]
        padded = np.concatenate([part, np.repeat(part[:1], _CHUNK - len(part), axis=0)])
        values.append(model.log_density(padded)[: len(part)])
    joined = np.concatenate(values)
    return np.where(np.isnan(joined), -np.inf, joined)


def _laplace(model: Model) -> tuple[Floats, Floats]:
    """Return the mode and the inverse curvature there."""
    with double_precision():
        density = jax.jit(lambda z: -model.program.log_density(z, model.data))
        slope, curve = jax.jit(jax.grad(density)), jax.jit(jax.hessian(density))
        found = minimize(
            lambda z: float(density(z)),
            np.zeros(model.dim),
            jac=lambda z: np.asarray(slope(z)),
            method="BFGS",
        )
        covariance = np.linalg.inv(np.asarray(curve(found.x)))
    multivariate_normal(cov=covariance)  # raises unless it is positive definite
    return found.x, covariance
