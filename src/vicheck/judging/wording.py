"""Words that all verdicts share."""

from __future__ import annotations

from vicheck.results.verdict import Verdict

__all__ = ["lower_case", "sentence_case", "show", "verdict_lines"]

_MARKS = {"ok": "ok     ", "caution": "caution", "bad": "bad    "}


def verdict_lines(verdict: Verdict) -> list[str]:
    """Return the verdict, the other findings and what to do, line by line."""
    return [
        verdict.sentence,
        *(f"  {_MARKS[finding.severity]} {finding.sentence}" for finding in verdict.others),
        f"What to do: {verdict.hint}",
    ]


def show(number: float) -> str:
    """Write a number with two decimals, or three digits when it is huge."""
    return f"{number:.2f}" if abs(number) < 1000.0 else f"{number:.3g}"


def lower_case(text: str) -> str:
    """Begin with a small letter: the sentence goes on."""
    return text[0].lower() + text[1:]


def sentence_case(text: str) -> str:
    """Begin with a capital letter and end with a full stop."""
    return text[0].upper() + text[1:] + "."
