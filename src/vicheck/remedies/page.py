"""The tables of the page *When it fails*, made of the remedies themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vicheck.remedies.converge import advice_after
from vicheck.remedies.remedy import Remedy
from vicheck.results.status import FitStatus

__all__ = ["remedies_table", "statuses_table"]


def remedies_table(ladder: Sequence[Remedy[Any]]) -> str:
    """Return a ladder as a table in Markdown: each step, when it applies, its line, its effect."""
    rows = [
        f"| {remedy.title} | {remedy.when} | {_code(remedy.example)} | {remedy.effect} |"
        for remedy in ladder
    ]
    return "\n".join(["| step | when | line | what it does |", "|---|---|---|---|", *rows])


def statuses_table(solver: str) -> str:
    """Return what to do about each status of a fit, as a table in Markdown."""
    rows = [
        f"| `{status.name}` | {status.value} | {advice_after(status, solver)} |"
        for status in FitStatus
        if status is not FitStatus.CONVERGED
    ]
    return "\n".join(["| `fit.status` | what it means | what to do |", "|---|---|---|", *rows])


def _code(line: str) -> str:
    return f"`{line}`" if line else ""
