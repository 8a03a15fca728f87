"""Summaries over simulated datasets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vicheck.results.record import Record

__all__ = ["Average", "KhatSummary"]


@dataclass(frozen=True, eq=False, repr=False)
class Average(Record):
    """A mean over simulated datasets, in nats, with its 95% interval."""

    mean: float
    low: float
    high: float
    num_used: int
    """Number of datasets for which it is known."""
    largest_share: float = np.nan
    """Largest share of one dataset in the sum of absolute values; near 1, ignore the interval."""

    def __str__(self) -> str:
        if not self.num_used:
            return "not known"
        if not np.isfinite(self.mean):
            return "infinite"
        # Rounding error of an exact q is shown as 0, and 0.0 turns -0 into it.
        if np.isnan(self.low):  # of a single dataset
            return f"{round(self.mean, 6) + 0.0:.3g} nats"
        mean, low, high = (round(each, 6) + 0.0 for each in (self.mean, self.low, self.high))
        return f"{mean:.3g} [{low:.3g}, {high:.3g}] nats"


@dataclass(frozen=True, eq=False, repr=False)
class KhatSummary(Record):
    """khat over simulated datasets, as far as it is defined."""

    median: float
    low: float
    """Quantile 0.05."""
    high: float
    """Quantile 0.95."""
    threshold: float
    """Largest khat that is reliable with this many draws."""
    share_above: float
    """Share of the datasets whose khat is not below the threshold."""
    num_used: int
    num_undefined: int
    """Number of datasets that have an approximation but no khat."""
