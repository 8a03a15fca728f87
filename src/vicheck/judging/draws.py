"""What is said about draws that are not what they seem."""

from __future__ import annotations

from vicheck.judging.cutoffs import COARSE, COPIES, DEPENDENT, TOO_COARSE
from vicheck.judging.findings import Evidence
from vicheck.judging.findings.draws import (
    ClippedRatios,
    CoarseRatios,
    DependentDraws,
    RatiosTooCoarse,
    SwappedDensities,
    TiedDraws,
)
from vicheck.results.screening import Screening

__all__ = ["evidence_of_draws"]


def evidence_of_draws(seen: Screening | None) -> list[Evidence]:
    """Return what is wrong with draws and densities that khat takes for granted."""
    if seen is None:
        return []
    found: list[Evidence] = []
    if seen.swapped:
        found.append(SwappedDensities(seen.swapped_khat))
    if seen.num_copies > COPIES * seen.num_draws:
        found.append(TiedDraws(seen.num_copies, seen.num_draws, in_tail=False))
    elif seen.tail_copies > COPIES * seen.tail_length:
        found.append(TiedDraws(seen.tail_copies, seen.tail_length, in_tail=True))
    if seen.num_clipped:
        found.append(ClippedRatios(seen.num_clipped, seen.num_draws))
    if seen.likeness > DEPENDENT:
        found.append(DependentDraws(seen.likeness))
    if seen.resolution > COARSE:
        found.append(CoarseRatios(seen.resolution))
    if seen.resolution > TOO_COARSE:
        found.append(RatiosTooCoarse(seen.resolution))
    return found
