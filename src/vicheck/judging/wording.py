"""Words that all verdicts share."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["LIKELIHOOD", "counted", "listed", "lower_case", "sentence_case", "show", "stretch"]

LIKELIHOOD = "log_likelihood"
"""What the joint log likelihood is called, as `vicheck.quantities` names it."""
_NAMED = 3
"""How many quantities a sentence names."""


def show(number: float) -> str:
    """Write a number with two decimals, or three digits when it is huge."""
    return f"{number:.2f}" if abs(number) < 1000.0 else f"{number:.3g}"


def lower_case(text: str) -> str:
    """Begin with a small letter: the sentence goes on."""
    return text[0].lower() + text[1:]


def sentence_case(text: str) -> str:
    """Begin with a capital letter and end with a full stop."""
    return text[0].upper() + text[1:] + "."


def counted(number: int) -> str:
    """Say how many quantities."""
    return "1 quantity" if number == 1 else f"{number} quantities"


def listed(names: Sequence[str]) -> str:
    """Name the first of some quantities, and count the others."""
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def stretch(growth: float) -> str:
    """Say how wrong an sd is whose log has to grow by so much."""
    way = "small" if growth > 0.0 else "large"
    return f"{math.exp(abs(growth)):.2g} times too {way}"
