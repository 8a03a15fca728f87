"""Findings on the log ratios of one approximation: khat, its uncertainty, draws without weight."""

from __future__ import annotations

from dataclasses import dataclass

from vicheck.judging.cutoffs import ENOUGH_DRAWS, GOOD_BELOW, USABLE_BELOW
from vicheck.judging.findings.evidence import Evidence
from vicheck.judging.wording import lower_case, sentence_case, show
from vicheck.remedies.draw_more import ADVICE_WITHOUT_KHAT
from vicheck.remedies.remedy import joined
from vicheck.results.psis import PsisStatus

__all__ = [
    "DrawsWherePIsZero",
    "KhatConstant",
    "KhatFewDraws",
    "KhatGood",
    "KhatGrowing",
    "KhatHigh",
    "KhatUncertain",
    "KhatUndefined",
    "KhatUnsteady",
    "KhatUsable",
]


@dataclass(frozen=True)
class _Khat(Evidence):
    """A khat that was estimated."""

    khat: float
    low: float
    """Of the 90% interval."""
    high: float
    threshold: float
    num_draws: int

    @property
    def _value(self) -> str:
        khat = f"{self.khat:.{self._digits}f}" if self._digits > 2 else show(self.khat)
        return f"khat {khat} (90% interval {show(self.low)} to {show(self.high)})"

    @property
    def _threshold(self) -> str:
        return f"the threshold {self.threshold:.{self._digits}f} for {self.num_draws} draws"

    @property
    def _digits(self) -> int:
        """Decimals that tell khat from what it is compared with, where two would not."""
        for digits in (2, 3):
            khat = f"{self.khat:.{digits}f}"
            if khat not in (f"{GOOD_BELOW:.{digits}f}", f"{self.threshold:.{digits}f}"):
                return digits
        return 4


class _OutvotedKhat(Evidence):
    """A low khat, which something that it cannot see may overrule."""

    @property
    def aside(self) -> str:
        return f"By khat alone: {lower_case(self.sentence)}"

    @property
    def aside_hint(self) -> str:
        return "khat cannot see what is wrong here."


@dataclass(frozen=True)
class KhatGood(_OutvotedKhat, _Khat):
    """khat is below 0.5 and below the threshold."""

    elsewhere: str = ""
    """What is known of other modes, as the end of a sentence: khat is blind to them."""

    code = "khat-good"
    severity = "ok"
    hint = "Use the smoothed weights to remove the remaining error."

    @property
    def sentence(self) -> str:
        return (
            f"The approximation is good where its draws lie: {self._value} is below "
            f"{GOOD_BELOW}{self.elsewhere}."
        )


@dataclass(frozen=True)
class KhatConstant(_OutvotedKhat):
    """All ratios are equal."""

    threshold: float
    khat: float = 0.0
    elsewhere: str = ""
    """As of `KhatGood`."""

    code = "khat-constant"
    severity = "ok"
    hint = "Nothing needs to be done."

    @property
    def sentence(self) -> str:
        return (
            "The approximation is good where its draws lie: all ratios are equal, so khat is "
            f"0{self.elsewhere}."
        )


@dataclass(frozen=True)
class KhatUsable(_OutvotedKhat, _Khat):
    """khat is between 0.5 and the threshold."""

    code = "khat-usable"
    severity = "caution"
    hint = "Report estimates with the smoothed weights and their errors, not plain ones."

    @property
    def sentence(self) -> str:
        return (
            f"The approximation is usable with care: {self._value} is above {GOOD_BELOW} "
            f"and below {self._threshold}."
        )


@dataclass(frozen=True)
class KhatHigh(_Khat):
    """khat is not below the threshold."""

    min_draws: float
    """Number of draws from which on this khat would be reliable."""
    advice: tuple[str, ...]
    """What remedies there are, each as part of a sentence."""

    code = "khat-high"
    severity = "bad"

    @property
    def sentence(self) -> str:
        return f"The approximation is not reliable: {self._value} is above {self._threshold}."

    @property
    def hint(self) -> str:
        remedies = joined(self.advice)
        if self.khat < USABLE_BELOW:
            return (
                f"More draws from q may be enough: this khat needs about {self.min_draws:.0f}. "
                f"Otherwise {remedies}."
            )
        return sentence_case(f"{remedies}; neither plain nor weighted estimates can be trusted")


@dataclass(frozen=True)
class KhatFewDraws(_Khat):
    """khat is not below the threshold, but only because its prior has lifted it."""

    code = "khat-few-draws"
    severity = "bad"
    hint = f"Draw at least {ENOUGH_DRAWS} times from q."

    @property
    def sentence(self) -> str:
        return (
            "Too few draws to call the approximation reliable: "
            f"{self._value} is above {self._threshold}."
        )


@dataclass(frozen=True)
class KhatUndefined(Evidence):
    """khat could not be estimated."""

    status: PsisStatus
    message: str
    num_draws: int

    code = "khat-undefined"
    severity = "bad"

    @property
    def sentence(self) -> str:
        return f"No verdict: {self.message}."

    @property
    def hint(self) -> str:
        if self.status is PsisStatus.TOO_FEW_DRAWS:
            return KhatFewDraws.hint
        return sentence_case(ADVICE_WITHOUT_KHAT[self.status])


@dataclass(frozen=True)
class KhatUncertain(Evidence):
    """The interval of khat lies across the threshold."""

    exceedance_probability: float
    threshold: float
    num_draws: int

    code = "khat-uncertain"
    severity = "caution"

    @property
    def sentence(self) -> str:
        return (
            f"khat is uncertain: it is above the threshold {self.threshold:.2f} "
            f"with probability {self.exceedance_probability:.2f}."
        )

    @property
    def hint(self) -> str:
        return f"More than {self.num_draws} draws from q would narrow it down."


@dataclass(frozen=True)
class KhatGrowing(Evidence):
    """khat rises with the number of draws."""

    first_draws: int
    first_khat: float
    last_draws: int
    last_khat: float

    code = "khat-growing"
    severity = "caution"
    hint = "Take more draws before relying on khat."

    @property
    def sentence(self) -> str:
        return (
            f"khat rises with the number of draws, from {show(self.first_khat)} at "
            f"{self.first_draws} to {show(self.last_khat)} at {self.last_draws}: more of the tail "
            "may lie beyond."
        )


@dataclass(frozen=True)
class KhatUnsteady(Evidence):
    """khat of fewer draws was something else."""

    draws: int
    khat: float
    last_draws: int
    last_khat: float

    code = "khat-unsteady"
    severity = "caution"
    hint = "Rely only on the khat of all draws; more draws will show whether it stays there."

    @property
    def sentence(self) -> str:
        return (
            f"khat is unsteady: it was {show(self.khat)} at {self.draws} draws and is "
            f"{show(self.last_khat)} at {self.last_draws}."
        )


@dataclass(frozen=True)
class DrawsWherePIsZero(Evidence):
    """Some draws have weight zero."""

    num_zero: int
    num_draws: int

    code = "draws-where-p-is-zero"
    severity = "caution"
    hint = "They have weight zero; KL(q, p) is infinite. Check supports and constraints."

    @property
    def sentence(self) -> str:
        lie = "lies" if self.num_zero == 1 else "lie"
        return f"{self.num_zero} of {self.num_draws} draws {lie} where p is zero."
