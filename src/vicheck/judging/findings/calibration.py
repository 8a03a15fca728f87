"""Findings on calibration probabilities: bias and asymmetry, or neither."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from vicheck.judging.cutoffs import POWER, SMALL_BIAS
from vicheck.judging.findings.evidence import Evidence, OnQuantities, UsableForPoints
from vicheck.judging.wording import counted, listed, sentence_case, show
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
    "SlightlyAsymmetric",
]

_NAMED = 3
"""How many quantities are named with their bias."""

_SKEWED = (
    "A posterior that is itself skewed, as that of a scale can be, makes the probabilities "
    "asymmetric too: the test assumes symmetry (the paper's Proposition 2)."
)


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
class Asymmetric(UsableForPoints):
    """Probabilities are asymmetric, but that q is shifted by more than a little was not shown."""

    quantities: tuple[str, ...]
    """The one with the largest bias first; the numbers are its."""
    asymmetric: int
    bias: float
    """In sds of q, positive when q sits too high: that of its median."""
    bias_low: float
    bias_high: float
    mean_bias: float
    """That of its mean."""

    code = "asymmetric"
    severity = "caution"

    @property
    def quantity(self) -> str:
        return self.quantities[0]

    @property
    def aside(self) -> str:
        return (
            f"q is not right for {listed(self.quantities)}: the calibration probabilities are "
            f"asymmetric, but {self._size}."
        )

    @property
    def _size(self) -> str:
        if self._is_small:
            return f"the bias is no more than {show(self._largest)} of its sds"
        if self._is_skewed:
            return (
                f"its means are off by only {show(abs(self.mean_bias))} of its sds, but its "
                f"medians by {show(abs(self.bias))}"
            )
        if self._median_is_off:
            return (
                f"while its medians are off by {show(abs(self.bias))} of its sds, its means "
                f"were not shown to be off by more than {SMALL_BIAS} (the estimate is "
                f"{show(abs(self.mean_bias))})"
            )
        return (
            f"a bias of more than {SMALL_BIAS} of its sds was not shown (it may be up to "
            f"{show(self._largest)})"
        )

    @property
    def _largest(self) -> float:
        """Farthest end of the interval."""
        return max(abs(self.bias_low), abs(self.bias_high))

    @property
    def _is_small(self) -> bool:
        return self._largest <= SMALL_BIAS

    @property
    def _is_skewed(self) -> bool:
        """Whether the median of q is clearly off, and its mean seems to be right."""
        return self._median_is_off and abs(self.mean_bias) <= SMALL_BIAS

    @property
    def _median_is_off(self) -> bool:
        return max(self.bias_low, -self.bias_high) > SMALL_BIAS

    @property
    def hint(self) -> str:
        if self._is_small:
            return f"Nothing, if a bias of that size does not matter to you. {_SKEWED}"
        if self._is_skewed:
            return f"Report means, not medians, sds or intervals. {_SKEWED}"
        return f"Simulate more datasets to tell. {_SKEWED}"


@dataclass(frozen=True)
class SlightlyAsymmetric(OnQuantities):
    """Probabilities are asymmetric, by less than makes a difference."""

    quantities: tuple[str, ...]
    """The one with the largest bias first; the numbers are its."""
    asymmetric: int
    bias: float
    """In sds of q, positive when q sits too high."""
    bias_low: float
    bias_high: float

    code = "slightly-asymmetric"
    severity = "ok"
    hint = "Nothing: with so many datasets even a bias that does not matter is detected."

    @property
    def quantity(self) -> str:
        return self.quantities[0]

    @property
    def sentence(self) -> str:
        return (
            f"The calibration probabilities of {listed(self.quantities)} are asymmetric, but by "
            f"less than a shift of {SMALL_BIAS} sds would make them: the bias is "
            f"{show(self.bias)} of q's sds ({show(self.bias_low)} to {show(self.bias_high)})."
        )


@dataclass(frozen=True)
class NoBiasFound(Evidence):
    """q is calibrated, as far as so many datasets can tell."""

    quantities: int
    num_used: int
    detectable_bias: float
    """In sds; infinite when so few datasets can show none."""
    detectable_stretch: float
    """Factor by which q would have to be too narrow for intervals not to cover; or infinite."""
    slight: bool
    """Whether some quantity has a bias, one that makes no difference."""
    has_likelihood: bool
    """Whether the joint log likelihood is among the quantities, with others."""
    posterior: bool
    """Whether true parameters were drawn from a fitted q and not from the prior."""

    code = "no-bias-found"
    severity: ClassVar[Severity] = "ok"

    @property
    def sentence(self) -> str:
        where = f"was found in {counted(self.quantities)} over {self.num_used} datasets"
        bias = (
            f"No bias of more than {SMALL_BIAS} sds {where}"
            if self.slight
            else f"No bias {where}; {self._least_bias}"
        )
        return (
            f"{bias}. Intervals of q hold the truth as often as they claim; {self._least_stretch}."
        )

    @property
    def _least_bias(self) -> str:
        if math.isinf(self.detectable_bias):
            return "so few can hardly show one"
        return f"one of {show(self.detectable_bias)} sds would have been, with probability {POWER}"

    @property
    def _least_stretch(self) -> str:
        if math.isinf(self.detectable_stretch):
            return "so few can hardly show that they do not"
        return f"with sds too small by a factor of {show(self.detectable_stretch)} they would not"

    @property
    def hint(self) -> str:
        over = "the fitted q" if self.posterior else "the prior"
        joint = (
            ""
            if self.has_likelihood
            else " The joint log likelihood, which shows errors that no single parameter does, "
            "was not looked at."
        )
        return (
            f"This is an average over {over}, one quantity at a time, and cannot prove q right "
            f"for your data: run vicheck.check on that fit too.{joint}"
        )


@dataclass(frozen=True)
class JointMissed(NoBiasFound):
    """q is calibrated for each quantity, but most joint posteriors are missed."""

    share_above: float
    threshold: float

    code = "joint-missed"
    severity = "caution"

    @property
    def sentence(self) -> str:
        return (
            "The approximation is usable for single quantities: no bias was found, but khat of "
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
            f"Probabilities of {listed(self.missing_for)} are missing, for {self.most_missing} of "
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
    hint = "It is given for comparison with the paper; rely on the exact test of symmetry."

    @property
    def sentence(self) -> str:
        return (
            f"The paper's KS test of p against 1 - p rejects {self.rejected} of "
            f"{counted(self.quantities)} at a nominal 5%; its true size is about "
            f"{self.true_size:.0%}."
        )
