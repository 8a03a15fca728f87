"""PSIS-LOO from draws of an approximation, and the weights of stacking.

Vehtari, Gelman and Gabry (2017); with draws of an approximation Magnusson et al. (2019). Stacking:
Yao, Vehtari, Simpson and Gelman (2018b); of modes, Yao, Vehtari and Gelman (2022).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.results.psis import PsisResult
from vicheck.stats.psis import psis_quietly
from vicheck.stats.tail_lengths import SMALL_MULTIPLE

__all__ = ["Loo", "khat_is_high", "psis_loo", "stacking_weights"]

Floats = NDArray[np.float64]

_NUMBERS = 2**22
"""Ratios, of some observations at all draws, that are smoothed together."""
_SMALLEST_BARRIER = 1e-11
"""Per observation, as the gain that is still possible; smaller weights than its root are zero."""


class Loo(NamedTuple):
    """Log predictive densities of observations, each given all others."""

    elpd: Floats
    khat: Floats
    is_high: NDArray[np.bool_]
    """Where khat says that importance sampling fails: see `khat_is_high`."""


def psis_loo(log_ratios: Floats, log_likelihood: Floats) -> Loo:
    """Estimate the log predictive density of each observation given all others.

    Parameters
    ----------
    log_ratios
        ``log_p - log_q`` at draws from q, shape ``(S,)``.
    log_likelihood
        Log likelihood of each observation at these draws, shape ``(S, n)``.

    Notes
    -----
    Without observation i the ratio of a draw is ``p / q`` divided by its likelihood. Smoothing
    comes after both, so one khat judges q and leaving out together.
    """
    size = max(1, _NUMBERS // len(log_ratios))
    parts = []
    for start in range(0, log_likelihood.shape[1], size):
        each = np.ascontiguousarray(log_likelihood[:, start : start + size].T)
        with np.errstate(invalid="ignore", under="ignore"):
            without = log_ratios - each
            smoothed = psis_quietly(without)
            elpd = np.logaddexp.reduce(smoothed.log_weights + each, axis=1)
        parts.append((elpd, smoothed.khat, khat_is_high(without, smoothed)))
    return Loo(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def khat_is_high(log_ratios: Floats, smoothed: PsisResult) -> NDArray[np.bool_]:
    """Whether khat is not below its threshold, and the largest ratios are large indeed.

    Where the ratios of all draws are nearly equal, as without one of many observations and with few
    parameters, their tail is not Pareto, and its khat can be anything. A largest ratio of ten times
    their mean, or less, is no sign of a heavy tail whatever khat is.
    """
    with np.errstate(invalid="ignore", under="ignore"):
        peak = log_ratios.max(axis=-1, keepdims=True)
        in_means = 1.0 / np.exp(log_ratios - peak).mean(axis=-1)
    return np.asarray(~(smoothed.khat < smoothed.threshold) & ~(in_means <= SMALL_MULTIPLE))


def stacking_weights(elpd: Floats) -> Floats:
    """Return the weights on the simplex that maximise the log predictive density of the mixture.

    Parameters
    ----------
    elpd
        Log predictive densities, shape ``(n, K)``: a row for each observation, a column for each
        predictive distribution. NaN, or an observation that none can predict, makes weights NaN.

    Notes
    -----
    The sum over i of ``log sum_k w_k exp(elpd_ik)`` is concave. It is maximised by Newton's method
    with a logarithmic barrier that vanishes. The constraint that weights sum to one is a term
    ``-n sum_k w_k``: the objective is homogeneous but for it. What is missing from the maximum is
    about n K times the last barrier. Columns that are equal get equal weights.

    Examples
    --------
    >>> import numpy as np
    >>> from vicheck.stats.stacking import stacking_weights
    >>> elpd = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])     # 0.9 w + 0.1 (1 - w) = 2/3
    >>> stacking_weights(elpd).round(6).tolist()
    [0.708333, 0.291667]
    """
    count = elpd.shape[1]
    top = elpd.max(axis=1, keepdims=True)
    if count == 1 or not np.isfinite(top).all():  # the largest is NaN where any is
        return np.full(count, 1.0 if count == 1 else np.nan)
    with np.errstate(under="ignore"):
        densities = np.exp(elpd - top)
        weights, barrier = np.full(count, 1.0 / count), 1.0
        while barrier >= _SMALLEST_BARRIER:
            weights = _centred(densities, weights, barrier)
            barrier *= 0.1
    weights[weights < np.sqrt(_SMALLEST_BARRIER)] = 0.0
    return np.asarray(weights / weights.sum())


def _centred(densities: Floats, weights: Floats, barrier: float) -> Floats:
    """Maximise the mean log of the mixture minus the sum of weights, plus the barrier."""

    def objective(w: Floats) -> float:
        logs = np.log(densities @ w).mean() + barrier * np.log(w).sum()
        return float(logs - w.sum())

    value = objective(weights)
    for _ in range(100):
        ratios = densities / (densities @ weights)[:, None]
        slope = ratios.mean(axis=0) - 1.0 + barrier / weights
        curvature = ratios.T @ ratios / len(ratios) + np.diag(barrier / weights**2)
        step = np.linalg.solve(curvature, slope)
        gain = float(slope @ step)
        if gain <= 1e-6 * barrier:
            break
        falls = step < 0.0
        size = min(1.0, 0.95 * float(np.min(-weights[falls] / step[falls], initial=np.inf)))
        while (new := objective(weights + size * step)) < value + 0.1 * size * gain:
            size *= 0.5
            if size < 1e-10:  # the rest is rounding
                return weights
        weights, value = weights + size * step, new
    return weights
