"""Expectations and standard deviations from weighted draws, with their errors.

The four estimates of the paper's equation 3 differ only in the weights: get log weights from
`plain_log_weights`, `importance_log_weights`, `truncated_log_weights` or `psis(...).log_weights`
and pass them to `expectation`, or to `vicheck.stats.quantiles.quantiles`. Draws come first:
``values`` has shape ``(S,)`` or ``(S, ...)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicheck.results.estimates import Estimate
from vicheck.stats.products import khats_of_columns
from vicheck.stats.psis import as_vector, psis_quietly, warn_undefined

__all__ = [
    "draws_and_weights",
    "estimates",
    "expectation",
    "importance_log_weights",
    "khat_of",
    "plain_log_weights",
    "truncated_log_weights",
    "unwrapped",
]

Floats = NDArray[np.float64]


def plain_log_weights(num_draws: int) -> Floats:
    """Return equal log weights, those of the plain estimate: trust q as it is."""
    return np.full(num_draws, -np.log(num_draws))


def importance_log_weights(log_ratios: ArrayLike) -> Floats:
    """Return the normalised log ratios themselves: importance sampling, the paper's equation 3."""
    log_r = as_vector(log_ratios)
    peak = log_r.max()
    if not np.isfinite(peak):
        return np.full(log_r.size, np.nan)
    with np.errstate(under="ignore"):
        return np.asarray(log_r - peak - np.log(np.exp(log_r - peak).sum()))


def truncated_log_weights(log_ratios: ArrayLike) -> Floats:
    """Return log weights cut off at sqrt(S) times their mean and normalised (Ionides 2008).

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(truncated_log_weights(np.log([1.0, 1.0, 1.0, 97.0]))).round(3)
    array([0.019, 0.019, 0.019, 0.943])
    """
    # For normalised weights the mean is 1 / S, and sqrt(S) times the mean is 1 / sqrt(S).
    log_weights = importance_log_weights(log_ratios)
    return importance_log_weights(np.minimum(log_weights, -0.5 * np.log(log_weights.size)))


def expectation(values: ArrayLike, log_weights: ArrayLike) -> Estimate:
    """Estimate mean and standard deviation of quantities from weighted draws.

    Parameters
    ----------
    values
        The quantities at each draw, shape ``(S,)`` or ``(S, ...)``.
    log_weights
        Normalised log weights of the draws, shape ``(S,)``.

    Returns
    -------
    Estimate
        ``mean``, ``sd``, their Monte Carlo standard errors ``mcse`` and ``mcse_sd``, and ``ess``,
        the number of independent draws from the posterior that would estimate the mean as well.

    Notes
    -----
    mcse^2 = sum w^2 (h - mean)^2, the delta method for a ratio of two averages; it holds when khat
    is below the threshold, and may be far too small when khat is above it. The variance is
    divided by 1 - sum w^2, which is (S - 1) / S for equal weights. Draws of weight zero do not
    count, whatever their value.

    Examples
    --------
    >>> import numpy as np
    >>> theta = 0.8 * np.random.default_rng(1).normal(size=10_000)     # q = N(0, 0.8^2)
    >>> log_ratios = -theta**2 / 2 + theta**2 / (2 * 0.8**2)           # p = N(0, 1)
    >>> plain = expectation(theta, plain_log_weights(10_000))
    >>> smoothed = expectation(theta, vicheck.psis(log_ratios).log_weights)
    >>> round(plain.sd, 2), round(smoothed.sd, 2)
    (0.8, 1.01)
    """
    h, weights = draws_and_weights(values, log_weights)
    h[weights == 0.0] = 0.0
    # A single draw or a constant quantity divides by zero; tiny weights vanish when squared.
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        mean = np.tensordot(weights, h, axes=1)
        square = (h - mean) ** 2
        sum_of_squares = weights @ weights
        spread = np.tensordot(weights, square, axes=1)
        sd = np.sqrt(spread / (1.0 - sum_of_squares))
        mcse = np.sqrt(np.tensordot(weights**2, square, axes=1))
        mcse_sd = np.sqrt(np.tensordot(weights**2, (square - spread) ** 2, axes=1)) / (2.0 * sd)
        ess = np.where(mcse == 0.0, 1.0 / sum_of_squares, spread / mcse**2)
    return Estimate(*(unwrapped(part) for part in (mean, sd, mcse, mcse_sd, ess)))


def estimates(values: ArrayLike, log_ratios: ArrayLike) -> dict[str, Estimate]:
    """Estimate means and sds of quantities in four ways side by side.

    Parameters
    ----------
    values
        The quantities at each draw from q, shape ``(S,)`` or ``(S, ...)``.
    log_ratios
        Log importance ratios of the draws, ``log_p - log_q``, shape ``(S,)``.

    Returns
    -------
    dict
        An `Estimate` for each of ``"plain"`` (equal weights: q as it is), ``"is"`` (importance
        sampling), ``"tis"`` (truncated, Ionides 2008) and ``"psis"`` (Pareto-smoothed). Those
        with weights are `nan` when the ratios hold NaN or +inf or are all zero.

    Examples
    --------
    >>> import numpy as np
    >>> theta = 0.8 * np.random.default_rng(1).normal(size=10_000)
    >>> log_ratios = -theta**2 / 2 + theta**2 / (2 * 0.8**2)
    >>> {name: round(e.sd, 2) for name, e in estimates(theta, log_ratios).items()}
    {'plain': 0.8, 'is': 1.01, 'tis': 1.01, 'psis': 1.01}
    """
    log_r = as_vector(log_ratios)
    smoothed = psis_quietly(log_r)
    warn_undefined(smoothed)
    return {
        "plain": expectation(values, plain_log_weights(log_r.size)),
        "is": expectation(values, importance_log_weights(log_r)),
        "tis": expectation(values, truncated_log_weights(log_r)),
        "psis": expectation(values, smoothed.log_weights),
    }


def khat_of(
    values: ArrayLike,
    log_ratios: ArrayLike,
    *,
    center: ArrayLike | None = None,
    tail_length: int | None = None,
) -> Any:
    """Estimate the khat that governs the error of one quantity's mean.

    This is the larger khat of the two tails of (h - center) r. It can be far below the joint khat,
    when the large ratios lie where h is close to its mean, or above it, when h itself is large
    there.

    Parameters
    ----------
    values
        The quantity h at each draw, shape ``(S,)`` or ``(S, ...)``.
    log_ratios
        Log importance ratios of the draws, shape ``(S,)``.
    center
        Constant subtracted from h. By default its Pareto-smoothed mean: the weights are
        normalised, so the error of the mean is that of an average of (h - mean) r. ``center=0``
        gives the tails of h r, which matter when p and q are both normalised.
    tail_length
        As in `vicheck.psis`.

    Returns
    -------
    float or numpy.ndarray
        khat of each quantity: 0 for a constant one, `nan` where neither tail can be fitted.

    Examples
    --------
    >>> import numpy as np
    >>> theta = np.random.default_rng(1).normal(size=(10_000, 2)) * [0.5, 1.0]
    >>> log_ratios = 1.5 * theta[:, 0] ** 2                 # q is too narrow in theta[0] only
    >>> bool(vicheck.psis_khat(log_ratios) > 0.5)
    True
    >>> khat_of(np.exp(-theta[:, 0] ** 2), log_ratios, center=0.0) < 0.4
    True
    """
    log_r = as_vector(log_ratios)
    h = _as_draws(values, log_r.size)
    smoothed = psis_quietly(log_r, tail_length=tail_length)
    warn_undefined(smoothed)
    if center is None:
        center = expectation(h, smoothed.log_weights).mean
    center = np.asarray(center, dtype=np.float64)
    if center.shape not in ((), h.shape[1:]):
        raise ValueError(
            f"center must be a number or have shape {h.shape[1:]}, got shape {center.shape}"
        )
    columns = h.reshape(len(h), -1)
    centers = np.array(np.broadcast_to(center, h.shape[1:]).ravel())
    khats = khats_of_columns(columns, centers, log_r, tail_length)
    return unwrapped(khats.reshape(h.shape[1:]))


def draws_and_weights(values: ArrayLike, log_weights: ArrayLike) -> tuple[Floats, Floats]:
    """Return quantities as an array of their own, and the weights; or raise what is wrong."""
    log_w = np.asarray(log_weights, dtype=np.float64)
    if log_w.ndim != 1 or log_w.size == 0:
        raise ValueError(f"log_weights must have shape (S,), got shape {log_w.shape}")
    h = _as_draws(values, log_w.size)
    with np.errstate(under="ignore"):
        weights = np.exp(log_w)
    if abs(weights.sum() - 1.0) > 1e-6:
        raise ValueError(
            f"log_weights must be normalised, but the weights sum to {weights.sum():.6g}; "
            "pass log ratios to importance_log_weights or psis first"
        )
    return h, weights


def _as_draws(values: ArrayLike, num_draws: int) -> Floats:
    """Return quantities as float64 with one row for each draw; always a copy."""
    array = np.asarray(values)
    if isinstance(values, np.ma.MaskedArray) or array.dtype.kind not in "fiub":
        kind = "a masked array" if array.dtype.kind in "fiub" else f"dtype {array.dtype}"
        raise TypeError(f"values must be real numbers, got {kind}")
    if array.ndim == 0 or array.shape[0] != num_draws:
        raise ValueError(
            f"values must have one row for each of the {num_draws} draws, got shape {array.shape}"
        )
    return array.astype(np.float64)


def unwrapped(values: Any) -> Any:
    """Return a number for an array without dimensions, and other arrays as they are."""
    array = np.asarray(values)
    return array.item() if array.ndim == 0 else array
