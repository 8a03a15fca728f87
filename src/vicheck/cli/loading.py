"""What commands that fit share: the model and its data, families and solvers, files to write."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.text import Text

from vicheck.cli.printing import (
    EX_IOERR,
    EX_NOINPUT,
    EXIT_CODES,
    described,
    fail,
    strict_json,
    write,
)

if TYPE_CHECKING:
    from vicheck.calibration.result import Calibration
    from vicheck.checking.result import Check
    from vicheck.model import Model

__all__ = ["Family", "Solver", "answer", "load_model", "require_directories"]


class Family(StrEnum):
    """Families of approximations."""

    MEAN_FIELD = "mean_field"
    FULL_RANK = "full_rank"
    LOW_RANK = "low_rank"


class Solver(StrEnum):
    """Ways to fit."""

    DETERMINISTIC = "deterministic"
    STOCHASTIC = "stochastic"
    STAN_ADVI = "stan_advi"


def load_model(
    spec: str, data: str | None, observed: list[str] | None, tell: Callable[[str], None]
) -> Model:
    """Load a model named on the command line, with its data."""
    from vicheck.adapters.programs import load_model_function, read_data

    arguments: dict[str, Any] = {}
    if data is not None:
        try:
            arguments = read_data(data)
        except OSError as error:
            fail(f"cannot read {data}: {error.strerror or error}", EX_NOINPUT)
    tell("loading JAX")
    if Path(spec).suffix == ".stan":
        from vicheck.adapters.stan.models import from_stan

        if not Path(spec).is_file():
            fail(f"cannot read {spec}: there is no such file", EX_NOINPUT)
        tell("compiling the Stan program")
        return from_stan(spec, arguments, observed=tuple(observed or ("y",)))
    from vicheck.adapters.numpyro.models import from_numpyro
    from vicheck.model import Model

    loaded = load_model_function(spec)
    if isinstance(loaded, Model):
        return loaded.given(arguments)
    return from_numpyro(loaded, observed=tuple(observed or ("y",)), **arguments)


def require_directories(*paths: str | None) -> None:
    """End at once when a file cannot be written later for want of its directory."""
    for path in paths:
        if path is not None and not Path(path).parent.is_dir():
            fail(f"cannot write {path}: there is no directory {Path(path).parent}", EX_IOERR)


def answer(
    result: Check | Calibration, *, as_json: bool, report: str | None, save: str | None
) -> NoReturn:
    """Write the files that were asked for, print the result and end with its exit status."""
    for path, put in ((report, result.report), (save, result.save)):
        if path is not None:
            try:
                put(path)
            except OSError as error:
                fail(f"cannot write {path}: {error.strerror or error}", EX_IOERR)
    if as_json:
        write([Text(json.dumps(strict_json(result.to_dict()), indent=2))])
    else:
        write(described(result))
    raise typer.Exit(EXIT_CODES[result.verdict.level])
