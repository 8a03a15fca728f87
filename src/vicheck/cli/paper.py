"""`vicheck paper`: the paper's experiments, rerun."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from vicheck.cli.application import app
from vicheck.cli.failures import EX_USAGE, INTERRUPTED, fail, fail_to_write
from vicheck.cli.pages import Command, Group
from vicheck.cli.printing import AsJson, Paragraph, write, write_json
from vicheck.files.durable import whole_file

if TYPE_CHECKING:
    from vicheck.paper.results import Result
    from vicheck.report.progress import Bar

__all__: list[str] = []

_HELP = """
Rerun the experiments of Yao, Vehtari, Simpson and Gelman (2018), and compare the results with what
the paper says.
"""

_MORE = """
Examples:
  $ vicheck paper list
  $ vicheck paper run fig5 --quick
"""

_LIST_MORE = """
Examples:
  $ vicheck paper list
  $ vicheck paper list --json
"""

_RUN_HELP = """
Run experiments and write numbers (JSON), figures (SVG) and one page of claims (index.html).

NAMES are those that `vicheck paper list` prints, or all. An interrupted run resumes
when the same command is given again; what is finished is not run twice.
"""

_RUN_MORE = """
Examples:
  $ vicheck paper run fig5 fig6 --out site
  $ vicheck paper run all --quick
  $ vicheck paper run all --out site --data leukemia.npz
"""

_ALL_MORE = """
Examples:
  $ vicheck paper all --quick
  $ vicheck paper all --out site --data leukemia.npz
"""

paper = typer.Typer(
    name="paper",
    cls=Group,
    help=_HELP,
    short_help="Rerun the paper's experiments.",
    epilog=_MORE,
    rich_markup_mode=None,
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
_Out = Annotated[
    str, typer.Option(metavar="DIR", help="Directory for numbers, figures and the page.")
]
_Data = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help='The leukemia data: a .npz file, its directory, or "openml" to download.',
    ),
]


def _names(incomplete: str) -> list[str]:
    """Return the experiments, for completion."""
    from vicheck.paper.catalogue import NAMES

    return [name for name in (*NAMES, "all") if name.startswith(incomplete)]


@paper.command("list", cls=Command, help="List the experiments.", epilog=_LIST_MORE)
def _list(as_json: AsJson = False) -> None:
    """List the experiments."""
    from vicheck.paper.catalogue import NAMES, experiment

    experiments = [experiment(name) for name in NAMES]
    if as_json:
        keys = ("name", "title", "scripted", "uses_leukemia")
        write_json([{key: getattr(each, key) for key in keys} for each in experiments])
        return
    lines = []
    for each in experiments:
        lines.append(Text(f"{each.name:12}{each.title}"))
        if each.scripted:
            lines.append(Text(f"{'':12}--as-scripted: {each.scripted}", "dim"))
    write(lines)


@paper.command(
    "run",
    cls=Command,
    help=_RUN_HELP,
    short_help="Run experiments: numbers, figures and claims.",
    epilog=_RUN_MORE,
)
def _run(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAMES", help="Experiments, or all.", autocompletion=_names),
    ],
    quick: _Quick = False,
    as_scripted: _AsScripted = False,
    out: _Out = "paper",
    data: _Data = None,
    as_json: AsJson = False,
) -> None:
    """Run experiments."""
    _run_and_print(names, quick, as_scripted, out, data, as_json)


@paper.command(
    "all",
    cls=Command,
    help="Run all experiments: the same as `vicheck paper run all`.",
    epilog=_ALL_MORE,
)
def _all(
    quick: _Quick = False,
    as_scripted: _AsScripted = False,
    out: _Out = "paper",
    data: _Data = None,
    as_json: AsJson = False,
) -> None:
    """Run all experiments."""
    _run_and_print(["all"], quick, as_scripted, out, data, as_json)


def _run_and_print(
    names: list[str], quick: bool, as_scripted: bool, out: str, data: str | None, as_json: bool
) -> None:
    from vicheck.paper.page import as_html
    from vicheck.paper.results import read_results, run_experiment
    from vicheck.report.progress import bar

    chosen = _chosen(names, as_scripted)
    if quick and data is not None:
        sentence = "--data has no effect with --quick, which uses synthetic data"
        fail(sentence, EX_USAGE, "leave one of them out")
    directory = Path(out)
    if directory.exists() and not directory.is_dir():
        fail(f"--out must be a directory, but {out} is a file", EX_USAGE, "give another name")
    results = []
    page = directory / "index.html"
    try:
        for name in chosen:
            with bar() as shown:
                shown.say(name)
                say = partial(_say, shown, name)
                result = run_experiment(
                    name, directory, say, quick=quick, as_scripted=as_scripted, data=data
                )
            results.append(result)
            write([] if as_json else _claims(result))
        html = as_html(read_results(directory))
        with whole_file(page) as file:
            file.write(html.encode())
    except KeyboardInterrupt:
        sentence = f"interrupted: what is finished is kept in {out}"
        fail(sentence, INTERRUPTED, "the same command resumes from there")
    except OSError as error:
        fail_to_write(str(error.filename or out), error)
    if as_json:
        write_json({"page": str(page), "experiments": [_as_dict(each) for each in results]})
    else:
        write([Text(f"Claims and figures: {page}", no_wrap=True)])


def _chosen(names: list[str], as_scripted: bool) -> list[str]:
    """Return the names meant, in the order of the paper."""
    from difflib import get_close_matches

    from vicheck.paper.catalogue import NAMES, choose, experiment

    known = (*NAMES, "all")
    lower = [name.lower() for name in known]
    for name in names:
        if name.lower() not in lower:
            guesses = get_close_matches(name.lower(), known, n=1)
            hint = f"did you mean {guesses[0]}? " if guesses else ""
            hint += f"there are {', '.join(NAMES)}, or all"
            fail(f"there is no experiment {name}", EX_USAGE, hint)
    chosen = choose(names)
    if as_scripted:
        chosen = [name for name in chosen if experiment(name).scripted]
    if not chosen:
        sentence = f"there is no variant of {', '.join(names)} as scripted"
        fail(sentence, EX_USAGE, "leave out --as-scripted")
    return chosen


def _say(shown: Bar, name: str, what: str) -> None:
    shown.say(f"{name}: {what}")


_COLORS = {
    "holds": "green", "holds in part": "yellow", "does not hold": "red", "no experiment": "dim",
}  # fmt: skip


def _claims(result: Result) -> list[Text | Paragraph]:
    """Say how each claim of an experiment came out."""
    when = f"{result.seconds:.0f} s" if result.is_new else "from an earlier run"
    lines: list[Text | Paragraph] = [
        Text(f"{result.label}: {result.experiment.title} ({when})", "bold")
    ]
    for claim in result.experiment.claims(result.numbers):
        line = Text("  ")
        line.append(f"{claim.outcome}: ", _COLORS[claim.outcome])
        lines.append(Paragraph(line.append(claim.claim), indent=2))
        lines.append(Paragraph(Text(f"    {claim.ours}", "dim"), indent=4))
    return [*lines, Text()]


def _as_dict(result: Result) -> dict[str, Any]:
    """Return how each claim came out as plain values; the numbers are in a file beside the page."""
    return {
        "name": result.label,
        "title": result.experiment.title,
        "seconds": result.seconds,
        "quick": result.quick,
        "claims": [vars(claim) for claim in result.experiment.claims(result.numbers)],
    }
