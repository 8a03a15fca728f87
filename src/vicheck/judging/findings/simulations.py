"""Findings on the fits to many simulated datasets, apart from their calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vicheck.judging.cutoffs import LEAST_DATASETS, MOST_UNCONVERGED
from vicheck.judging.findings.evidence import Evidence
from vicheck.judging.wording import sentence_case, show
from vicheck.remedies.converge import advice_after
from vicheck.results.status import FitStatus
from vicheck.results.summaries import Average, KhatSummary
from vicheck.results.verdict import Severity

__all__ = [
    "FitsConverged",
    "FitsUnconverged",
    "FitsUnknown",
    "KhatsHigh",
    "KhatsLow",
    "ParametersFromQ",
    "SymmetricKl",
    "SymmetricKlLarge",
    "SymmetricKlUnclear",
    "TooFewDatasets",
    "TooManyUnconverged",
]

_UNWELL = "failed, did not converge or are inaccurate"


@dataclass(frozen=True)
class FitsConverged(Evidence):
    """Every fit has converged."""

    num_fits: int

    code = "fits-converged"
    severity = "ok"
    hint = "Nothing needs to be done about the optimiser."

    @property
    def sentence(self) -> str:
        if self.num_fits == 1:
            return "The fit has converged."
        return f"All {self.num_fits} fits have converged."


@dataclass(frozen=True)
class FitsUnknown(Evidence):
    """How some fits ended is not known: they were made by a function of the user's."""

    unknown: int
    num_fits: int

    code = "fits-unknown"
    severity = "caution"
    hint = (
        "Nothing is recorded of how they ended: look at your optimiser's own messages, or let the "
        "function return a vicheck.Fit, or vicheck.Draws with a status."
    )

    @property
    def sentence(self) -> str:
        which = (
            "the fits"
            if self.unknown == self.num_fits
            else f"{self.unknown} of {self.num_fits} fits"
        )
        return f"Whether {which} have converged is not known."


@dataclass(frozen=True)
class FitsUnconverged(Evidence):
    """Some fits have not converged."""

    counts: Mapping[FitStatus, int]
    """Of the statuses that are neither CONVERGED nor UNKNOWN."""
    num_fits: int
    solver: str

    code = "fits-unconverged"

    @property
    def unconverged(self) -> int:
        """How many."""
        return sum(self.counts.values())

    @property
    def severity(self) -> Severity:
        return "bad" if self.too_many else "caution"

    @property
    def too_many(self) -> bool:
        """Whether there can be no verdict."""
        return self.unconverged > MOST_UNCONVERGED * self.num_fits

    @property
    def sentence(self) -> str:
        counts = ", ".join(f"{self.counts[status]} {status.name}" for status in self._ordered)
        return f"{self.unconverged} of {self.num_fits} fits {_UNWELL}: {counts}."

    @property
    def hint(self) -> str:
        first = sentence_case(advice_after(self._ordered[0], self.solver))
        return f"{first} `.failures` lists them with the seeds that replay them."

    @property
    def _ordered(self) -> list[FitStatus]:
        return sorted(self.counts, key=lambda status: -self.counts[status])

    def numbers(self) -> dict[str, float | str]:
        return super().numbers() | {
            status.name: float(count) for status, count in self.counts.items()
        }


@dataclass(frozen=True)
class TooManyUnconverged(FitsUnconverged):
    """So many fits have not converged that there can be no verdict."""

    code = "too-many-unconverged"

    @property
    def sentence(self) -> str:
        return (
            f"No verdict: {self.unconverged} of {self.num_fits} fits {_UNWELL}, more than "
            f"{MOST_UNCONVERGED:.0%}; such fits show a bias that is not the family's."
        )


@dataclass(frozen=True)
class TooFewDatasets(Evidence):
    """There are too few calibration probabilities for a verdict."""

    num_used: int

    code = "too-few-datasets"
    severity = "bad"
    hint = "Simulate more datasets, num_datasets=1000 for instance."

    @property
    def sentence(self) -> str:
        have = "dataset has" if self.num_used == 1 else "datasets have"
        return (
            f"No verdict: {self.num_used} {have} calibration probabilities, and fewer than "
            f"{LEAST_DATASETS} cannot show a bias."
        )


@dataclass(frozen=True)
class _Khats(Evidence):
    """khat over the datasets."""

    median: float
    low: float
    high: float
    threshold: float
    share_above: float
    num_undefined: int

    @classmethod
    def of(cls, khat: KhatSummary) -> _Khats:
        """Take the numbers from a summary."""
        return cls(
            khat.median, khat.low, khat.high, khat.threshold, khat.share_above, khat.num_undefined
        )

    @property
    def sentence(self) -> str:
        undefined = f" It is undefined for {self.num_undefined}." if self.num_undefined else ""
        return (
            f"khat of each dataset: median {show(self.median)}, 90% between {show(self.low)} and "
            f"{show(self.high)}; {self.share_above:.0%} are above the threshold "
            f"{self.threshold:.2f}.{undefined}"
        )


@dataclass(frozen=True)
class KhatsLow(_Khats):
    """Few datasets have a khat above the threshold."""

    code = "khats-low"
    severity = "ok"
    hint = "PSIS can correct most of these fits."


@dataclass(frozen=True)
class KhatsHigh(_Khats):
    """Many datasets have a khat above the threshold."""

    code = "khats-high"
    severity = "caution"
    hint = "The joint posterior is often missed: see what vicheck.check says of your data."


@dataclass(frozen=True)
class SymmetricKl(Evidence):
    """How far q and posterior are apart, on average."""

    mean: float
    low: float
    high: float
    average: Average

    code = "symmetric-kl"
    severity: ClassVar[Severity] = "ok"
    hint = "Of two families or parametrizations, take the one where it is smaller."

    @classmethod
    def of(cls, average: Average) -> SymmetricKl:
        """Take the numbers from a summary."""
        return cls(average.mean, average.low, average.high, average)

    @property
    def sentence(self) -> str:
        return (
            f"Symmetric KL divergence of q and the posterior, on average: {self.average}"
            f"{self._share}."
        )

    @property
    def _share(self) -> str:
        return ""


@dataclass(frozen=True)
class SymmetricKlLarge(SymmetricKl):
    """The same, when it is clearly more than a shift by one sd would make it."""

    code = "symmetric-kl-large"
    severity = "caution"
    hint = (
        "That is a lot: a shift by one sd amounts to one nat. Small errors in many parameters add "
        "up to as much; of two families or parametrizations, take the one where it is smaller."
    )


@dataclass(frozen=True)
class SymmetricKlUnclear(SymmetricKl):
    """The same, when it is infinite or one dataset makes up most of it."""

    code = "symmetric-kl-unclear"
    severity = "caution"
    hint = "Look at the terms, `.data['symmetric_kl']`: their mean and interval mean little."

    @property
    def _share(self) -> str:
        if not math.isfinite(self.mean):
            return ""
        return f", of which one dataset is {self.average.largest_share:.0%}"


@dataclass(frozen=True)
class ParametersFromQ(Evidence):
    """The true parameters come from the fitted q, which may be bad."""

    code = "parameters-from-q"
    severity = "caution"
    sentence = (
        "The true parameters were drawn from the fitted q: if that is bad, so is this calibration."
    )
    hint = "Believe what it finds wrong; what it finds right needs a low khat as well."
