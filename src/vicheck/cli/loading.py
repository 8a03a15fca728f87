"""What commands that fit models share: the model and its data, families and solvers."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from vicheck.cli.failures import EX_DATAERR, EX_USAGE, fail, fail_to_read
from vicheck.errors import ARGUMENTS_DO_NOT_FIT, ArgumentError, InputFileError, ModelError
from vicheck.plain_text import plain
from vicheck.vi.families.registry import canonical, family_names
from vicheck.vi.solvers.registry import solver_names

if TYPE_CHECKING:
    from vicheck.model import Model

__all__ = [
    "Columns",
    "Data",
    "Family",
    "Observed",
    "Rank",
    "Seed",
    "Solver",
    "fail_over_option",
    "load_model",
    "require_observations",
    "stdout_for_the_answer",
]


def _one_of(
    names: Sequence[str], metavar: str, what: str, known_as: Callable[[str], str] = str
) -> Any:
    """Return an option that takes one of these names, and completes them."""

    def require(value: str) -> str:
        value = known_as(value)
        if value not in names:
            known = ", ".join(map(repr, names))
            raise typer.BadParameter(f"{value!r} is not one of {known}")
        return value

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    listed = f"{', '.join(names[:-1])} or {names[-1]}"
    return typer.Option(
        metavar=metavar, help=f"{what}: {listed}.", callback=require, autocompletion=complete
    )


Data = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="A .json, .npz or .csv file with the model's arguments."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES",
        help="Columns of a .csv file to read, separated by commas; by default those for which the "
        "model has arguments.",
    ),
]
Observed = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="An argument that is observed; repeat it for each. By default all that reach obs=.",
    ),
]
Family = Annotated[str, _one_of(family_names(), "FAMILY", "The approximations", canonical)]
Rank = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Rank of low_rank, its number of axes. [default: 5]"),
]
Solver = Annotated[str, _one_of(solver_names(), "SOLVER", "How to fit")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="The same seed gives the same bits.")]

_MODELS = "a model is file.py:name, package.module:name or program.stan"
_NO_MODELS = {
    **dict.fromkeys((".npy", ".parquet"), "for log ratios use vicheck psis"),
    ".npz": "for log ratios use vicheck psis, for saved results vicheck report; "
    "data go with --data",
    ".json": "data go with --data FILE, after the model",
    ".ipynb": "put the model's function into a file that ends in .py",
}


@contextmanager
def stdout_for_the_answer() -> Iterator[None]:
    """Send what a model prints to standard error: standard output is for the answer alone."""
    with redirect_stdout(sys.stderr):
        yield


def load_model(
    spec: str,
    data: str | None,
    observed: list[str] | None,
    show_status: Callable[[str], None],
    columns: list[str] | None = None,
) -> Model:
    """Load a model named on the command line, with its data."""
    from vicheck.adapters.data_files import read_data
    from vicheck.adapters.model_files import load_model_function

    _refuse_what_is_no_model(spec)
    chosen = _split(columns)

    def arguments_for(takes: Sequence[str] | None) -> dict[str, Any]:
        if data is None:
            return {}
        try:
            return read_data(data, chosen or _columns_for(data, takes))
        except OSError as error:
            fail_to_read(data, error)

    _refuse_columns_of(data, chosen)
    show_status("loading JAX")
    names = tuple(observed) if observed else None
    if Path(spec).suffix == ".stan":
        from vicheck.adapters.stan.models import from_stan

        arguments = arguments_for(None)
        if not Path(spec).is_file():
            fail_to_read(spec, FileNotFoundError(errno.ENOENT, ""))
        return from_stan(spec, arguments, observed=names, progress=show_status)
    from vicheck.adapters.numpyro.models import from_numpyro
    from vicheck.model import Model

    loaded = load_model_function(spec)
    if isinstance(loaded, Model):
        if names is not None:
            sentence = f"--observed goes with a function, but {spec} is a Model already"
            fail(sentence, EX_USAGE, "leave it out: the Model knows what it observes")
        return loaded.given(arguments_for(None))
    arguments = arguments_for(_names_taken_by(loaded))
    for name in ("model_fn", "observed"):  # from_numpyro has them for itself
        if name in arguments:
            sentence = f"{data} has an entry {name!r}, which cannot be an argument of a model here"
            raise InputFileError(sentence, hint="give the argument another name")
    try:
        return from_numpyro(loaded, observed=names, **arguments)
    except ModelError as error:
        if error.code != ARGUMENTS_DO_NOT_FIT:
            raise
        takes = ", ".join(signature(loaded).parameters) or "no arguments"
        has = f"{data} has {', '.join(arguments)}" if data else "there is no --data"
        hint = f"the model takes {takes}, and {has}"
        raise ModelError(error.sentence, hint=hint, code=error.code) from error


def _names_taken_by(function: Any) -> list[str] | None:
    """Return the names of a function's arguments; None where it takes any."""
    parameters = signature(function).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None
    return [each.name for each in parameters]


def _columns_for(data: str, takes: Sequence[str] | None) -> list[str] | None:
    """Return the columns of a CSV file that a model takes; the others are named and left out."""
    from vicheck.adapters.data_files import column_names

    if takes is None or Path(data).suffix.lower() != ".csv":
        return None
    has = column_names(data)
    taken = [name for name in has if name in takes]
    ignored = [name for name in has if name not in takes]
    if not taken or not ignored:  # where nothing fits, the error that follows says more
        return None
    listed = ", ".join(map(plain, ignored))
    message = f"note: {data} has columns that the model does not take, and they are left out: "
    print(f"{message}{listed}", file=sys.stderr)
    return taken


def _refuse_columns_of(data: str | None, chosen: Sequence[str] | None) -> None:
    if chosen and (data is None or Path(data).suffix.lower() != ".csv"):
        sentence = "--columns chooses among the columns of a CSV file, and --data names none"
        fail(sentence, EX_USAGE, "leave it out: other files have their arguments by name")


def _split(columns: list[str] | None) -> list[str] | None:
    parts = [part.strip() for text in columns or () for part in text.split(",")]
    return [part for part in parts if part] or None


def _refuse_what_is_no_model(spec: str) -> None:
    path = Path(spec)
    hint = _NO_MODELS.get(path.suffix)
    if path.is_dir() and not (path / "__init__.py").exists():
        hint = _MODELS
    if path.is_file() and path.suffix not in (".py", ".stan"):
        hint = hint or _MODELS
    if hint is not None:
        fail(f"{spec} is not a model", EX_USAGE, hint)


def fail_over_option(error: ValueError, options: Mapping[str, str]) -> NoReturn:
    """End because of an argument that cannot be used, by the name of its option.

    Parameters
    ----------
    error
        What was raised; only an `ArgumentError` says which argument it is about.
    options
        The options by the arguments they stand for.
    """
    if isinstance(error, ArgumentError):
        name = options.get(error.argument, error.argument)
        fail(error.sentence_with(name), EX_USAGE, error.hint)
    fail(str(error), EX_USAGE)


def require_observations(model: Model) -> None:
    """End when a model has no observed data, in the words of the command line."""
    if model.missing:
        names = ", ".join(model.missing)
        fail(
            f"the model has no data for {names}",
            EX_DATAERR,
            f"add {names} to the file that --data names; if it is a parameter of the model, name "
            "what is observed by --observed",
        )
