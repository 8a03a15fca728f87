"""Findings on plain estimates against weighted ones: whether q itself is close to the posterior."""

from __future__ import annotations

from dataclasses import dataclass

from vicheck.judging.cutoffs import ENOUGH_EFFECTIVE, PLAIN_GROWTH, PLAIN_SHIFT
from vicheck.judging.findings.evidence import Evidence
from vicheck.judging.wording import stretch

__all__ = ["FewEffectiveDraws", "PlainOff"]


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
            "The approximation is usable with its weights only: by plain draws "
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
