"""Whether chains have mixed: R-hat, effective sample sizes and Monte Carlo errors of their draws.

NumPyro's own diagnostics do the work. What is added is the rank normalisation of Vehtari et al.
(2021), which they lack, and NaN for quantities that are constant. Draws have the shape
``(chains, draws, scalars)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

__all__ = ["bulk_ess", "mcse", "rhat", "tail_ess"]

Floats = NDArray[np.float64]


def rhat(draws: Floats) -> Floats:
    """Rhat of normalised ranks, and of those of distances to the median, whichever is larger.

    Vehtari et al. (2021), section 3.2.
    """
    with np.errstate(invalid="ignore"):
        folded = np.abs(draws - np.median(draws, axis=(0, 1)))
    bulk, tail = (_undisturbed(split_gelman_rubin, _ranked(x)) for x in (draws, folded))
    # Draws of two values only are all at the same distance: that is no sign of trouble.
    return np.where(np.isnan(tail), bulk, np.maximum(bulk, tail))


def mcse(draws: Floats) -> Floats:
    """Monte Carlo standard errors of the means, shape ``(scalars,)``."""
    with np.errstate(invalid="ignore"):  # a derived quantity may be infinite
        sd = draws.std(axis=(0, 1), ddof=1)
    return np.where(sd > 0.0, sd / np.sqrt(_ess(draws)), 0.0)


def bulk_ess(draws: Floats) -> Floats:
    """Effective sample size of normalised ranks (Vehtari et al. 2021, section 3.3)."""
    return _ess(_ranked(draws))


def tail_ess(draws: Floats) -> Floats:
    """Effective sample size of the 5% and the 95% quantile, whichever is smaller (the same, 4.3).

    Of a quantity with few values a quantile may be its least or largest: that one says nothing.
    """
    with np.errstate(invalid="ignore"):
        quantiles = np.quantile(draws, [0.05, 0.95], axis=(0, 1))
        low, high = (_ess(np.where(draws <= each, 1.0, 0.0)) for each in quantiles)
    known = np.isfinite(draws).all(axis=(0, 1)) & (draws != draws[0, 0]).any(axis=(0, 1))
    return np.where(known, np.fmin(low, high), np.nan)


def _ess(draws: Floats) -> Floats:
    """Effective sample size of split chains, at most S log10(S) as in Stan."""
    length = draws.shape[1]
    half = length // 2
    split = np.concatenate([draws[:, :half], draws[:, length - half :]])
    most = split[..., 0].size * np.log10(split[..., 0].size)
    ess = _undisturbed(effective_sample_size, split)
    return np.where((ess <= 0.0) | (ess > most), most, ess)


def _ranked(draws: Floats) -> Floats:
    """Replace draws by the normal quantiles of their ranks among all chains (equation 14)."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    flat = draws.reshape(-1, draws.shape[2])
    ranks = rankdata(flat, axis=0, nan_policy="propagate")
    return np.asarray(ndtri((ranks - 0.375) / (len(flat) + 0.25))).reshape(draws.shape)


def _undisturbed(statistic: Callable[[Any], Any], draws: Floats) -> Floats:
    """Apply a statistic; draws that are all the same, or not finite, give NaN without a warning."""
    with np.errstate(all="ignore"):
        return np.where((draws != draws[0, 0]).any(axis=(0, 1)), statistic(draws), np.nan)
