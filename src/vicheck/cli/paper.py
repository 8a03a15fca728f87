"""`vicheck paper`: the paper's experiments, rerun."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from vicheck.cli.application import INTERRUPTED, app
from vicheck.cli.printing import EX_USAGE, fail, write

if TYPE_CHECKING:
    from vicheck.paper.results import Result
    from vicheck.report.progress import Bar

__all__: list[str] = []

paper = typer.Typer(
    name="paper",
    help="Rerun the experiments of Yao, Vehtari, Simpson and Gelman (2018).",
    no_args_is_help=True,
)
app.add_typer(paper)

_Quick = Annotated[
    bool, typer.Option("--quick", help="Few repeats and synthetic data: minutes, not evidence.")
]
_AsScripted = Annotated[
    bool,
    typer.Option(
        "--as-scripted", help="The authors' scripts, where they differ from the text in a number."
    ),
]
_Out = Annotated[str, typer.Option(help="Directory for numbers, figures and the page.")]
_Data = Annotated[
    str | None,
    typer.Option(help='The leukemia data: a .npz file, its directory, or "openml" to download.'),
]

_RUN_HELP = """Run experiments and write numbers (JSON), figures and one page of claims.

NAMES are those that `vicheck paper list` prints, or all. An interrupted run
goes on where it was when the same command is given again; what is finished
is not run twice.

Examples:

  vicheck paper run fig5 fig6 --out site

  vicheck paper run all --quick

  vicheck paper run all --out site --data leukemia.npz
"""


@paper.command("list")
def _list() -> None:
    """List the experiments."""
    from vicheck.paper.catalogue import NAMES, experiment

    lines = []
    for name in NAMES:
        found = experiment(name)
        lines.append(Text(f"{name:12}{found.title}"))
        if found.scripted:
            lines.append(Text(f"{'':12}--as-scripted: {found.scripted}", "dim"))
    write(lines)


@paper.command("run", help=_RUN_HELP)
def _run(
    names: Annotated[list[str], typer.Argument(help="Experiments to run, or all.")],
    quick: _Quick = False,
    as_scripted: _AsScripted = False,
    out: _Out = "paper",
    data: _Data = None,
) -> None:
    """Run experiments."""
    _run_and_tell(names, quick, as_scripted, out, data)


@paper.command("all")
def _all(
    quick: _Quick = False, as_scripted: _AsScripted = False, out: _Out = "paper", data: _Data = None
) -> None:
    """Run all experiments: the same as `vicheck paper run all`."""
    _run_and_tell(["all"], quick, as_scripted, out, data)


def _run_and_tell(
    names: list[str], quick: bool, as_scripted: bool, out: str, data: str | None
) -> None:
    from vicheck.paper.catalogue import choose, experiment
    from vicheck.paper.page import as_html
    from vicheck.paper.results import read_results, run_experiment
    from vicheck.report.progress import bar

    try:
        chosen = choose(names)
    except ValueError as error:
        fail(str(error), EX_USAGE)
    if as_scripted:
        chosen = [name for name in chosen if experiment(name).scripted]
        if not chosen:
            fail(
                f"there is no variant of {', '.join(names)} as scripted: leave out --as-scripted",
                EX_USAGE,
            )
    if quick and data is not None:
        fail(
            "--data is of no use with --quick, which takes synthetic data: leave one out", EX_USAGE
        )
    directory = Path(out)
    if directory.exists() and not directory.is_dir():
        fail(f"--out must be a directory, but {out} is a file", EX_USAGE)
    try:
        for name in chosen:
            with bar() as shown:
                shown.say(name)
                result = run_experiment(
                    name,
                    directory,
                    partial(_say, shown, name),
                    quick=quick,
                    as_scripted=as_scripted,
                    data=data,
                )
            write(_told(result))
    except KeyboardInterrupt:
        fail(
            f"interrupted: what is finished is kept in {out}, and the same command goes on from "
            "there",
            INTERRUPTED,
        )
    page = directory / "index.html"
    page.write_text(as_html(read_results(directory)), encoding="utf-8")
    write([Text(f"Claims and figures: {page}")])


def _say(shown: Bar, name: str, what: str) -> None:
    shown.say(f"{name}: {what}")


_COLORS = {
    "holds": "green", "holds in part": "yellow", "does not hold": "red", "no experiment": "dim",
}  # fmt: skip


def _told(result: Result) -> list[Text]:
    """Say how each claim of an experiment came out."""
    when = f"{result.seconds:.0f} s" if result.is_new else "from an earlier run"
    lines = [Text(f"{result.label}: {result.experiment.title} ({when})", "bold")]
    for claim in result.experiment.claims(result.numbers):
        line = Text("  ")
        line.append(f"{claim.outcome}: ", _COLORS[claim.outcome])
        lines += [line.append(claim.claim), Text(f"    {claim.ours}", "dim")]
    return [*lines, Text()]
