"""`vicheck rescue`: mend a fit that failed, or say that it could not be done."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vicheck.cli.answer import Prob, Report, Save, chosen_prob, require_places
from vicheck.cli.application import app
from vicheck.cli.failures import EX_USAGE, fail
from vicheck.cli.loading import (
    Columns,
    Data,
    Observed,
    Seed,
    fail_over_option,
    load_model,
    require_observations,
    stdout_for_the_answer,
)
from vicheck.cli.pages import Command
from vicheck.cli.printing import AsJson, status_line
from vicheck.cli.rescued import answer_rescue
from vicheck.errors import ModelError

__all__: list[str] = []

_HELP = """
Fit a model by variational inference, and where the fit cannot be trusted, try remedies until one
can: optimise further, cover modes, other coordinates, correlations, heavier tails, moment matching,
mixtures, and lastly NUTS. Each is judged on fresh draws, with short chains.

WHAT is a model as for vicheck check:
  file.py:name, package.module:name or program.stan
"""

_MORE = """
It prints what was tried, khat before and after, and what to report for each quantity. Ctrl-C
ends the search, and the best so far is the answer.

Exit status:
  0 good, 1 usable with its weights, or by NUTS, 2 not rescued; 64 and up for
  errors.

Examples:
  $ vicheck rescue schools.py:centred --data schools.json
  $ vicheck rescue model.py --data data.csv --budget 300 --report page.html
  $ vicheck check model.py --data data.csv --rescue
"""


@app.command(
    "rescue",
    cls=Command,
    help=_HELP,
    short_help="Mend a fit that cannot be trusted.",
    epilog=_MORE,
)
def _rescue(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="A model.")],
    data: Data = None,
    columns: Columns = None,
    observed: Observed = None,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="After which no further remedy is begun. [default: twenty times the fit, at "
            "least five minutes]",
        ),
    ] = None,
    prob: Prob = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    report: Report = None,
    save: Save = None,
) -> None:
    """Load a model and its data, rescue, and print."""
    require_places(report, saved=save)
    _refuse_draws(what)
    shown = chosen_prob(prob)
    with status_line("reading") as show_status, stdout_for_the_answer():
        loaded = load_model(what, data, observed, show_status, columns)
        require_observations(loaded)
        from vicheck.rescuing.run import rescue

        try:
            rescued = rescue(loaded, budget=budget, seed=seed, progress=show_status)
        except ModelError:
            raise
        except ValueError as error:
            fail_over_option(error, {"budget": "--budget"})
    if shown is not None:
        rescued = rescued.with_prob(shown)
    answer_rescue(rescued, as_json=as_json, report=report, save=save)


def _refuse_draws(what: str) -> None:
    """End for a file that holds draws, or a result: neither has a density to evaluate."""
    if Path(what).suffix in _WITHOUT_A_MODEL:
        fail(
            f"{what} has no model in it, and a rescue evaluates the model's density",
            EX_USAGE,
            "name the model: vicheck rescue file.py:name --data FILE",
        )


_WITHOUT_A_MODEL = (".csv", ".nc", ".npz", ".npy", ".parquet")
"""How the names of files with draws or results end."""
