"""`Finding` and `Verdict`: what was found out, in sentences with the numbers behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vicheck.plain_text import plain
from vicheck.results.record import Record

__all__ = ["Finding", "Verdict"]


@dataclass(frozen=True, eq=False, repr=False)
class Finding(Record):
    """One sentence about a fit, with how bad it is, the numbers behind it and what to do."""

    severity: Literal["ok", "caution", "bad"]
    sentence: str
    evidence: dict[str, float]
    hint: str

    def __str__(self) -> str:
        return plain(self.sentence)


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(Record):
    """The summary of the findings; ``str`` gives the sentence."""

    level: Literal["good", "usable", "unreliable", "none"]
    sentence: str
    hint: str
    findings: tuple[Finding, ...]
    code: str = ""
    """The next step as a line of Python, where there is one."""

    def __str__(self) -> str:
        return plain(self.sentence)
