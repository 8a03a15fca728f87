"""Findings on calibration probabilities: bias, asymmetry, dispersion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from vicheck.judging.cutoffs import POWER, SMALL_BIAS
from vicheck.judging.findings.evidence import Evidence
from vicheck.judging.wording import sentence_case, show
from vicheck.remedies.remedy import joined
from vicheck.results.verdict import Severity

__all__ = [
    "Asymmetric",
    "BiasFound",
    "JointMissed",
    "MoreBiased",
    "NoBiasFound",
    "PapersTest",
    "ProbabilitiesMissing",
    "WrongScale",
]

_NAMED = 3
"""How many quantities a sentence names."""

_SKEWED = (
    "A posterior that is itself skewed, as that of a scale can be, makes the probabilities "
    "asymmetric too: the test assumes symmetry (the paper's Proposition 2)."
)


class _UsableWithCare(Evidence):
    """What makes an approximation usable at best, and says so when nothing is worse."""

    @property
    def sentence(self) -> str:
        return f"The approximation is usable with care: {self.aside}"


@dataclass(frozen=True)
class BiasFound(Evidence):
    """q sits too high or too low."""

    quantity: str
    """The one with the clearest bias."""
    bias: float
    """In sds of q, positive when q sits too high."""
    bias_low: float
    bias_high: float
    p_adjusted: float
    biased: int
    """How many quantities are biased."""
    advice: tuple[str, ...]
    """What remedies there are, each as part of a sentence."""

    code = "bias-found"
    severity = "bad"

    @property
    def sentence(self) -> str:
        verb = "over-estimates" if self.bias > 0.0 else "under-estimates"
        more = f"; {self.biased} quantities are biased in all" if self.biased > 1 else ""
        return (
            f"The approximation is not reliable: q {verb} {self.quantity}, typically by "
            f"{self._size}{more}."
        )

    @property
    def _size(self) -> str:
        if math.isinf(self.bias):  # most p are exactly 0 or 1
            return "more than 8 of its sds"
        ends = sorted(map(abs, (self.bias_low, self.bias_high)))
        return f"{show(abs(self.bias))} of its sds ({show(ends[0])} to {show(ends[1])})"

    @property
    def hint(self) -> str:
        return f"{sentence_case(joined(self.advice))} {_SKEWED}"


@dataclass(frozen=True)
class MoreBiased(Evidence):
    """Further quantities with a bias."""

    named: tuple[tuple[str, float], ...]
    """The first of them, each with its bias."""
    over: int
    under: int

    code = "more-biased"
    severity = "bad"
    hint = "The table `.tests` has all of them."

    @property
    def sentence(self) -> str:
        signed = ", ".join(f"{name} {bias:+.2f}" for name, bias in self.named[:_NAMED])
        rest = self.over + self.under - _NAMED
        counts = f" ({self.over} over-estimated, {self.under} under-estimated)"
        more = f" and {rest} more{counts}" if rest > 0 else ""
        return f"Also biased, in sds of q: {signed}{more}."


@dataclass(frozen=True)
class Asymmetric(_UsableWithCare):
    """Probabilities are asymmetric, but the bias is negligible or could not be shown."""

    quantities: tuple[str, ...]
    asymmetric: int
    largest_bias: float
    """Farthest end of the intervals, in sds of q."""

    code = "asymmetric"
    severity = "caution"

    @property
    def aside(self) -> str:
        return (
            f"q is not right for {_listed(self.quantities)}: the calibration probabilities are "
            f"asymmetric, but {self._size}."
        )

    @property
    def _size(self) -> str:
        if self.largest_bias <= SMALL_BIAS:
            return f"the bias is no more than {show(self.largest_bias)} of its sds"
        return f"a bias was not shown (it may be up to {show(self.largest_bias)} of its sds)"

    @property
    def hint(self) -> str:
        if self.largest_bias <= SMALL_BIAS:
            return f"Nothing, if a bias of that size does not matter to you. {_SKEWED}"
        return f"Simulate more datasets to tell. {_SKEWED}"


@dataclass(frozen=True)
class WrongScale(_UsableWithCare):
    """q is too narrow for some quantities, or too wide."""

    narrow: tuple[tuple[str, float], ...]
    """Quantities with what their sd would have to be multiplied by, the worst first."""
    wide: tuple[tuple[str, float], ...]
    too_narrow: int
    too_wide: int

    code = "wrong-scale"
    severity = "caution"
    hint = "Do not report intervals or sds of q: use a richer family, PSIS weights or MCMC."

    @property
    def aside(self) -> str:
        parts = [
            f"too {word} for {_listed([name for name, _ in worst])}: "
            f"the sd of {worst[0][0]} should be {worst[0][1]:.2g} times as large"
            for word, worst in (("narrow", self.narrow), ("wide", self.wide))
            if worst
        ]
        return f"q is {'; '.join(parts)}."


@dataclass(frozen=True)
class NoBiasFound(Evidence):
    """No quantity is asymmetric, and q has the right scale."""

    quantities: int
    num_used: int
    detectable_bias: float
    """In sds; infinite when so few datasets can show none."""
    posterior: bool
    """Whether true parameters were drawn from a fitted q and not from the prior."""

    code = "no-bias-found"
    severity: ClassVar[Severity] = "ok"

    @property
    def sentence(self) -> str:
        power = (
            f"one of {show(self.detectable_bias)} sds would have been, with probability {POWER}"
            if math.isfinite(self.detectable_bias)
            else "so few can hardly show one"
        )
        return (
            f"No bias was found in {_counted(self.quantities)} over {self.num_used} datasets; "
            f"{power}."
        )

    @property
    def hint(self) -> str:
        over = "the fitted q" if self.posterior else "the prior"
        return (
            f"This is an average over {over}, one quantity at a time, and cannot prove q right "
            "for your data: run vicheck.check on that fit too."
        )


@dataclass(frozen=True)
class JointMissed(NoBiasFound):
    """No bias was found, but most joint posteriors are missed."""

    share_above: float
    threshold: float

    code = "joint-missed"
    severity = "caution"

    @property
    def sentence(self) -> str:
        return (
            "The approximation is usable with care: no bias was found, but khat of "
            f"{self.share_above:.0%} of the datasets is above the threshold {self.threshold:.2f}."
        )

    @property
    def hint(self) -> str:
        return f"Rely on single marginals at most, not on anything joint. {super().hint}"


@dataclass(frozen=True)
class ProbabilitiesMissing(Evidence):
    """Some quantities were not finite in some datasets."""

    missing_for: tuple[str, ...]
    """The quantity with the most gaps first."""
    quantities: int
    most_missing: int
    num_used: int

    code = "probabilities-missing"
    severity = "caution"
    hint = "Find where the quantity is NaN or infinite: look at `.probabilities`."

    @property
    def sentence(self) -> str:
        return (
            f"Probabilities of {_listed(self.missing_for)} are missing, for {self.most_missing} of "
            f"{self.num_used} datasets in the case of {self.missing_for[0]}."
        )


@dataclass(frozen=True)
class PapersTest(Evidence):
    """What the paper's own test says, for comparison."""

    rejected: int
    quantities: int
    true_size: float

    code = "papers-test"
    severity = "ok"
    hint = "It is there to compare with the paper: rely on the exact test of symmetry."

    @property
    def sentence(self) -> str:
        return (
            f"The paper's KS test of p against 1 - p rejects {self.rejected} of "
            f"{_counted(self.quantities)} at a nominal 5%; its true size is about "
            f"{self.true_size:.0%}."
        )


def _counted(number: int) -> str:
    return "1 quantity" if number == 1 else f"{number} quantities"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown
