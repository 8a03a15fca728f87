"""`Evidence`: the base of all findings, each a small record with its code, sentence and hint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from enum import Enum
from typing import ClassVar

from vicheck.judging.wording import lower_case
from vicheck.results.verdict import Finding, Severity

__all__ = ["Evidence", "OnQuantities", "UsableForPoints"]


@dataclass(frozen=True)
class Evidence(ABC):
    """What one finding rests on; the only place where its sentence is made.

    Fields hold the numbers and names. A finding is shown in one of two places: as the verdict,
    when it decides that (``sentence``, ``hint``), or beside it (``aside``, ``aside_hint``); most
    findings have the same words for both.
    """

    code: ClassVar[str]
    """Stable name of the finding, in kebab case."""

    @property
    @abstractmethod
    def severity(self) -> Severity:
        """How bad it is."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """What was found."""

    @property
    @abstractmethod
    def hint(self) -> str:
        """What to do about it."""

    @property
    def aside(self) -> str:
        """What was found, when something else decides the verdict."""
        return self.sentence

    @property
    def aside_hint(self) -> str:
        """What to do about it, when something else decides the verdict."""
        return self.hint

    def finding(self, *, decides: bool) -> Finding:
        """Return it as a part of a verdict."""
        return Finding(
            code=self.code,
            severity=self.severity,
            sentence=self.sentence if decides else self.aside,
            evidence=self.numbers(),
            hint=self.hint if decides else self.aside_hint,
        )

    def numbers(self) -> dict[str, float | str]:
        """Return the fields that are numbers, names or statuses."""
        numbers: dict[str, float | str] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, int | float):
                numbers[each.name] = float(value)
            elif isinstance(value, str | Enum):
                numbers[each.name] = value.name if isinstance(value, Enum) else value
        return numbers


class OnQuantities(Evidence):
    """What is found about quantities, of which one stands for all: that which pictures mark."""

    @property
    @abstractmethod
    def quantity(self) -> str:
        """The one with the clearest finding."""

    def numbers(self) -> dict[str, float | str]:
        return super().numbers() | {"quantity": self.quantity}


class UsableForPoints(OnQuantities):
    """What spoils intervals and sds and not, as far as was found, means and medians.

    The paper tests symmetry alone for this reason: point estimates may be right where the posterior
    is not (section 3.1).
    """

    @property
    def sentence(self) -> str:
        what = lower_case(self.aside)
        return f"The approximation is usable for point estimates, but not calibrated: {what}"
