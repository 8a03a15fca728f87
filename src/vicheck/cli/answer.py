"""How commands that fit models answer: files first, then the result and its exit status."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import typer
from rich.text import Text

from vicheck.cli.failures import EX_IOERR, EX_USAGE, EXIT_CODES, fail, fail_to_write
from vicheck.cli.printing import Paragraph, summary_paragraphs, write, write_json
from vicheck.errors import ArgumentError

if TYPE_CHECKING:
    from vicheck.results.calibration import Calibration
    from vicheck.results.check import Check
    from vicheck.results.explanation import Explanation

__all__ = [
    "Prob",
    "Report",
    "Save",
    "answer",
    "chosen_prob",
    "command_line",
    "require_places",
    "why_lines",
    "write_files",
]

Report = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write a report, a page of HTML, to this file.")
]
Save = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Write the result to this .npz file, for vicheck report."),
]
Prob = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PROBS",
        help="Probabilities of the quantiles to show, with commas between. "
        "[default: 0.05,0.5,0.95]",
    ),
]

T = TypeVar("T", "Check", "Calibration")


def chosen_prob(prob: list[str] | None) -> tuple[float, ...] | None:
    """Return the probabilities that were asked for, or end with what is wrong with them."""
    if prob is None:
        return None
    from vicheck.checking.quantiles import probabilities

    texts = [each.strip() for text in prob for each in text.split(",")]
    try:
        return tuple(probabilities(texts).tolist())
    except ArgumentError as error:
        fail(error.sentence_with("--prob"), EX_USAGE, error.hint)


def require_places(*paths: str | None, saved: str | None = None) -> None:
    """End at once when a file could not be written later, or must not be saved by this name."""
    if saved is not None:
        from vicheck.results.archive import require_own_suffix

        try:
            require_own_suffix(saved)
        except ArgumentError as error:
            fail(error.sentence_with("--save"), EX_USAGE, error.hint)
    for path in filter(None, (*paths, saved)):
        directory = Path(path).parent
        if Path(path).is_dir():
            hint = f"give the name of a file, such as {Path(path) / 'result'}"
            fail(f"cannot write {path}: it is a directory", EX_IOERR, hint)
        if not directory.is_dir():
            hint = "create it first, or give another"
            fail(f"cannot write {path}: there is no directory {directory}", EX_IOERR, hint)


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["vicheck", *sys.argv[1:]])


def answer(
    result: T,
    *,
    as_json: bool,
    report: str | None,
    save: str | None,
    explanation: Explanation | None = None,
) -> NoReturn:
    """Write the files that were asked for, print the result and end with its exit status."""
    result = result.with_command(command_line())
    write_files((report, result.report), (save, result.save))
    if as_json:
        why = {} if explanation is None else {"explanation": explanation.to_dict()}
        write_json(result.to_dict() | why)
    else:
        from vicheck.report.text import summary_of

        write(summary_paragraphs(summary_of(result)))
        if explanation is not None:
            write(why_lines(explanation))
        write([Text(), Text(f"Report: {report}", no_wrap=True)] if report else [])
    raise typer.Exit(EXIT_CODES[result.verdict.level])


def write_files(*files: tuple[str | None, Callable[[str], object]]) -> None:
    """Write each file that was asked for by what writes it, or end with what went wrong."""
    for path, write_file in files:
        if path is not None:
            try:
                write_file(path)
            except OSError as error:
                fail_to_write(path, error)


def why_lines(explanation: Explanation) -> list[Text | Paragraph]:
    """Return an explanation for people."""
    causes = [Paragraph(Text(line), 3) for line in str(explanation).splitlines()]
    return [Text(), Text("Why:"), *causes]
