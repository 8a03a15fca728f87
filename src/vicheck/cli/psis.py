"""`vicheck psis`: khat and the verdict for log ratios from a file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from vicheck import __version__
from vicheck.cli.application import app
from vicheck.cli.failures import EX_USAGE, EXIT_CODES, fail, fail_to_read
from vicheck.cli.pages import Command
from vicheck.cli.printing import COLORS, AsJson, Paragraph, write, write_json

if TYPE_CHECKING:
    from vicheck.results.psis import PsisResult
    from vicheck.results.verdict import Verdict

__all__: list[str] = []

_HELP = """
Did this fit work? Pareto smoothed importance sampling of log ratios: khat and the verdict.

The ratios are log p - log q at draws from q, made by any program. FILE holds them as one array,
or as a column log_ratios, or as columns log_p and log_q, or as those that --log-p and --log-q name.
Both densities are on the unconstrained scale; log p may lack a constant.
"""

_MORE = """
Exit status:
  0 good, 1 usable with care, 2 not reliable; 64 and up for errors, among them
  65 when khat is undefined and no verdict can be given.

Examples:
  $ vicheck psis ratios.npy
  $ vicheck psis draws.csv --log-p lp --log-q lq
  $ cat ratios.csv | vicheck psis - --json
"""


@app.command(
    "psis",
    cls=Command,
    help=_HELP,
    short_help="Check log ratios of your own: khat and the verdict.",
    epilog=_MORE,
)
def _psis(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A .npy, .npz, .csv or .parquet file; - for standard input."
        ),
    ],
    log_p: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with the log joint density of each draw."),
    ] = None,
    log_q: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with the log density of q at each draw."),
    ] = None,
    tail_length: Annotated[
        int | None,
        typer.Option(
            min=5, metavar="N", help="Ratios in the tail; by default min(S/5, 3 sqrt(S)) of S."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read log ratios and print khat, the verdict and what to do."""
    from vicheck.adapters.ratio_files import read_log_ratios
    from vicheck.judging import judge_psis
    from vicheck.stats.psis import psis_once
    from vicheck.stats.tail_lengths import judged_psis

    if (log_p is None) != (log_q is None):
        missing = "--log-q" if log_q is None else "--log-p"
        fail("--log-p and --log-q go together", EX_USAGE, f"add {missing} COLUMN")
    try:
        log_ratios = read_log_ratios(file, log_p=log_p, log_q=log_q)
    except OSError as error:
        fail_to_read(file, error)
    if tail_length is not None and tail_length >= log_ratios.size:
        sentence = f"--tail-length must be below the {log_ratios.size} draws, got {tail_length}"
        fail(sentence, EX_USAGE, "leave it out for the usual length")
    result = psis_once(log_ratios, tail_length=tail_length)
    if tail_length is None:
        result = judged_psis(log_ratios, result)
    verdict = judge_psis(result)
    if as_json:
        write_json(_summary(result, verdict))
    else:
        write(_described(result, verdict))
    raise typer.Exit(EXIT_CODES[verdict.level])


def _described(result: PsisResult, verdict: Verdict) -> list[Text | Paragraph]:
    """Return what a person wants to know, line by line."""
    from vicheck.report.text import advice_line

    return [
        *(Paragraph(Text(f"{name:<16} {value}"), indent=17) for name, value in _rows(result)),
        Text(),
        Text(verdict.sentence, f"bold {COLORS[verdict.level]}"),
        *(
            Text.assemble((finding.sentence, "yellow"), f" {finding.hint}")
            for finding in verdict.others
        ),
        Text(str(advice_line(verdict))),
    ]


def _rows(result: PsisResult) -> list[tuple[str, str]]:
    from vicheck.judging import show
    from vicheck.results.psis import PsisStatus

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
        "tail_fits": None if result.tail_fits is None else result.tail_fits.to_dict(),
        "message": result.message,
        "khat_interval": result.khat_interval().tolist(),
        "exceedance_probability": result.exceedance_probability,
        "verdict": verdict.to_dict(),
        "version": __version__,
    }
