"""What of a record was right and what was wrong: each estimate against the truth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["LARGE_MEAN_ERROR", "LARGE_SD_ERROR", "Estimate", "Outcome", "outcomes_of", "worst"]

LARGE_MEAN_ERROR = 0.1
"""In sds of the posterior."""
LARGE_SD_ERROR = 0.1
"""Relative to the sd of the posterior."""
MONTE_CARLO_ERRORS = 3.0
"""By which an estimate may be off beyond that, its own and the reference's taken together."""
MOST_SLACK = 0.2
"""That these may amount to: an estimate from a handful of effective draws is not excused."""


@dataclass(frozen=True)
class Estimate:
    """One mean or sd: its error, and what that amounts to. Between right and wrong is unsure."""

    error: float
    """Of a mean in sds of the posterior; of an sd relative to the truth. Signed."""
    right: bool
    wrong: bool


@dataclass(frozen=True)
class Outcome:
    """One quantity of one fit: how good each estimate is, and what was said of them."""

    name: str
    means: dict[str, Estimate]
    """By the way they were estimated: vi, psis, chains."""
    sds: dict[str, Estimate]
    use_mean: str
    use_sd: str
    khat: float
    shift: float
    drift: float
    drift_error: float

    @property
    def recommended_mean(self) -> Estimate | None:
        return self.means.get(self.use_mean)

    @property
    def recommended_sd(self) -> Estimate | None:
        return self.sds.get(self.use_sd)


def outcomes_of(record: dict[str, Any]) -> Iterator[Outcome]:
    """Yield the outcome of each quantity."""
    for row in record["quantities"]:
        ways = [way for way in ("vi", "psis", "chains") if way in row]
        yield Outcome(
            row["name"],
            {way: _mean(row, row[way]) for way in ways},
            {way: _sd(row, row[way]) for way in ways},
            row["use_mean"],
            row["use_sd"],
            row["khat"],
            row["shift"],
            row.get("drift", math.nan),
            row.get("drift_error", math.nan),
        )


def worst(estimates: Iterator[Estimate] | list[Estimate]) -> float:
    """Return the largest error, or infinity if one is undefined."""
    sizes = [abs(each.error) for each in estimates]
    return max((math.inf if math.isnan(size) else size for size in sizes), default=math.nan)


def _mean(row: dict[str, Any], said: dict[str, float]) -> Estimate:
    error = (said["mean"] - row["mean"]) / row["unit"]
    slack = _slack(said["mcse"], row["mean_error"], row["unit"])
    return _judged(error, LARGE_MEAN_ERROR, slack)


def _sd(row: dict[str, Any], said: dict[str, float]) -> Estimate:
    if math.isinf(row["sd"]):  # there is none: whatever is said is wrong
        return Estimate(-1.0, right=False, wrong=True)
    slack = _slack(said["mcse_sd"], row["sd_error"], row["sd"])
    return _judged(said["sd"] / row["sd"] - 1.0, LARGE_SD_ERROR, slack)


def _slack(stated: float, of_reference: float, unit: float) -> float:
    slack = MONTE_CARLO_ERRORS * math.hypot(stated, of_reference) / unit
    return min(slack, MOST_SLACK) if math.isfinite(slack) else 0.0


def _judged(error: float, limit: float, slack: float) -> Estimate:
    return Estimate(error, right=abs(error) <= limit, wrong=not abs(error) <= limit + slack)
