"""What is found out about the fits to many simulated datasets, apart from their calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping

from vicheck.judging.cutoffs import MANY_KHATS_HIGH, ONE_DECIDES, SMALL_KL
from vicheck.judging.findings import Evidence
from vicheck.judging.findings.simulations import (
    FitsConverged,
    FitsUnconverged,
    FitsUnknown,
    KhatsHigh,
    KhatsLow,
    ParametersFromQ,
    SymmetricKl,
    SymmetricKlLarge,
    SymmetricKlUnclear,
    TooManyUnconverged,
)
from vicheck.results.status import FitStatus
from vicheck.results.summaries import Average, KhatSummary

__all__ = [
    "evidence_of_fits",
    "evidence_of_khats",
    "evidence_of_origin",
    "evidence_of_symmetric_kl",
    "too_many_unconverged",
]


def evidence_of_fits(statuses: Mapping[FitStatus, int], solver: str) -> list[Evidence]:
    """Return how the fits ended."""
    total, unknown = sum(statuses.values()), statuses.get(FitStatus.UNKNOWN, 0)
    counts = _unconverged(statuses)
    evidence: list[Evidence] = []
    if counts:
        evidence.append(FitsUnconverged(counts, total, solver))
    if unknown:
        evidence.append(FitsUnknown(unknown, total))
    return evidence or [FitsConverged(total)]


def too_many_unconverged(
    statuses: Mapping[FitStatus, int], solver: str
) -> TooManyUnconverged | None:
    """Return why there can be no verdict, or nothing."""
    withheld = TooManyUnconverged(_unconverged(statuses), sum(statuses.values()), solver)
    return withheld if withheld.too_many else None


def evidence_of_khats(khat: KhatSummary | None) -> list[Evidence]:
    """Return how well the joint posteriors were hit."""
    if khat is None or not khat.num_used:
        return []
    kind = KhatsHigh if khat.share_above > MANY_KHATS_HIGH else KhatsLow
    return [kind.of(khat)]


def evidence_of_symmetric_kl(average: Average | None) -> list[Evidence]:
    """Return how far q and posterior are apart."""
    if average is None or not average.num_used:
        return []
    alone = average.num_used > 1 and average.largest_share > ONE_DECIDES
    if alone or not math.isfinite(average.mean):
        return [SymmetricKlUnclear.of(average)]
    # A single dataset has no interval.
    least = average.mean if math.isnan(average.low) else average.low
    return [(SymmetricKlLarge if least > SMALL_KL else SymmetricKl).of(average)]


def evidence_of_origin(posterior: bool) -> list[Evidence]:
    """Return where the true parameters came from, if that is a reason for doubt."""
    return [ParametersFromQ()] if posterior else []


def _unconverged(statuses: Mapping[FitStatus, int]) -> dict[FitStatus, int]:
    """Count the fits that are known not to have converged, by their status."""
    ended_well = (FitStatus.CONVERGED, FitStatus.UNKNOWN)
    return {
        status: count for status, count in statuses.items() if count and status not in ended_well
    }
