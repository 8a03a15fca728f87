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
    median, low, high = np.quantile(known, [0.5, 0.05, 0.95]) if known.size else [np.nan] * 3
    return KhatSummary(
        median=float(median),
        low=float(low),
        high=float(high),
        threshold=threshold,
        share_above=float(np.mean(known >= threshold)) if known.size else np.nan,
        num_used=known.size,
        num_undefined=khat.size - known.size,
    )
