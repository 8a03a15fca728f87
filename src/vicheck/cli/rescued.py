"""How commands answer with a rescue: files first, then what was tried and what to report."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import typer
from rich.text import Text

from vicheck.cli.answer import command_line, why_lines, write_files
from vicheck.cli.failures import EXIT_CODES
from vicheck.cli.printing import COLORS, Paragraph, write, write_json

if TYPE_CHECKING:
    from vicheck.results.explanation import Explanation
    from vicheck.results.rescue import Rescue

__all__ = ["answer_rescue", "level_of", "rescue_lines"]


def level_of(rescued: Rescue) -> str:
    """Return what may be done with the answer: that of the check, unless NUTS is what to use."""
    if not rescued.succeeded:
        return "unreliable"
    return "usable" if rescued.by_sampling else rescued.check.verdict.level


def rescue_lines(rescued: Rescue) -> list[Text | Paragraph]:
    """Return a rescue for people: before, what was tried, after, what to report, the code."""
    from vicheck.report.rescue_text import changes_lines, code_lines, trail_lines

    lines: list[Text | Paragraph] = []
    if rescued.before is not None and len(rescued.attempts) > 1:
        lines += [Paragraph(Text(f"Before: {rescued.before.verdict.sentence}"), 8), Text()]
    lines.append(Paragraph(Text(rescued.sentence, f"bold {COLORS[level_of(rescued)]}")))
    for part in (trail_lines(rescued), changes_lines(rescued), code_lines(rescued)):
        if part:
            lines += [Text(), *(Text(line, no_wrap=True) for line in part)]
    return lines


def answer_rescue(
    rescued: Rescue,
    *,
    as_json: bool,
    report: str | None,
    save: str | None,
    explanation: Explanation | None = None,
) -> NoReturn:
    """Write the files that were asked for, print the rescue and end with its exit status."""
    rescued = rescued.with_command(command_line())
    write_files((report, rescued.report), (save, rescued.save))
    if as_json:
        why = {} if explanation is None else {"explanation": explanation.to_dict()}
        write_json(rescued.to_dict() | why)
    else:
        write(rescue_lines(rescued))
        write([] if explanation is None else why_lines(explanation))
        write([Text(), Text(f"Report: {report}", no_wrap=True)] if report else [])
    raise typer.Exit(EXIT_CODES[level_of(rescued)])
