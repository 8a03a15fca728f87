"""The command line: parse, call one function, print."""

from __future__ import annotations

import json
import math
import os
import sys
from importlib.resources import as_file, files
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from vicheck import __version__
from vicheck.adapters.files import read_log_ratios
from vicheck.errors import InputFileError, MissingExtraError
from vicheck.records import PsisResult, PsisStatus, Verdict
from vicheck.stats.psis import psis_once
from vicheck.verdict import judge_psis, show

__all__ = ["app", "main"]

# What a pipeline can gate on. From 64 on they are the error codes of sysexits.h.
_EXIT_CODES = {"good": 0, "usable": 1, "unreliable": 2, "none": 65}
_EX_USAGE, _EX_DATAERR, _EX_NOINPUT, _EX_UNAVAILABLE, _EX_SOFTWARE, _EX_IOERR = (
    64,
    65,
    66,
    69,
    70,
    74,
)

_COLORS = {"good": "green", "usable": "yellow", "unreliable": "red", "none": "magenta"}

_PSIS_HELP = """Pareto smoothed importance sampling of log ratios: khat and the verdict.

Exit status: 0 good, 1 usable with care, 2 not reliable; 64 and up for
errors, among them 65 when khat is undefined and no verdict can be given.

Examples:

  vicheck psis ratios.npy

  vicheck psis draws.csv --log-p lp --log-q lq

  cat ratios.csv | vicheck psis - --json
"""

app = typer.Typer(
    name="vicheck",
    help="Yes, but did it work? Diagnostics for variational inference.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; errors become one sentence and an exit status of 64 or more."""
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        if not error.format_message():  # no arguments: the help has been printed
            sys.exit(_EX_USAGE)
        _fail(f"{error.format_message()} (vicheck --help lists what there is)", _EX_USAGE)
    except typer.Abort:
        _fail("interrupted", 130)
    except MissingExtraError as error:
        _fail(str(error), _EX_UNAVAILABLE)
    except InputFileError as error:
        _fail(str(error), _EX_DATAERR)
    except Exception as error:
        _fail(f"this is a bug in vicheck, please report it: {error!r}", _EX_SOFTWARE)
    sys.exit(code or 0)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and stop.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Yes, but did it work? Diagnostics for variational inference."""


@app.command("psis", help=_PSIS_HELP)
def _psis(
    file: Annotated[
        str, typer.Argument(help="A .npy, .npz, .csv or .parquet file; - for standard input.")
    ],
    log_p: Annotated[
        str | None, typer.Option(help="Column with the log joint density of each draw.")
    ] = None,
    log_q: Annotated[
        str | None, typer.Option(help="Column with the log density of q at each draw.")
    ] = None,
    tail_length: Annotated[
        int | None,
        typer.Option(min=5, help="Number of ratios in the tail; by default min(S/5, 3 sqrt(S))."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Read log ratios and print khat, the verdict and what to do."""
    if (log_p is None) != (log_q is None):
        raise typer.BadParameter("--log-p and --log-q go together")
    try:
        log_ratios = read_log_ratios(file, log_p=log_p, log_q=log_q)
    except OSError as error:
        _fail(f"cannot read {file}: {error.strerror or error}", _EX_NOINPUT)
    if tail_length is not None and tail_length >= log_ratios.size:
        raise typer.BadParameter(f"--tail-length must be below the {log_ratios.size} draws")
    result = psis_once(log_ratios, tail_length=tail_length)
    verdict = judge_psis(result)
    if as_json:
        _write([Text(json.dumps(_strict_json(_summary(result, verdict)), indent=2))])
    else:
        _write(_described(result, verdict))
    raise typer.Exit(_EXIT_CODES[verdict.level])


@app.command("demo")
def _demo() -> None:
    """Show what vicheck says about two fits of the eight-schools model by Stan's ADVI."""
    lines: list[Text] = []
    for title, name in (
        ("Eight schools, centred parametrization", "eight_schools_centred.csv"),
        ("Eight schools, non-centred parametrization", "eight_schools_noncentred.csv"),
    ):
        with as_file(files("vicheck") / "examples" / name) as path:
            result = psis_once(read_log_ratios(str(path)))
        lines += [Text(title, "bold"), Text(), *_described(result, judge_psis(result))]
        lines += [Text(), Text()]
    lines += [
        Text("Same data, same model, same algorithm: only the parametrization differs."),
        Text("Try it on your own draws: vicheck psis FILE --log-p COLUMN --log-q COLUMN"),
    ]
    _write(lines)


def _described(result: PsisResult, verdict: Verdict) -> list[Text]:
    """Return what a person wants to know, line by line."""
    lines = [Text(f"{name:<16} {value}") for name, value in _rows(result)]
    lines += [Text(), Text(verdict.sentence, f"bold {_COLORS[verdict.level]}")]
    for finding in verdict.findings[1:]:
        lines.append(Text.assemble((finding.sentence, "yellow"), f" {finding.hint}"))
    return [*lines, Text(f"What to do: {verdict.hint}")]


def _write(lines: list[Text]) -> None:
    """Print lines: wrapped and coloured on a terminal, plain elsewhere."""
    console = Console()
    try:
        for line in lines:
            if console.is_terminal:
                console.print(line)
            else:
                print(line)
        sys.stdout.flush()
    except OSError as error:
        # What could not be written must not be tried, and reported, again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # a reader that hangs up has what it wanted
            _fail(f"cannot write the answer: {error.strerror or error}", _EX_IOERR)


def _rows(result: PsisResult) -> list[tuple[str, str]]:
    rows = [("draws", f"{result.num_draws}, of which {result.tail_length} in the tail")]
    if result.status is PsisStatus.OK:
        low, high = result.khat_interval()
        rows += [
            ("khat", f"{show(result.khat)}, 90% interval {show(low)} to {show(high)}"),
            (
                "threshold",
                f"{result.threshold:.2f}, exceeded with probability "
                f"{result.exceedance_probability:.2f}",
            ),
        ]
    elif result.status is PsisStatus.CONSTANT:
        rows.append(("khat", "0, all ratios are equal"))
    else:
        rows.append(("khat", f"undefined ({result.status.name})"))
    if math.isfinite(result.ess):
        rows.append(("effective draws", f"{result.ess:.1f}"))
    return rows


def _summary(result: PsisResult, verdict: Verdict) -> dict[str, Any]:
    """Return everything but the weights and the grid."""
    arrays = ("log_weights", "khat_posterior")
    numbers = {name: value for name, value in vars(result).items() if name not in arrays}
    return numbers | {
        "status": result.status.name,
        "message": result.message,
        "khat_interval": result.khat_interval().tolist(),
        "exceedance_probability": result.exceedance_probability,
        "verdict": verdict.to_dict(),
        "version": __version__,
    }


def _strict_json(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by null."""
    if isinstance(value, dict):
        return {key: _strict_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_strict_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _fail(message: str, code: int) -> NoReturn:
    print(f"vicheck: {message}", file=sys.stderr)
    sys.exit(code)
