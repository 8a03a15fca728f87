"""`vicheck check`: fit a model and say whether the fit can be trusted."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from vicheck.cli.application import app
from vicheck.cli.printing import (
    COLORS,
    EX_IOERR,
    EX_NOINPUT,
    EX_USAGE,
    EXIT_CODES,
    fail,
    strict_json,
    write,
)
from vicheck.errors import ModelError

if TYPE_CHECKING:
    from vicheck.checking.result import Check
    from vicheck.vi.solution import Report

__all__ = ["described"]

_HELP = """Fit a model by variational inference and check the fit.

MODEL is file.py:name or package.module:name, a NumPyro function or a vicheck
Model; the data file holds its arguments by name.

Exit status: 0 good, 1 usable with care, 2 not reliable; 64 and up for
errors, among them 65 when khat is undefined and no verdict can be given.

Examples:

  vicheck check schools.py:centred --data schools.json

  vicheck check model.py --data data.csv --family full_rank --json
"""


class _Family(StrEnum):
    MEAN_FIELD = "mean_field"
    FULL_RANK = "full_rank"
    LOW_RANK = "low_rank"


class _Solver(StrEnum):
    DETERMINISTIC = "deterministic"
    STOCHASTIC = "stochastic"
    STAN_ADVI = "stan_advi"


@app.command("check", help=_HELP)
def _check(
    model: Annotated[str, typer.Argument(help="file.py:name or package.module:name.")],
    data: Annotated[
        str | None, typer.Option(help="A .json, .npz or .csv file with the model's arguments.")
    ] = None,
    observed: Annotated[
        list[str] | None, typer.Option(help="An argument that holds observed data; y by default.")
    ] = None,
    family: Annotated[_Family, typer.Option(help="Family of approximations.")] = _Family.MEAN_FIELD,
    solver: Annotated[_Solver, typer.Option(help="How to fit.")] = _Solver.DETERMINISTIC,
    draws: Annotated[int, typer.Option(min=1, help="Draws from q to check with.")] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bits.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    report: Annotated[str | None, typer.Option(help="Write a page of HTML to this file.")] = None,
    save: Annotated[str | None, typer.Option(help="Write the check to this .npz file.")] = None,
) -> None:
    """Load a model and its data, fit, check and print."""
    for path in (report, save):
        if path is not None and not Path(path).parent.is_dir():
            fail(f"cannot write {path}: there is no directory {Path(path).parent}", EX_IOERR)
    with _progress() as tell:
        checked = _run(model, data, observed, family, solver, draws, seed, tell)
    for path, put in ((report, checked.report), (save, checked.save)):
        if path is not None:
            try:
                put(path)
            except OSError as error:
                fail(f"cannot write {path}: {error.strerror or error}", EX_IOERR)
    if as_json:
        write([Text(json.dumps(strict_json(checked.to_dict()), indent=2))])
    else:
        write(described(checked))
    raise typer.Exit(EXIT_CODES[checked.verdict.level])


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
    from vicheck.adapters.programs import load_model_function, read_data

    arguments: dict[str, Any] = {}
    if data is not None:
        try:
            arguments = read_data(data)
        except OSError as error:
            fail(f"cannot read {data}: {error.strerror or error}", EX_NOINPUT)
    tell("loading JAX")
    from vicheck.adapters.numpyro import from_numpyro
    from vicheck.checking.run import check
    from vicheck.model import Model
    from vicheck.records import FitStatus
    from vicheck.vi.fit import fit

    loaded = load_model_function(spec)
    if isinstance(loaded, Model):
        model = loaded.given(arguments)
    else:
        model = from_numpyro(loaded, observed=tuple(observed or ("y",)), **arguments)
    tell("compiling")
    try:
        fitted = fit(model, family=str(family), solver=str(solver), seed=seed, progress=tell)
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


def described(checked: Check) -> list[Text]:
    """Return a check as lines for people, the verdict in its colour."""
    color = f"bold {COLORS[checked.verdict.level]}"
    return [
        Text(line, color if line == checked.verdict.sentence else "")
        for line in str(checked).splitlines()
    ]
