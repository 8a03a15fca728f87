"""Have the remedies tried, and judged on fresh draws."""

from __future__ import annotations

from vicheck.remedies.remedy import Remedy
from vicheck.remedies.situations import CheckSituation

__all__ = ["LetRescue"]

_LINE = "rescued = vicheck.rescue(fit)"


class LetRescue(Remedy[CheckSituation]):
    """Let `vicheck.rescue` carry the remedies out."""

    name = "rescue"
    title = "Have vicheck try them"
    when = "a fit by vicheck has converged and khat is too high"
    example = _LINE
    effect = "Tries remedies one after the other, each judged on fresh draws, NUTS last."

    def applies(self, situation: CheckSituation) -> bool:
        return situation.family_too_poor and situation.made_here

    def advice(self, situation: CheckSituation) -> str:
        return "let vicheck.rescue try the remedies"

    def line(self, situation: CheckSituation) -> str:
        return _LINE
