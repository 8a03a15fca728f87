"""Numbers of single datasets, averaged or summarised over all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vicheck.results.summaries import Average, KhatSummary
from vicheck.stats.calibration import mean_with_interval
from vicheck.stats.reliability import khat_threshold

__all__ = ["average", "summarise_khat"]

Floats = NDArray[np.float64]


def average(terms: Floats) -> Average:
    """Return the mean of the terms that are known, with its 95% interval."""
    terms = terms[~np.isnan(terms)]
    if not terms.size:
        return Average(np.nan, np.nan, np.nan, 0)
    sizes = np.abs(terms)
    with np.errstate(invalid="ignore"):  # infinite terms have no share, and zeros neither
        share = float(sizes.max() / sizes.sum())
    return Average(*mean_with_interval(terms), num_used=terms.size, largest_share=share)


def summarise_khat(khat: Floats, num_draws: int) -> KhatSummary:
    """Return quantiles of khat, and how many are above the threshold for that many draws."""
    known = khat[~np.isnan(khat)]
    threshold = khat_threshold(num_draws)
    median, low, high = _quantiles(known)
    return KhatSummary(
        median=median,
        low=low,
        high=high,
        threshold=threshold,
        share_above=float(np.mean(known >= threshold)) if known.size else np.nan,
        num_used=known.size,
        num_undefined=khat.size - known.size,
    )


def _quantiles(known: Floats) -> list[float]:
    """Return median and quantiles 0.05 and 0.95; infinite where they lie next to infinity."""
    probabilities = [0.5, 0.05, 0.95]
    if not known.size:
        return [np.nan] * 3
    with np.errstate(invalid="ignore"):  # what NumPy makes of infinity
        between = np.quantile(known, probabilities)
    above = np.quantile(known, probabilities, method="higher")
    return np.where(np.isnan(between), above, between).tolist()
