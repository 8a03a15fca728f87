"""What commands that fit share: the model and its data, families and solvers."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from enum import StrEnum
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vicheck.cli.failures import EX_DATAERR, EX_USAGE, fail, fail_to_read
from vicheck.errors import InputFileError, ModelError

if TYPE_CHECKING:
    from vicheck.model import Model

__all__ = [
    "Data",
    "Family",
    "FamilyOption",
    "Observed",
    "Seed",
    "Solver",
    "SolverOption",
    "answers_only",
    "in_options",
    "load_model",
    "require_observations",
]


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


Data = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="A .json, .npz or .csv file with the model's arguments."),
]
Observed = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="An argument that is observed, once for each; by default all that reach obs=.",
    ),
]
FamilyOption = Annotated[
    Family,
    typer.Option(metavar="FAMILY", help="The approximations: mean_field, full_rank or low_rank."),
]
SolverOption = Annotated[
    Solver,
    typer.Option(metavar="SOLVER", help="How to fit: deterministic, stochastic or stan_advi."),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="The same seed gives the same bits.")]

_MODELS = "a model is file.py:name, package.module:name or program.stan"
_NO_MODELS = {
    **dict.fromkeys((".npy", ".parquet"), "for log ratios there is vicheck psis"),
    ".npz": "for log ratios there is vicheck psis, for saved results vicheck report; data go with "
    "--data",
    ".json": "data go with --data FILE, after the model",
    ".ipynb": "put the model's function into a file that ends in .py",
}


@contextmanager
def answers_only() -> Iterator[None]:
    """Send what a model prints to standard error: standard output is for the answer."""
    with redirect_stdout(sys.stderr):
        yield


def load_model(
    spec: str, data: str | None, observed: list[str] | None, tell: Callable[[str], None]
) -> Model:
    """Load a model named on the command line, with its data."""
    from vicheck.adapters.data_files import read_data
    from vicheck.adapters.model_files import load_model_function

    _refuse_what_is_no_model(spec)
    arguments: dict[str, Any] = {}
    if data is not None:
        try:
            arguments = read_data(data)
        except OSError as error:
            fail_to_read(data, error)
    tell("loading JAX")
    names = tuple(observed) if observed else None
    if Path(spec).suffix == ".stan":
        from vicheck.adapters.stan.models import from_stan

        if not Path(spec).is_file():
            fail_to_read(spec, FileNotFoundError(errno.ENOENT, ""))
        tell("compiling the Stan program")
        return from_stan(spec, arguments, observed=names)
    from vicheck.adapters.numpyro.models import from_numpyro
    from vicheck.model import Model

    loaded = load_model_function(spec)
    if isinstance(loaded, Model):
        if names is not None:
            sentence = f"--observed goes with a function, but {spec} is a Model already"
            fail(sentence, EX_USAGE, "leave it out: the Model knows what it observes")
        return loaded.given(arguments)
    for name in ("model_fn", "observed"):  # from_numpyro has them for itself
        if name in arguments:
            sentence = f"{data} has an entry {name!r}, which cannot be an argument of a model here"
            raise InputFileError(sentence, hint="give the argument another name")
    try:
        return from_numpyro(loaded, observed=names, **arguments)
    except ModelError as error:
        if not error.sentence.startswith("the arguments do not fit"):
            raise
        takes = ", ".join(signature(loaded).parameters) or "no arguments"
        has = f"{data} has {', '.join(arguments)}" if data else "there is no --data"
        raise ModelError(error.sentence, hint=f"the model takes {takes}, and {has}") from error


def _refuse_what_is_no_model(spec: str) -> None:
    path = Path(spec)
    hint = _NO_MODELS.get(path.suffix)
    if path.is_dir() and not (path / "__init__.py").exists():
        hint = _MODELS
    if path.is_file() and path.suffix not in (".py", ".stan"):
        hint = hint or _MODELS
    if hint is not None:
        fail(f"{spec} is not a model", EX_USAGE, hint)


def in_options(error: ValueError) -> str:
    """Return what is wrong with an argument, by the name of its option."""
    return re.sub(
        r"^[a-z_]+(?= must| has|=)", lambda name: f"--{name[0].replace('_', '-')}", str(error)
    )


def require_observations(model: Model) -> None:
    """End when a model has no observed data, in the words of the command line."""
    if model.missing:
        names = ", ".join(model.missing)
        fail(
            f"the model has no data for {names}",
            EX_DATAERR,
            f"add {names} to the file that --data names; for a parameter of the model, say by "
            "--observed what is observed instead",
        )
