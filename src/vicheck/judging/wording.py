"""Words that all verdicts share."""

from __future__ import annotations

__all__ = ["lower_case", "sentence_case", "show"]


def show(number: float) -> str:
    """Write a number with two decimals, or three digits when it is huge."""
    return f"{number:.2f}" if abs(number) < 1000.0 else f"{number:.3g}"


def lower_case(text: str) -> str:
    """Begin with a small letter: the sentence goes on."""
    return text[0].lower() + text[1:]


def sentence_case(text: str) -> str:
    """Begin with a capital letter and end with a full stop."""
    return text[0].upper() + text[1:] + "."
