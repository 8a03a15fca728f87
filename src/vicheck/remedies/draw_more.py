"""Take more draws from q, or look at those there are."""

from __future__ import annotations

from vicheck.remedies.remedy import Remedy
from vicheck.remedies.situations import CheckSituation
from vicheck.results.psis import PsisStatus

__all__ = ["ADVICE_WITHOUT_KHAT", "MOST_DRAWS", "CountTies", "DrawMore", "FindInvalidRatios"]

MOST_DRAWS = 10_000_000
"""More draws than this are never asked for."""

_ENOUGH_TO_BEGIN_WITH = 100_000

ADVICE_WITHOUT_KHAT = {
    PsisStatus.NOT_FINITE: "find the draws where log_p or log_q is not finite, and why",
    PsisStatus.TIED_AT_MAXIMUM: "look for clipped or rounded log densities",
    PsisStatus.TIED_AT_CUTOFF: "look for repeated draws or rounded log densities",
    PsisStatus.TOO_FEW_POSITIVE: "check supports and constraints: q puts mass where p is zero",
    PsisStatus.ALL_ZERO: "check supports, constraints and the data: q and p do not overlap",
}
"""What to do where khat is undefined, though there are draws enough."""
_TIES = frozenset(ADVICE_WITHOUT_KHAT) - {PsisStatus.NOT_FINITE}


class FindInvalidRatios(Remedy[CheckSituation]):
    """Look at the draws without a log ratio."""

    name = "find-invalid-ratios"
    title = "Find the draws without a ratio"
    when = "a log ratio is NaN or +inf"
    example = '(~(check.log_ratios < float("inf"))).nonzero()[0]'  # NaN is not less either
    effect = "Names the draws where log_p or log_q is not finite."

    def applies(self, situation: CheckSituation) -> bool:
        return situation.psis.status is PsisStatus.NOT_FINITE

    def advice(self, situation: CheckSituation) -> str:
        return ADVICE_WITHOUT_KHAT[PsisStatus.NOT_FINITE]

    def line(self, situation: CheckSituation) -> str:
        return self.example


class CountTies(Remedy[CheckSituation]):
    """Look for log ratios that occur more than once."""

    name = "count-ties"
    title = "Count equal ratios"
    when = "khat is undefined because ratios are equal or zero"
    example = "import numpy as np; values, counts = np.unique(check.log_ratios, return_counts=True)"
    effect = "Shows whether draws are repeated, and densities clipped, rounded or zero."

    def applies(self, situation: CheckSituation) -> bool:
        return situation.psis.status in _TIES

    def advice(self, situation: CheckSituation) -> str:
        return ADVICE_WITHOUT_KHAT[situation.psis.status]

    def line(self, situation: CheckSituation) -> str:
        return self.example


class DrawMore(Remedy[CheckSituation]):
    """Take more draws from the same q."""

    name = "draw-more"
    title = "Draw more"
    when = "khat is below 0.7 and above the threshold for so few draws, or the tail is not Pareto"
    example = "check = vicheck.check(fit, num_draws=100_000)"
    effect = (
        "Raises the threshold for khat, which is lower for few draws, and makes khat more certain."
    )

    def applies(self, situation: CheckSituation) -> bool:
        if situation.psis.status is PsisStatus.TOO_FEW_DRAWS:
            return True
        if "not-pareto" in situation.findings:
            return situation.psis.num_draws < MOST_DRAWS
        return (
            situation.family_too_poor
            and not situation.khat_is_hopeless
            and situation.psis.num_draws < MOST_DRAWS
        )

    def advice(self, situation: CheckSituation) -> str:
        return "draw more from q"

    def line(self, situation: CheckSituation) -> str:
        if not situation.made_here:
            return ""
        more = max(_ENOUGH_TO_BEGIN_WITH, 4 * situation.psis.num_draws)
        return f"check = vicheck.check(fit, num_draws={min(MOST_DRAWS, more):_})"
