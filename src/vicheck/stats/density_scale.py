"""The scale that log densities of draws are on, where their approximation is Gaussian."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["columns_on_their_own_scale"]

Floats = NDArray[np.float64]

_INTERVALS = ((0.0, 1.0), (-1.0, 1.0), (0.0, np.inf), (-np.inf, 0.0))
"""Constraints to try, narrowest first: draws seldom keep within one by chance."""
_SPARE_DRAWS = 10
"""Draws beyond the number of coefficients: with fewer, any density would fit."""
_ROUNDING = 1e-9
"""Largest residual of a log density that was computed in double precision, relative to its size."""
_MAX_STANDARD_ERRORS = 6.0
"""How far the draws' mean may be from that of their own density."""


def columns_on_their_own_scale(values: ArrayLike, log_q: ArrayLike) -> tuple[int, ...]:
    """Return the columns whose Jacobian is missing from ``log_q``, where that can be seen.

    Parameters
    ----------
    values
        Draws of all parameters on their own scale, shape ``(S, d)``.
    log_q
        Log densities of the draws, shape ``(S,)``, up to a constant.

    Returns
    -------
    tuple
        The columns that keep within a half-line or an interval, when ``log_q`` is a Gaussian
        density on the unconstrained scale minus the log Jacobian of those columns. Empty when it
        is the Gaussian density itself, or not Gaussian at all.

    Notes
    -----
    The log density of a Gaussian log x is quadratic in log x on either scale, but only on the
    unconstrained one is its centre where the draws are.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.random.default_rng(1).normal(size=(1000, 1))
    >>> log_q = -z[:, 0] ** 2 / 2
    >>> columns_on_their_own_scale(np.exp(z), log_q)  # the density of z
    ()
    >>> columns_on_their_own_scale(np.exp(z), log_q - z[:, 0])  # the density of exp(z)
    (0,)
    """
    draws, density = np.asarray(values, float), np.asarray(log_q, float)
    if not (np.isfinite(draws).all() and np.isfinite(density).all()):
        return ()
    pairs = [_unconstrained(column) for column in draws.T]
    z, log_jacobian = (np.column_stack(columns) for columns in zip(*pairs, strict=True))
    constrained = tuple(int(i) for i in np.flatnonzero(log_jacobian.any(axis=0)))
    if not constrained or _is_gaussian_around(z, density):
        return ()
    return constrained if _is_gaussian_around(z, density + log_jacobian.sum(axis=1)) else ()


def _unconstrained(x: Floats) -> tuple[Floats, Floats]:
    """Take a column to the real line, with the log of how fast x changes there."""
    for low, high in _INTERVALS:
        if low < x.min() and x.max() < high:
            below = np.log(x - low) if np.isfinite(low) else np.zeros_like(x)
            above = np.log(high - x) if np.isfinite(high) else np.zeros_like(x)
            width = high - low if np.isfinite(high - low) else 1.0
            return below - above, below + above - np.log(width)
    return x, np.zeros_like(x)


def _is_gaussian_around(z: Floats, density: Floats) -> bool:
    """Whether the density is that of a Gaussian whose mean is the mean of the draws."""
    size, dim = z.shape
    sd = z.std(axis=0)
    if not (sd > 0.0).all():
        return False
    u = (z - z.mean(axis=0)) / sd
    for left, right in ((np.arange(dim), np.arange(dim)), np.triu_indices(dim)):
        if size < len(left) + dim + 1 + _SPARE_DRAWS:
            return False
        design = np.concatenate([u[:, left] * u[:, right], u, np.ones((size, 1))], axis=1)
        coefficients = np.linalg.lstsq(design, density)[0]
        residual = density - design @ coefficients
        if np.abs(residual).max() > _ROUNDING * (1.0 + np.abs(density).max()):
            continue
        precision = np.zeros((dim, dim))
        precision[left, right] = -coefficients[: len(left)]
        precision += precision.T
        if np.linalg.eigvalsh(precision).min() <= 0.0:
            return False
        covariance = np.linalg.inv(precision)
        mean = covariance @ coefficients[len(left) : -1]  # that of the draws is zero
        limit = _MAX_STANDARD_ERRORS * np.sqrt(covariance.diagonal() / size)
        return bool((np.abs(mean) < limit).all())
    return False
