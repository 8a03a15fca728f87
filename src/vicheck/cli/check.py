"""`vicheck check`: fit a model and say whether the fit can be trusted."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vicheck.cli.answer import Prob, Report, Save, answer, chosen_prob, require_places
from vicheck.cli.application import app
from vicheck.cli.executors import Dask, executor_at
from vicheck.cli.failures import EX_DATAERR, EX_USAGE, fail, fail_to_read
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
from vicheck.cli.printing import AsJson, status_line
from vicheck.cli.rescued import answer_rescue
from vicheck.errors import ModelError

if TYPE_CHECKING:
    from vicheck.results.check import Check
    from vicheck.results.fit import Fit
    from vicheck.results.rescue import Rescue
    from vicheck.vi.solvers.reporting import Report as ShowStatus

__all__: list[str] = []

_HELP = """
Did this fit work? Check a fit, or fit a model by variational inference and check that: khat with
its interval, a verdict with reasons and hints, and the mean and sd of every quantity by VI and by
PSIS, and which of the two to use.

WHAT is a model to fit:
  file.py:name         a NumPyro function or a vicheck Model in a file
  package.module:name  the same in a module
  program.stan         a Stan program

Its arguments are read, by name, from the file given by --data. Without :name, the name is model.

Or WHAT is a fit made elsewhere, to which the options for fitting do not apply:
  output.csv           output of Stan's ADVI, Pathfinder or Laplace
  fit.nc               ArviZ data with log_p and log_q in sample_stats
  draws.csv            a table of draws with columns log_p and log_q; also
                       .npz or .parquet
"""

_MORE = """
Exit status:
  0 good, 1 usable with care, 2 not reliable; 64 and up for errors, among them
  65 when khat is undefined and no verdict can be given. With --rescue it is
  that of what was rescued.

Examples:
  $ vicheck check schools.py:centred --data schools.json
  $ vicheck check schools.py:centred --data schools.json --explain
  $ vicheck check schools.py:centred --data schools.json --rescue
  $ vicheck check model.py --data data.csv --family full_rank --json
  $ vicheck check model.py --data data.csv --prob 0.025,0.5,0.975
  $ vicheck check slow.stan --data data.json --draws auto --budget 600
  $ vicheck check slow.py --data data.json --dask tcp://host:8786
  $ vicheck check schools.stan --data schools.json --report page.html
  $ vicheck check output.csv --save check.npz
  $ vicheck check draws.parquet --log-p lp --log-q lq --report page.html
"""


@app.command(
    "check",
    cls=Command,
    help=_HELP,
    short_help="Check a fit, or fit a model and check that.",
    epilog=_MORE,
)
def _check(
    context: typer.Context,
    what: Annotated[str, typer.Argument(metavar="WHAT", help="A model, or a file with a fit.")],
    data: Data = None,
    columns: Columns = None,
    observed: Observed = None,
    family: Family = "mean_field",
    rank: Rank = None,
    solver: Solver = "deterministic",
    draws: Annotated[
        str | None,
        typer.Option(
            metavar="N|auto",
            help="Draws from q to check with: 100000 unless that takes too long. auto doubles "
            "them until the verdict is settled.",
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="How long the draws may take, unless their number is given. [default: 120] With "
            "--rescue, how long new remedies are started.",
        ),
    ] = None,
    chains: Annotated[
        bool | None,
        typer.Option(
            "--chains/--no-chains",
            help="Run short chains from the draws as a further witness, or not. [default: where "
            "they cost no more than the check]",
        ),
    ] = None,
    log_p: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="For a table of draws: the column with log p."),
    ] = None,
    log_q: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="For a table of draws: the column with log q."),
    ] = None,
    dask: Dask = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Say why q is not the posterior, and what would help."),
    ] = False,
    rescue: Annotated[
        bool,
        typer.Option(
            "--rescue",
            help="Unless the verdict is good, try remedies as vicheck rescue does, and answer with "
            "the best.",
        ),
    ] = False,
    prob: Prob = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    report: Report = None,
    save: Save = None,
) -> None:
    """Load a model and its data, fit, check and print."""
    require_places(report, saved=save)
    of_rescue, budget = (budget, None) if rescue else (None, budget)
    number, budget = _number_of_draws(draws, budget)
    shown = chosen_prob(prob)
    rescued = None
    with status_line("reading") as show_status, stdout_for_the_answer():
        if Path(what).suffix in _FITS:
            _refuse_fitting_options(context, what)
            checked = _check_file(what, log_p, log_q)
        else:
            _refuse_columns(what, log_p, log_q)
            options: dict[str, Any] = {
                "num_draws": number,
                "budget": budget,
                "seed": seed,
                "chains": chains,
            }
            with executor_at(dask) as executor:  # before the model is read: a typo is seen at once
                options["executor"] = executor
                fitting = {"family": family, "rank": rank, "solver": solver}
                given = data, observed, columns
                fitted, checked = _run(what, given, fitting, options, show_status)
            if rescue and checked.verdict.level != "good":
                rescued = _rescued(fitted, checked, of_rescue, seed, show_status)
        if shown is not None:
            checked = checked.with_prob(shown)
            rescued = None if rescued is None else rescued.with_prob(shown)
        explanation = None
        if explain:
            show_status("explaining")
            explanation = checked.explain()
    if rescued is not None:
        answer_rescue(rescued, as_json=as_json, report=report, save=save, explanation=explanation)
    answer(checked, as_json=as_json, report=report, save=save, explanation=explanation)


def _number_of_draws(
    draws: str | None, budget: float | None
) -> tuple[int | str | None, float | None]:
    """Return the options as `vicheck.check` takes them, or end with a message."""
    from vicheck.checking.enough import require_num_draws

    number: int | str | None = draws
    with suppress(ValueError):
        number = None if draws is None else int(draws)
    try:
        require_num_draws(number, budget)
    except ValueError as error:
        fail_over_option(error, {"num_draws": "--draws", "budget": "--budget"})
    except TypeError:
        fail("--budget does not apply to a number of draws that is given", EX_USAGE, "leave it out")
    return number, budget


def _refuse_fitting_options(context: typer.Context, path: str) -> None:
    for name in (
        "data", "columns", "observed", "family", "rank", "solver", "draws", "budget", "chains",
        "dask", "rescue", "seed",
    ):  # fmt: skip
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            sentence = f"--{name} goes with a model, but {path} is a fit, not a model"
            hint = "leave it out, or name a model to fit: vicheck check file.py:name"
            if Path(path).suffix in (".csv", ".npz"):
                hint += " (a table of data goes with --data)"
            fail(sentence, EX_USAGE, hint)


def _refuse_columns(what: str, log_p: str | None, log_q: str | None) -> None:
    if log_p is not None or log_q is not None:
        option = "--log-p" if log_p is not None else "--log-q"
        sentence = f"{option} goes with a table of draws, which {what} is not"
        fail(sentence, EX_USAGE, f"a table is a file that ends in {', '.join(_TABLES)}")


def _check_file(path: str, log_p: str | None, log_q: str | None) -> Check:
    """Check a fit that was made elsewhere."""
    from vicheck.checking.run import check, check_draws

    if Path(path).suffix == ".nc":
        _try_to_open(path)
    if Path(path).suffix not in _TABLES:
        _refuse_columns(path, log_p, log_q)
    try:
        if log_p is not None or log_q is not None:
            return check_draws(path, log_p, log_q)
        return check(path)
    except OSError as error:
        fail_to_read(path, error)


def _try_to_open(path: str) -> None:
    """Open a file in another process first: HDF5 may crash or hang on a damaged one."""
    trial = "import sys, xarray; xarray.open_datatree(sys.argv[1]).close()"
    command = [sys.executable, "-P", "-c", trial, str(Path(path).absolute())]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=_OPENING, check=False)
    except subprocess.TimeoutExpired:
        reason = f"the library that reads it did not finish within {_OPENING} seconds"
    else:
        if ended.returncode >= 0:  # an error is reported when the file is read
            return
        reason = "the library that reads it crashes"
    fail(f"{path} cannot be opened: {reason}", EX_DATAERR, "it is probably damaged: write it again")


_OPENING = 60
"""Seconds for opening an ArviZ file, which normally takes one or two."""
_TABLES = (".csv", ".npz", ".parquet")
_FITS = (*_TABLES, ".nc")
"""How the names of files with fits end."""


def _run(
    spec: str,
    given: tuple[str | None, list[str] | None, list[str] | None],
    fitting: dict[str, Any],
    options: dict[str, Any],
    show_status: ShowStatus,
) -> tuple[Fit, Check]:
    data, observed, columns = given
    loaded = load_model(spec, data, observed, show_status, columns)
    require_observations(loaded)
    from vicheck.checking.run import check
    from vicheck.results.status import FitStatus
    from vicheck.vi.fitting import fit

    show_status("compiling")
    try:
        fitted = fit(loaded, **fitting, seed=options["seed"], progress=show_status)
    except ModelError:
        raise
    except ValueError as error:  # options that do not go together
        fail_over_option(error, {name: f"--{name}" for name in fitting})
    if fitted.status is FitStatus.INTERRUPTED:
        raise KeyboardInterrupt
    number = options["num_draws"]
    show_status(f"checking {number} draws" if isinstance(number, int) else "checking draws")
    return fitted, check(fitted, **options)


def _rescued(
    fitted: Fit, checked: Check, budget: float | None, seed: int, show_status: ShowStatus
) -> Rescue:
    """Mend a fit; what it began with is the check that was asked for."""
    from vicheck.rescuing.run import rescue

    try:
        rescued = rescue(fitted, budget=budget, seed=seed, progress=show_status)
    except ModelError:
        raise
    except ValueError as error:
        fail_over_option(error, {"budget": "--budget"})
    return replace(rescued, before=checked)
