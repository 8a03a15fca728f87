"""`Remedy`: the base of all next steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from vicheck.results.verdict import NextStep

__all__ = ["NUTS", "Remedy", "joined"]

NUTS = "reference = vicheck.reference(model)  # NUTS"

Situation = TypeVar("Situation")


class Remedy(ABC, Generic[Situation]):
    """One thing to do next: when it applies, its line of Python, and what it does.

    Hints, `vicheck.results.verdict.Verdict.next_steps` and the page *When it fails* are made of
    these. They only say what to do; a rescue carries out those of `vicheck.rescuing.ladder`.
    """

    name: ClassVar[str]
    """Stable, as in ``richer-family``."""
    title: ClassVar[str]
    """For tables."""
    when: ClassVar[str]
    """When it applies, for tables: the words for what `applies` decides."""
    example: ClassVar[str] = ""
    """A line that `line` returns, for tables; empty where there is never one."""
    effect: ClassVar[str]
    """What it does, as a sentence."""

    @abstractmethod
    def applies(self, situation: Situation) -> bool:
        """Whether it is a way out of this situation."""

    @abstractmethod
    def advice(self, situation: Situation) -> str:
        """Return what to do as part of a sentence: an imperative without a full stop."""

    def line(self, situation: Situation) -> str:
        """Return the line of Python, or nothing where none could be right for everyone."""
        return ""

    def step(self, situation: Situation) -> NextStep:
        """Return it as a part of a verdict."""
        return NextStep(self.name, self.effect, self.line(situation))


def joined(advice: Sequence[str]) -> str:
    """Join what several remedies advise: ``do this, do that, or do the other``."""
    if len(advice) < 2:
        return "".join(advice)
    return f"{', '.join(advice[:-1])}{',' if len(advice) > 2 else ''} or {advice[-1]}"
