"""`vicheck vsbc`: fit many simulated datasets and say whether the fits are calibrated."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from vicheck.cli.application import INTERRUPTED, app
from vicheck.cli.loading import Family, Solver, answer, load_model, require_directories
from vicheck.cli.printing import (
    EX_UNAVAILABLE,
    EX_USAGE,
    fail,
)
from vicheck.errors import ModelError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from vicheck.calibration.result import Calibration
    from vicheck.report.progress import Bar

__all__: list[str] = []

_HELP = """Simulate datasets from a model, fit each, and test whether the fits are calibrated.

MODEL is file.py:name or package.module:name, a NumPyro function or a vicheck
Model; the data file holds what it conditions on, and with --posterior what
was observed.

Exit status: 0 no bias found, 1 usable with care, 2 not reliable; 64 and up
for errors, among them 65 when there can be no verdict.

Examples:

  vicheck vsbc schools.py:centred --data schools.json

  vicheck vsbc model.py --num-datasets 10000 --store runs/one --report page.html
"""


@app.command("vsbc", help=_HELP)
def _vsbc(
    model: Annotated[str, typer.Argument(help="file.py:name or package.module:name.")],
    data: Annotated[
        str | None, typer.Option(help="A .json, .npz or .csv file with the model's arguments.")
    ] = None,
    observed: Annotated[
        list[str] | None, typer.Option(help="An argument that holds observed data; y by default.")
    ] = None,
    num_datasets: Annotated[int, typer.Option(min=1, help="Datasets to simulate and fit.")] = 1000,
    quantities: Annotated[
        list[str] | None,
        typer.Option(help="What to test, names with commas between them; all by default."),
    ] = None,
    family: Annotated[Family, typer.Option(help="Family of approximations.")] = Family.MEAN_FIELD,
    solver: Annotated[Solver, typer.Option(help="How to fit.")] = Solver.DETERMINISTIC,
    posterior: Annotated[
        bool, typer.Option("--posterior", help="Calibrate at the observed data.")
    ] = False,
    draws: Annotated[int, typer.Option(min=1, help="Draws from each q, for its khat.")] = 1000,
    store: Annotated[
        str | None, typer.Option(help="Keep finished chunks in this directory, and go on there.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, such as tcp://host:8786.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds that a single fit may take.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bits.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    report: Annotated[str | None, typer.Option(help="Write a page of HTML to this file.")] = None,
    save: Annotated[
        str | None, typer.Option(help="Write the calibration to this .npz file.")
    ] = None,
) -> None:
    """Load a model, calibrate and print."""
    require_directories(report, save)
    options = {
        "num_datasets": num_datasets,
        "quantities": _split(quantities),
        "family": str(family),
        "solver": str(solver),
        "posterior": posterior,
        "num_draws": draws,
        "store": store,
        "time_limit": time_limit,
        "seed": seed,
    }
    from vicheck.report.progress import bar

    try:
        with ExitStack() as stack:
            executor = None if dask is None else _connected(dask, stack)
            shown = stack.enter_context(bar())
            calibration = _run(model, data, observed, shown, executor, options)
    except KeyboardInterrupt:
        _end_interrupted(store)
    answer(calibration, as_json=as_json, report=report, save=save)


def _run(
    spec: str,
    data: str | None,
    observed: list[str] | None,
    shown: Bar,
    executor: Executor | None,
    options: dict[str, Any],
) -> Calibration:
    shown.say("reading")
    loaded = load_model(spec, data, observed, shown.say)
    shown.say("compiling")
    from vicheck.calibration.run import vsbc

    try:
        return vsbc(loaded, executor=executor, progress=shown, **options)
    except ModelError:
        raise
    except ValueError as error:  # options that do not go together, or unknown quantities
        fail(str(error), EX_USAGE)


def _connected(address: str, stack: ExitStack) -> Executor:
    from vicheck.adapters.dask import dask_executor

    try:
        return stack.enter_context(dask_executor(address))
    except (OSError, ValueError) as error:
        fail(f"cannot reach a Dask scheduler at {address}: {error}", EX_UNAVAILABLE)


def _split(quantities: list[str] | None) -> list[str] | None:
    """Cut at commas, but not at those within brackets: ``tau,Sigma[0, 1]`` is two names."""
    if not quantities:
        return None
    parts = [part.strip() for text in quantities for part in re.split(r",(?![^\[]*\])", text)]
    return [part for part in parts if part]


def _end_interrupted(store: str | None) -> NoReturn:
    kept = (
        f"finished chunks are kept in {store}, and the same command goes on from there"
        if store is not None
        else "nothing is kept; with --store DIR finished chunks are, and can be gone on from"
    )
    fail(f"interrupted: {kept}", INTERRUPTED)
