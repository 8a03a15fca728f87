"""`vicheck report`: a page of HTML from results that were saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text

from vicheck.cli.answer import Prob, chosen_prob, require_places
from vicheck.cli.application import app
from vicheck.cli.failures import EX_USAGE, fail, fail_to_read, fail_to_write
from vicheck.cli.pages import Command
from vicheck.cli.printing import AsJson, status_line, write, write_json
from vicheck.errors import ArgumentError, InputFileError

if TYPE_CHECKING:
    from vicheck.results.calibration import Calibration
    from vicheck.results.check import Check
    from vicheck.results.rescue import Rescue
    from vicheck.results.verdict import Verdict

__all__: list[str] = []

_HELP = """
Write a report, one self-contained page of HTML, from results that `vicheck check --save`,
`vicheck rescue --save` or `vicheck vsbc --save` has written. A calibration may go on one page with
a check or a rescue of the same model; the order does not matter, because each file says what it
holds.
"""

_MORE = """
Exit status:
  0 when the page is written, whatever the verdicts; 64 and up for errors.

Examples:
  $ vicheck report check.npz
  $ vicheck report check.npz --prob 0.025,0.5,0.975
  $ vicheck report check.npz vsbc.npz --out page.html
  $ vicheck report rescue.npz
  $ vicheck report vsbc.npz --json
"""

_SAVE = "--save of vicheck check, rescue and vsbc writes such files"
_PART = {"check": "check", "rescue": "check", "calibration": "calibration"}
"""What part of a page is made of a kind of result."""


@app.command(
    "report",
    cls=Command,
    help=_HELP,
    short_help="Write a page of HTML from saved results.",
    epilog=_MORE,
)
def _report(
    results: Annotated[
        list[str], typer.Argument(metavar="RESULT.npz", help="One saved result, or one of each.")
    ],
    out: Annotated[
        str, typer.Option(metavar="FILE", help="Write the page to this file.")
    ] = "report.html",
    prob: Prob = None,
    as_json: AsJson = False,
) -> None:
    """Read results, write the page and print its path."""
    require_places(out)
    shown = chosen_prob(prob)
    from vicheck.results.loading import load

    paths: dict[str, str] = {}
    for path in results:
        part = _PART[_kind(path)]
        if part in paths:
            fail(
                f"{paths[part]} and {path} both hold a {part}",
                EX_USAGE,
                "give one check and one calibration, or one file alone",
            )
        paths[part] = path
    with status_line("reading") as show_status:
        loaded: dict[str, Any] = {part: load(path) for part, path in paths.items()}
        _show(shown, loaded)
        show_status("writing the report")
        try:
            written = _write(loaded, out)
        except OSError as error:
            fail_to_write(out, error)
    if as_json:
        verdicts = {part: _verdict(result).to_dict() for part, result in loaded.items()}
        write_json({"report": str(written), "verdicts": verdicts})
    else:
        write([Text(_verdict(result).sentence) for result in loaded.values()])
        write([Text(str(written), no_wrap=True)])


def _kind(path: str) -> str:
    """Return what a file holds, by its description."""
    from vicheck.results.archive import result_kind

    try:
        kind = result_kind(path)
    except OSError as error:
        fail_to_read(path, error)
    except InputFileError as error:
        raise InputFileError(error.sentence, hint=error.hint or _SAVE) from None
    if kind not in _PART:
        raise InputFileError(f"{path} holds no check, rescue or calibration", hint=_SAVE)
    return kind


def _verdict(result: Check | Rescue | Calibration) -> Verdict:
    from vicheck.results.rescue import Rescue

    return result.check.verdict if isinstance(result, Rescue) else result.verdict


def _show(prob: tuple[float, ...] | None, loaded: dict[str, Any]) -> None:
    """Let a check have the quantiles that were asked for."""
    if prob is None:
        return
    if "check" not in loaded:
        fail("--prob goes with a check, and there is none in the file", EX_USAGE, "leave it out")
    try:
        loaded["check"] = loaded["check"].with_prob(prob)
    except ArgumentError as error:  # it was saved without its draws
        fail(error.sentence_with("--prob"), EX_USAGE, error.hint)


def _write(loaded: dict[str, Any], out: str) -> Path:
    check = cast("Check | Rescue | None", loaded.get("check"))
    calibration = cast("Calibration | None", loaded.get("calibration"))
    if check is None:
        assert calibration is not None
        return calibration.report(out)
    return check.report(out, calibration=calibration)
