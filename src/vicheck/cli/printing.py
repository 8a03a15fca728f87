"""What the commands print: lines for people, JSON for machines."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from vicheck.cli.failures import EX_IOERR, fail
from vicheck.cli.tables import fit_table
from vicheck.plain_text import plain

if TYPE_CHECKING:
    from vicheck.results.calibration import Calibration
    from vicheck.results.check import Check

__all__ = [
    "COLORS",
    "AsJson",
    "console",
    "described",
    "show_warnings_plainly",
    "strict_json",
    "telling",
    "write",
    "write_json",
]

COLORS = {"good": "green", "usable": "yellow", "unreliable": "red", "none": "magenta"}

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
"""The option that all commands have."""

_INDENT = re.compile(r" +(?:(?:ok|caution|bad) +)?")


def console(*, stderr: bool = False) -> Console:
    """Return where to print to; with NO_COLOR without colours and everything else of their kind."""
    plain = os.environ.get("NO_COLOR", "") != ""
    return Console(stderr=stderr, color_system=None if plain else "auto", highlight=False)


@contextmanager
def telling(what: str) -> Iterator[Callable[[str], None]]:
    """Tell what is going on, on standard error, when that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with console(stderr=True).status(Text(plain(what))) as status:
        yield lambda what: status.update(Text(plain(what)))


def write(lines: list[Text]) -> None:
    """Print lines: wrapped and coloured on a terminal, plain elsewhere."""
    out = console()
    with _answering():
        for line in map(_harmless, lines):
            if not out.is_terminal:
                print(line)
                continue
            for part in _wrapped(line, out):
                out.print(part, soft_wrap=True)


def write_json(value: Any) -> None:
    """Print a value as one JSON document."""
    with _answering():
        print(json.dumps(strict_json(value), indent=2, allow_nan=False))


def show_warnings_plainly() -> None:
    """Have warnings printed as one line each, without a place in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"warning: {plain(str(message))}", file=sys.stderr)

    warnings.showwarning = show


def _harmless(line: Text) -> Text:
    """Take out what would steer a terminal: names and titles come from files."""
    cleaned = line.copy()
    cleaned.plain = plain(_encodable(line.plain))
    return cleaned


def _encodable(text: str) -> str:
    """Replace letters that the encoding of standard output does not have."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        # What could not be written must not be tried, and reported, again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # a reader that hangs up has what it wanted
            fail(f"cannot write the answer: {error.strerror or error}", EX_IOERR)


def _wrapped(line: Text, out: Console) -> list[Text]:
    """Cut a line to the width of the terminal; what is cut off goes on where it has begun."""
    found = _INDENT.match(line.plain)
    indent = found.end() if found else 0
    if line.no_wrap or len(line) <= out.width:
        return [line]
    parts = line[indent:].wrap(out, max(out.width - indent, 20))
    for part in parts:
        part.rstrip()
    return [line[:indent] + parts[0], *(Text(" " * indent) + part for part in parts[1:])]


def described(result: Check | Calibration) -> list[Text]:
    """Return a result as lines for people: the verdict in colour, the table within the width."""
    lines = str(result).splitlines()
    start = len(lines) - lines[::-1].index("")
    color = f"bold {COLORS[result.verdict.level]}"
    said = [Text(line, color if line == str(result.verdict) else "") for line in lines[:start]]
    out = console()
    table, more = lines[start:], []
    if table[-1].startswith("... and "):
        table, more = table[:-1], table[-1:]
    rows = fit_table(table, out.width) if out.is_terminal else table
    return [*said, *(Text(row, no_wrap=True) for row in rows), *map(Text, more)]


def strict_json(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by null."""
    if isinstance(value, dict):
        return {key: strict_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [strict_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
