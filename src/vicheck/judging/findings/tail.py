"""Findings on ratios whose tail is not Pareto at this number of draws."""

from __future__ import annotations

from dataclasses import dataclass

from vicheck.judging.findings.evidence import Evidence
from vicheck.judging.wording import show

__all__ = ["NotPareto", "TailUnseen"]


@dataclass(frozen=True)
class _NoTail(Evidence):
    """A khat that belongs to no Pareto tail."""

    khat: float
    tail_length: int
    num_draws: int
    outer_khat: float
    """That of the longest shorter tail which none contradicts; NaN where all are too short."""
    outer_length: int

    @property
    def hint(self) -> str:
        return f"Take more draws, at least {4 * self.num_draws}: then the tail begins further out."

    @property
    def _outer(self) -> str:
        return f"khat of the {self.outer_length} largest ratios is {show(self.outer_khat)}"


@dataclass(frozen=True)
class NotPareto(_NoTail):
    """Tails of different lengths have different khats, and none is heavy for sure."""

    largest: float
    """The largest ratio, in multiples of the mean."""

    code = "not-pareto"
    severity = "caution"

    @property
    def sentence(self) -> str:
        return f"The approximation is usable with care: {self._outer}. {self.aside}"

    @property
    def aside(self) -> str:
        return (
            f"The {self.tail_length} largest ratios are not a Pareto tail: khats of other lengths "
            f"contradict theirs of {show(self.khat)}. The largest ratio is {show(self.largest)} "
            "times the mean, and the ratios are not smoothed."
        )


@dataclass(frozen=True)
class TailUnseen(_NoTail):
    """There are too few draws beyond the part of the ratios that is not Pareto."""

    threshold: float

    code = "tail-unseen"
    severity = "bad"

    @property
    def sentence(self) -> str:
        begins = "No verdict: the tail of the ratios is not Pareto at this number of draws, and"
        if not self.outer_length:
            return f"{begins} too few ratios lie further out."
        return f"{begins} {self._outer}, not below {self.threshold:.2f} within its error."
