"""How far a khat can be trusted: bands, threshold, draws needed, convergence rate.

Equation numbers are those of Vehtari, Simpson, Gelman, Yao and Gabry (2024), "Pareto smoothed
importance sampling", JMLR 25(72); "the paper" is Yao, Vehtari, Simpson and Gelman (2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

__all__ = [
    "GOOD_BELOW",
    "USABLE_BELOW",
    "convergence_rate",
    "khat_threshold",
    "min_draws",
]

GOOD_BELOW = 0.5
"""The paper, section 2.2: below this the ratios have a variance, and PSIS converges fast."""

USABLE_BELOW = 0.7
"""The paper, section 2.2: above this PSIS converges too slowly to be of use."""


def khat_threshold(num_draws: int) -> float:
    """Return the largest khat for which this many draws give a reliable PSIS estimate.

    min(1 - 1 / log10(S), 0.7): Vehtari et al. (2024), equation 13, and never above the paper's
    0.7. It is minus infinity for a single draw.

    Examples
    --------
    >>> round(khat_threshold(100), 3), round(khat_threshold(1000), 3), khat_threshold(100_000)
    (0.5, 0.667, 0.7)
    """
    if num_draws < 1:
        raise ValueError(f"num_draws must be at least 1, got {num_draws}")
    if num_draws == 1:
        return -math.inf
    return min(1.0 - 1.0 / math.log10(num_draws), USABLE_BELOW)


def min_draws(khat: ArrayLike) -> Any:
    """Return the number of draws from which on a PSIS estimate with this khat is reliable.

    10^(1 / (1 - max(0, k))): Vehtari et al. (2024), equation 11. Infinite for k >= 1, `nan` where
    khat is.

    Examples
    --------
    >>> min_draws([0.0, 0.5, 1.2])
    array([ 10., 100.,  inf])
    """
    return _each(khat, _min_draws)


def convergence_rate(khat: ArrayLike, num_draws: int) -> Any:
    """Return how fast the root mean squared error of PSIS falls, relative to independent draws.

    1 is the rate of independent draws, 0 means that more draws do not help. Vehtari et al.
    (2024), appendix B: 1 for k < 0, 0 for k > 1, and in between
    max(0, [2 (k-1) S^(2k+1) + (1-2k) S^(2k) + S^2] / [(S-1) (S - S^(2k))]). Its limit at
    k = 1/2 is S / (S-1) - 1 / ln S; the R package posterior has 1 - 1 / ln S
    there, which is lower by 1 / (S-1).

    Examples
    --------
    >>> convergence_rate([-0.1, 0.5, 0.7, 1.3], 1000).round(3)
    array([1.   , 0.856, 0.574, 0.   ])
    """
    return _each(khat, lambda k: _convergence_rate(k, float(num_draws)))


def _min_draws(k: float) -> float:
    if math.isnan(k):
        return math.nan
    if k >= 1.0:
        return math.inf
    exponent = 1.0 / (1.0 - max(0.0, k))
    return math.inf if exponent > 308.0 else float(10.0**exponent)


def _convergence_rate(k: float, size: float) -> float:
    if math.isnan(k) or size < 2.0:
        return math.nan
    if k < 0.0:
        return 1.0
    if k > 1.0:
        return 0.0
    if abs(k - 0.5) < 1e-7:  # the fraction below is 0 / 0 there
        return size / (size - 1.0) - 1.0 / math.log(size)
    power = math.pow(size, 2.0 * k)
    numerator = 2.0 * (k - 1.0) * power * size + (1.0 - 2.0 * k) * power + size**2
    return max(0.0, numerator / ((size - 1.0) * (size - power)))


def _each(khat: ArrayLike, function: Callable[[float], float]) -> Any:
    """Apply a function of one number to a number or to each of an array."""
    if isinstance(khat, float):
        return function(khat)
    k = np.asarray(khat, dtype=np.float64)
    values = np.array([function(value) for value in k.ravel().tolist()])
    return values.reshape(k.shape) if k.ndim else values.item()
