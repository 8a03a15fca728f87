"""Findings on the estimates: whether plain or weighted ones can be used, and all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vicheck.judging.cutoffs import ENOUGH_EFFECTIVE, PLAIN_GROWTH, PLAIN_SHIFT
from vicheck.judging.findings.evidence import Evidence
from vicheck.judging.wording import stretch

__all__ = ["FewEffectiveDraws", "NotAllUsable", "PlainOff"]


@dataclass(frozen=True)
class PlainOff(Evidence):
    """The weights correct a mean or sd by more than makes no difference."""

    worst: str
    """The quantity whose estimates differ most."""
    shift: float
    """Of its mean by the weights, in sds."""
    growth: float
    """Of its log sd."""

    code = "plain-off"
    severity = "caution"
    hint = "Report estimates with the smoothed weights and their errors, not plain ones."

    @property
    def sentence(self) -> str:
        return (
            "The approximation is usable only with its weights: judged by plain draws, "
            f"{self._what_is_off}, and khat says that the weights correct that."
        )

    @property
    def _what_is_off(self) -> str:
        size = stretch(self.growth)
        mean = f"the mean of {self.worst} is {abs(self.shift):.2g} sds off"
        if not abs(self.growth) > PLAIN_GROWTH:
            return mean
        if not abs(self.shift) > PLAIN_SHIFT:
            return f"the sd of {self.worst} is {size}"
        return f"{mean} and its sd {size}"


@dataclass(frozen=True)
class FewEffectiveDraws(Evidence):
    """The weights leave too few draws that count."""

    ess: float
    num_draws: int

    code = "few-effective-draws"
    severity = "bad"
    hint = (
        "Take more draws from q, or find a q that is closer: far too wide is as bad as too narrow."
    )

    @property
    def sentence(self) -> str:
        return (
            f"The approximation is not reliable: of {self.num_draws} draws no more than "
            f"{self.ess:.0f} count after weighting, fewer than {ENOUGH_EFFECTIVE}."
        )


@dataclass(frozen=True)
class NotAllUsable(Evidence):
    """The weights work for the joint, but not for every mean and sd."""

    worst: str
    """The quantity whose khat is highest."""
    moment: str
    """Which of its estimates cannot be used: its mean or its sd."""
    khat: float
    """The one that governs this estimate."""
    threshold: float
    num_means: int
    """How many means cannot be used."""
    num_sds: int
    """How many sds."""
    num_quantities: int

    code = "not-all-usable"
    severity = "bad"

    @property
    def sentence(self) -> str:
        which = f"the {self.moment} of {self.worst}"
        if math.isnan(self.khat):
            why = "which has no khat of its own"
        elif self.khat < self.threshold:
            why = "short chains contradict it"
        else:
            why = f"its own khat of {self.khat:.2f} is not below {self.threshold:.2f}"
        more = self.num_means + self.num_sds - 1
        others = f", and {more} more estimate{'s' if more > 1 else ''}" if more else ""
        return (
            f"The approximation is usable in part only: the weights do not correct {which} ({why})"
            f"{others}."
        )

    @property
    def hint(self) -> str:
        if not self.num_means:
            part = "All means can be used"
        else:
            part = (
                f"{self.num_quantities - self.num_means} of {self.num_quantities} means can be used"
            )
        return (
            f"{part}, and sds where the column `use_sd` of the table of moments says so, but no "
            "interval of the others. For these take more draws, a family with heavier tails or "
            "another parametrization, or use MCMC."
        )
