"""Findings on calibration probabilities that are symmetric and not uniform: intervals and sds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vicheck.judging.findings.evidence import UsableForPoints
from vicheck.judging.wording import LIKELIHOOD, listed, sentence_case, show
from vicheck.remedies.remedy import joined
from vicheck.results.verdict import Severity

__all__ = ["FarTooNarrow", "LikelihoodLow", "LikelihoodOff", "NotCovering", "WrongScale"]

_NO_INTERVALS = "Do not report intervals or sds of q: use a richer family, PSIS weights or MCMC."


@dataclass(frozen=True)
class WrongScale(UsableForPoints):
    """q is too narrow for some quantities, or too wide."""

    narrow: tuple[tuple[str, float], ...]
    """Quantities with what their sd would have to be multiplied by, the worst first."""
    wide: tuple[tuple[str, float], ...]
    too_narrow: int
    too_wide: int

    code = "wrong-scale"
    severity: ClassVar[Severity] = "caution"

    @property
    def quantity(self) -> str:
        return (*self.narrow, *self.wide)[0][0]

    @property
    def aside(self) -> str:
        return f"{self._what}."

    @property
    def hint(self) -> str:
        return _NO_INTERVALS

    @property
    def _what(self) -> str:
        parts = [
            f"too {word} for {listed([name for name, _ in worst])}: "
            f"the sd of {worst[0][0]} should be {worst[0][1]:.2g} times as large"
            for word, worst in (("narrow", self.narrow), ("wide", self.wide))
            if worst
        ]
        return f"q is {'; '.join(parts)}"


@dataclass(frozen=True)
class FarTooNarrow(WrongScale):
    """The same, by so much that weights would have to correct it, which they cannot."""

    share_above: float
    threshold: float
    advice: tuple[str, ...]
    """What remedies there are, each as part of a sentence."""

    code = "far-too-narrow"
    severity = "bad"

    @property
    def sentence(self) -> str:
        return (
            f"The approximation is not reliable: {self._what}, and weights do not correct it: "
            f"khat of {self.share_above:.0%} of the datasets is above the threshold "
            f"{self.threshold:.2f}."
        )

    @property
    def aside(self) -> str:
        return self.sentence

    @property
    def hint(self) -> str:
        return (
            f"{sentence_case(joined(self.advice))} The probabilities alone cannot tell whether q "
            "is that narrow, or its centre that far off to one side or the other."
        )


@dataclass(frozen=True)
class NotCovering(UsableForPoints):
    """Intervals of q hold the truth less often than they claim, or more often."""

    quantities: tuple[str, ...]
    """The worst first; the numbers are its."""
    not_covering: int
    coverage_50: float
    """How often the central interval of 50% holds the truth."""
    coverage_90: float
    coverage_99: float

    code = "not-covering"
    severity: ClassVar[Severity] = "caution"
    hint = _NO_INTERVALS

    @property
    def quantity(self) -> str:
        return self.quantities[0]

    @property
    def aside(self) -> str:
        found = f"{self.coverage_50:.0%}, {self.coverage_90:.0%} and {self.coverage_99:.0%}"
        return (
            f"q is not calibrated for {listed(self.quantities)}: its intervals of 50%, 90% and 99% "
            f"for {self.quantity} hold the truth in {found} of the datasets."
        )


@dataclass(frozen=True)
class LikelihoodOff(UsableForPoints):
    """Draws of q explain the data better than the true parameters do, or worse."""

    bias: float
    """Of the log likelihood, in sds that it has under q, positive when it is too high."""
    bias_low: float
    bias_high: float

    code = "likelihood-off"
    severity: ClassVar[Severity] = "caution"

    @property
    def quantity(self) -> str:
        return LIKELIHOOD

    @property
    def aside(self) -> str:
        return sentence_case(self._what)

    @property
    def hint(self) -> str:
        why = (
            "too narrow, or lacks correlations" if self.bias > 0.0 else "too wide in some direction"
        )
        return f"q is {why}. {_NO_INTERVALS}"

    @property
    def _what(self) -> str:
        word, verb = ("better", "over") if self.bias > 0.0 else ("worse", "under")
        ends = sorted(map(abs, (self.bias_low, self.bias_high)))
        return (
            f"draws of q explain the data {word} than the true parameters do ({self.quantity} is "
            f"{verb}-estimated, typically by {show(abs(self.bias))} of its sds, {show(ends[0])} to "
            f"{show(ends[1])})"
        )


@dataclass(frozen=True)
class LikelihoodLow(LikelihoodOff):
    """Draws of q explain the data worse, though q is calibrated for all other quantities."""

    advice: tuple[str, ...]
    """What remedies there are, each as part of a sentence."""

    code = "likelihood-low"
    severity = "bad"

    @property
    def sentence(self) -> str:
        return (
            f"The approximation is not reliable: {self._what}, though all other quantities are "
            "calibrated."
        )

    @property
    def aside(self) -> str:
        return self.sentence

    @property
    def hint(self) -> str:
        return (
            f"{sentence_case(joined(self.advice))} q may not have learned from the data: a q that "
            "is the prior is calibrated for every parameter, and fails here."
        )
