"""`Finding`, `Answer`, `NextStep` and `Verdict`: what was found out, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vicheck.plain_text import plain
from vicheck.results.record import Record

__all__ = ["Answer", "Finding", "Level", "NextStep", "Severity", "Verdict"]

Severity = Literal["ok", "caution", "bad"]
Level = Literal["good", "usable", "unreliable", "none"]


@dataclass(frozen=True, eq=False, repr=False)
class Finding(Record):
    """One sentence about a fit, with how bad it is, the numbers behind it and what to do."""

    code: str
    """Its name, such as ``khat-high``: compare this in programs, never the sentence. The
    codes are those of `vicheck.judging.findings.CATALOGUE`."""
    severity: Severity
    sentence: str
    evidence: dict[str, float | str]
    """The numbers and names that the sentence rests on."""
    hint: str

    def __repr__(self) -> str:
        return f"Finding({self.code}, {self.severity}: {plain(self.sentence)!r})"

    def __str__(self) -> str:
        return plain(self.sentence)


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Record):
    """The answer to one question, and the codes of the findings that it rests on."""

    value: Literal["yes", "no", "unknown"] = "unknown"
    because: tuple[str, ...] = ()
    """Codes of findings; none if nothing was found out."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, eq=False, repr=False)
class NextStep(Record):
    """One thing to do next: its name, what it does, and its line of Python."""

    name: str
    """Name of the remedy in `vicheck.remedies`."""
    sentence: str
    code: str = ""
    """A line of Python, if one can be right for everyone."""

    def __str__(self) -> str:
        return plain(self.sentence)


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(Record):
    """The summary of the findings; ``str`` gives the sentence.

    The level is one word for all of it. The answers to separate questions are fields: of a check
    they are about the one fit, of a calibration about the fits to all simulated datasets.
    """

    level: Level
    sentence: str
    hint: str
    findings: tuple[Finding, ...]
    decided_by: str
    """Code of the finding that decides the level, and whose sentence is the verdict's."""
    next_steps: tuple[NextStep, ...] = ()
    """What to do next, in the order in which to try it."""
    converged: Answer = Answer()
    """Has the optimiser found the optimum, as accurately as it was asked to? Of a calibration: have
    all fits?"""
    close: Answer = Answer()
    """Is q itself close to the posterior, so that plain estimates can be used?"""
    weights_work: Answer = Answer()
    """Do the smoothed weights correct what is wrong with q?"""
    elsewhere: Answer = Answer()
    """Was part of the posterior found away from q? No means that a search has found nothing;
    unknown, that there was no search or that its climbs did not arrive anywhere."""
    chains_agree: Answer = Answer()
    """Do short chains stay where q, or its weighted draws, are? Unknown if none were run."""

    @property
    def code(self) -> str:
        """The first line of Python among the next steps; empty if there is none."""
        return next((step.code for step in self.next_steps if step.code), "")

    @property
    def others(self) -> tuple[Finding, ...]:
        """The findings other than the one whose sentence is the verdict's."""
        return tuple(finding for finding in self.findings if finding.code != self.decided_by)

    def __str__(self) -> str:
        return plain(self.sentence)

    def __repr__(self) -> str:
        codes = ", ".join(finding.code for finding in self.findings)
        return f"Verdict({self.level}, decided by {self.decided_by}; findings: {codes})"
