"""`vicheck check`: fit a model and say whether the fit can be trusted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from vicheck.cli.application import app
from vicheck.cli.loading import Family, Solver, answer, load_model, require_directories
from vicheck.cli.printing import EX_NOINPUT, EX_USAGE, fail
from vicheck.errors import ModelError

if TYPE_CHECKING:
    from vicheck.checking.result import Check
    from vicheck.draws import Draws
    from vicheck.vi.solution import Report

__all__: list[str] = []

_HELP = """Check a fit, or fit a model by variational inference and check that.

WHAT is a model to fit: file.py:name or package.module:name, a NumPyro function
or a vicheck Model, or a program.stan; the data file holds its arguments by
name. Or it is a fit made elsewhere: the CSV file of Stan's ADVI, Pathfinder or
Laplace approximation, or ArviZ data (.nc) with log_p and log_q in
sample_stats; options of fitting do not apply to it.

Exit status: 0 good, 1 usable with care, 2 not reliable; 64 and up for
errors, among them 65 when khat is undefined and no verdict can be given.

Examples:

  vicheck check schools.py:centred --data schools.json

  vicheck check model.py --data data.csv --family full_rank --json

  vicheck check schools.stan --data schools.json

  vicheck check output.csv
"""


@app.command("check", help=_HELP)
def _check(
    what: Annotated[
        str,
        typer.Argument(help="file.py:name, package.module:name, a .stan, Stan .csv or .nc file."),
    ],
    data: Annotated[
        str | None, typer.Option(help="A .json, .npz or .csv file with the model's arguments.")
    ] = None,
    observed: Annotated[
        list[str] | None, typer.Option(help="An argument that holds observed data; y by default.")
    ] = None,
    family: Annotated[Family, typer.Option(help="Family of approximations.")] = Family.MEAN_FIELD,
    solver: Annotated[Solver, typer.Option(help="How to fit.")] = Solver.DETERMINISTIC,
    draws: Annotated[int, typer.Option(min=1, help="Draws from q to check with.")] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bits.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    report: Annotated[str | None, typer.Option(help="Write a page of HTML to this file.")] = None,
    save: Annotated[str | None, typer.Option(help="Write the check to this .npz file.")] = None,
) -> None:
    """Load a model and its data, fit, check and print."""
    require_directories(report, save)
    with _progress() as tell:
        if Path(what).suffix in _FITS:
            checked = _check_file(what, data)
        else:
            checked = _run(what, data, observed, family, solver, draws, seed, tell)
    answer(checked, as_json=as_json, report=report, save=save)


def _check_file(path: str, data: str | None) -> Check:
    """Check a fit that was made elsewhere."""
    from vicheck.checking.run import check

    if data is not None:
        fail(f"--data goes with a model, but {path} is a fit that has its data", EX_USAGE)
    try:
        return check(_FITS[Path(path).suffix](path))
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror or error}", EX_NOINPUT)


def _stan_csv(path: str) -> Draws:
    from vicheck.adapters.stan.csv_files import read_stan_csv

    return read_stan_csv(path)


def _arviz(path: str) -> Draws:
    from vicheck.adapters.arviz import from_arviz

    return from_arviz(path)


_FITS = {".csv": _stan_csv, ".nc": _arviz}
"""How to read files of fits, by how their names end."""


def _run(
    spec: str,
    data: str | None,
    observed: list[str] | None,
    family: str,
    solver: str,
    draws: int,
    seed: int,
    tell: Report,
) -> Check:
    loaded = load_model(spec, data, observed, tell)
    from vicheck.checking.run import check
    from vicheck.records import FitStatus
    from vicheck.vi.fit import fit

    tell("compiling")
    try:
        fitted = fit(loaded, family=str(family), solver=str(solver), seed=seed, progress=tell)
    except ModelError:
        raise
    except ValueError as error:  # options that do not go together
        fail(str(error), EX_USAGE)
    if fitted.status is FitStatus.INTERRUPTED:
        raise KeyboardInterrupt
    tell(f"checking {draws} draws")
    return check(fitted, num_draws=draws, seed=seed)


@contextmanager
def _progress() -> Iterator[Report]:
    """Tell what is going on, on standard error, when that is a terminal."""
    console = Console(stderr=True)
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with console.status("reading") as status:
        yield status.update
