"""What the commands print: lines for people, JSON for machines."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from vicheck.cli.failures import EX_IOERR, fail
from vicheck.cli.tables import fit_table
from vicheck.plain_text import plain
from vicheck.runtime.progress import showing

if TYPE_CHECKING:
    from vicheck.report.text import Line, Summary

__all__ = [
    "COLORS",
    "AsJson",
    "Paragraph",
    "console",
    "show_warnings_plainly",
    "status_line",
    "strict_json",
    "summary_paragraphs",
    "write",
    "write_json",
]

COLORS = {"good": "green", "usable": "yellow", "unreliable": "red", "none": "magenta"}

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
"""The option that all commands have."""

_NARROWEST = 20
"""Characters of a text that stay on a line, however narrow the terminal."""


@dataclass(frozen=True)
class Paragraph:
    """A text that is wrapped on a terminal: lines after the first begin at ``indent``."""

    text: Text
    indent: int = 0


def console(*, stderr: bool = False) -> Console:
    """Return where to print to; with NO_COLOR without colours and everything else of their kind."""
    plain = os.environ.get("NO_COLOR", "") != ""
    return Console(stderr=stderr, color_system=None if plain else "auto", highlight=False)


@contextmanager
def status_line(what: str) -> Iterator[Callable[[str], None]]:
    """Show what is going on, on standard error when that is a terminal; yield what changes it."""
    if not sys.stderr.isatty():
        with showing(False, what):
            yield lambda _: None
        return
    with console(stderr=True).status(Text(plain(what))) as status:

        def show(what: str) -> None:
            status.update(Text(plain(what)))

        with showing(show, what):
            yield show


def write(lines: Sequence[Text | Paragraph]) -> None:
    """Print lines: wrapped and coloured on a terminal, plain elsewhere."""
    out = console()
    with _errors_of_stdout():
        for line in lines:
            paragraph = _harmless(line if isinstance(line, Paragraph) else Paragraph(line))
            if not out.is_terminal:
                print(paragraph.text)
                continue
            for part in _wrapped(paragraph, out):
                out.print(part, soft_wrap=True)


def write_json(value: Any) -> None:
    """Print a value as one JSON document."""
    with _errors_of_stdout():
        print(json.dumps(strict_json(value), indent=2, allow_nan=False))


def show_warnings_plainly() -> None:
    """Have warnings printed as one line each, without a place in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"warning: {plain(str(message))}", file=sys.stderr)

    warnings.showwarning = show


def _harmless(paragraph: Paragraph) -> Paragraph:
    """Take out what would steer a terminal: names and titles come from files."""
    cleaned = paragraph.text.copy()
    cleaned.plain = plain(_encodable(cleaned.plain))
    return replace(paragraph, text=cleaned)


def _encodable(text: str) -> str:
    """Replace letters that the encoding of standard output does not have."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


@contextmanager
def _errors_of_stdout() -> Iterator[None]:
    """Flush what was printed, and end the command when standard output cannot be written to."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        # What could not be written must not be tried, and reported, again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # a reader that hangs up has what it wanted
            fail(f"cannot write the answer: {error.strerror or error}", EX_IOERR)


def _wrapped(paragraph: Paragraph, out: Console) -> list[Text]:
    """Cut a paragraph to the width of the terminal."""
    line, indent = paragraph.text, paragraph.indent
    if line.no_wrap or len(line) <= out.width:
        return [line]
    parts = line[indent:].wrap(out, max(out.width - indent, _NARROWEST))
    for part in parts:
        part.rstrip()
    return [line[:indent] + parts[0], *(Text(" " * indent) + part for part in parts[1:])]


def summary_paragraphs(summary: Summary) -> list[Paragraph]:
    """Return a summary for people: the verdict in colour, the table within the width."""
    from vicheck.report.text import Kind

    color = f"bold {COLORS[summary.level]}"
    blank = Paragraph(Text())

    def paragraph(line: Line) -> Paragraph:
        text = Text(str(line), color if line.kind is Kind.VERDICT else "")
        return Paragraph(text, len(line.lead))

    out = console()
    tables: list[Paragraph] = []
    for table in summary.tables:
        rows = fit_table(table, out.width) if out.is_terminal else table.lines()
        tables += [blank, *(Paragraph(Text(row, no_wrap=True)) for row in rows)]
    return [
        *map(paragraph, summary.verdict),
        blank,
        *map(paragraph, summary.notes),
        *tables,
        *([Paragraph(Text(summary.more))] if summary.more else []),
    ]


def strict_json(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by null."""
    if isinstance(value, dict):
        return {key: strict_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [strict_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
