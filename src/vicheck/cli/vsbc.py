"""`vicheck vsbc`: fit many simulated datasets and say whether the fits are calibrated."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from vicheck.cli.answer import Report, Save, answer, require_places
from vicheck.cli.application import app
from vicheck.cli.executors import Dask, executor_at
from vicheck.cli.failures import INTERRUPTED, fail
from vicheck.cli.loading import (
    Columns,
    Data,
    Family,
    Observed,
    Rank,
    Seed,
    Solver,
    fail_over_option,
    load_model,
    require_observations,
    stdout_for_the_answer,
)
from vicheck.cli.pages import Command
from vicheck.cli.printing import AsJson
from vicheck.errors import ModelError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from vicheck.report.progress import Bar
    from vicheck.results.calibration import Calibration

__all__: list[str] = []

_HELP = """
Is it biased on average? Simulate datasets from a model, fit each, and test for each quantity
whether q sits too high or too low: variational simulation-based calibration.

MODEL is file.py:name or package.module:name, a NumPyro function or a vicheck Model (without :name
the name is model), or a program.stan whose generated quantities draw parameters and data. What
reaches obs= is simulated; the file of --data holds what the model conditions on, and with
--posterior what was observed.
"""

_MORE = """
Exit status:
  0 calibrated, 1 usable with care, 2 not reliable; 64 and up for errors,
  among them 65 when there can be no verdict.

Examples:
  $ vicheck vsbc schools.py:centred --data schools.json
  $ vicheck vsbc schools.py:centred --data schools.json --quantities tau,mu
  $ vicheck vsbc model.py --num-datasets 10000 --store runs/one --save vsbc.npz
  $ vicheck vsbc model.py --data data.json --posterior --report page.html
"""


@app.command(
    "vsbc",
    cls=Command,
    help=_HELP,
    short_help="Simulate many datasets, fit each: where is VI biased?",
    epilog=_MORE,
)
def _vsbc(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="The model to simulate from and to fit.")
    ],
    data: Data = None,
    columns: Columns = None,
    observed: Observed = None,
    num_datasets: Annotated[
        int, typer.Option(min=1, metavar="N", help="Datasets to simulate and fit.")
    ] = 1000,
    quantities: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="What to test, separated by commas; all by default."),
    ] = None,
    family: Family = "mean_field",
    rank: Rank = None,
    solver: Solver = "deterministic",
    posterior: Annotated[
        bool, typer.Option("--posterior", help="Calibrate at the observed data.")
    ] = False,
    draws: Annotated[
        int, typer.Option(min=1, metavar="N", help="Draws from each q, for its khat.")
    ] = 1000,
    store: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Keep finished chunks here, and resume from them."),
    ] = None,
    dask: Dask = None,
    time_limit: Annotated[
        float | None,
        typer.Option(min=0.0, metavar="SECONDS", help="How long a single fit may take."),
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    report: Report = None,
    save: Save = None,
) -> None:
    """Load a model, calibrate and print."""
    require_places(report, saved=save)
    options = {
        "num_datasets": num_datasets,
        "quantities": _split(quantities),
        "family": family,
        "rank": rank,
        "solver": solver,
        "posterior": posterior,
        "num_draws": draws,
        "store": store,
        "time_limit": time_limit,
        "seed": seed,
    }
    from vicheck.report.progress import bar

    try:
        with ExitStack() as stack:
            executor = stack.enter_context(executor_at(dask))
            shown = stack.enter_context(bar())
            stack.enter_context(stdout_for_the_answer())
            calibration = _run(model, (data, observed, columns), shown, executor, options)
    except KeyboardInterrupt:
        _end_interrupted(store)
    answer(calibration, as_json=as_json, report=report, save=save)


def _run(
    spec: str,
    given: tuple[str | None, list[str] | None, list[str] | None],
    shown: Bar,
    executor: Executor | None,
    options: dict[str, Any],
) -> Calibration:
    shown.say("reading")
    data, observed, columns = given
    loaded = load_model(spec, data, observed, shown.say, columns)
    if options["posterior"]:
        require_observations(loaded)
    shown.say("compiling")
    from vicheck.calibration.run import vsbc

    try:
        return vsbc(loaded, executor=executor, progress=shown, **options)
    except ModelError:
        raise
    except ValueError as error:  # options that do not go together, or unknown quantities
        options = {name: f"--{name.replace('_', '-')}" for name in options}
        fail_over_option(error, options | {"num_draws": "--draws"})


def _split(quantities: list[str] | None) -> list[str] | None:
    """Cut at commas, but not at those within brackets: ``tau,Sigma[0, 1]`` is two names."""
    if not quantities:
        return None
    parts = [part.strip() for text in quantities for part in re.split(r",(?![^\[]*\])", text)]
    return [part for part in parts if part]


def _end_interrupted(store: str | None) -> NoReturn:
    if store is not None:
        kept = f"finished chunks are kept in {store}"
        fail(f"interrupted: {kept}", INTERRUPTED, "the same command resumes from there")
    hint = "with --store DIR finished chunks are kept, and the run can be resumed"
    fail("interrupted: nothing is kept", INTERRUPTED, hint)
