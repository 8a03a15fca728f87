"""`vicheck rescue`: mend a fit that failed, or say that it could not be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from vicheck.cli.answer import Report, Save, answer, require_places
from vicheck.cli.application import app
from vicheck.cli.failures import EXIT_CODES
from vicheck.cli.loading import (
    Data,
    Observed,
    Seed,
    fail_over_option,
    load_model,
    require_observations,
    stdout_for_the_answer,
)
from vicheck.cli.pages import Command
from vicheck.cli.printing import AsJson, status_line, write, write_json

if TYPE_CHECKING:
    from vicheck.results.rescue import Rescue

__all__: list[str] = []

_HELP = """
Fit a model by variational inference, and where the fit cannot be trusted, try remedies until one
can: optimise further, cover modes, other coordinates, correlations, heavier tails, moment matching,
mixtures, and NUTS at last. Each is judged on fresh draws, with short chains.

WHAT is a model as for vicheck check:
  file.py:name, package.module:name or program.stan
"""

_MORE = """
Exit status:
  0 good, 1 usable with its weights, or by NUTS, 2 not rescued; 64 and up for
  errors.

Examples:
  $ vicheck rescue schools.py:centred --data schools.json
  $ vicheck rescue model.py --data data.csv --budget 300 --report page.html
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
    observed: Observed = None,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="After which no further remedy is begun. [default: twenty times the fit, at "
            "least a minute]",
        ),
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    report: Report = None,
    save: Save = None,
) -> None:
    """Load a model and its data, rescue, and print."""
    require_places(report, saved=save)
    with status_line("reading") as show_status, stdout_for_the_answer():
        loaded = load_model(what, data, observed, show_status)
        require_observations(loaded)
        from vicheck.rescuing.run import rescue

        try:
            rescued = rescue(loaded, budget=budget, seed=seed, progress=show_status)
        except ValueError as error:
            fail_over_option(error, {"budget": "--budget"})
    if as_json:
        write_json(rescued.to_dict())
        raise typer.Exit(_status(rescued))
    write([*(Text(line, no_wrap=True) for line in str(rescued).splitlines()), Text()])
    if not rescued.succeeded or rescued.by_sampling:
        write([Text(line, no_wrap=True) for line in rescued.moments.to_string().splitlines()])
        raise typer.Exit(_status(rescued))
    answer(rescued.check, as_json=False, report=report, save=save)


def _status(rescued: Rescue) -> int:
    """Return the exit status: that of the level, unless only NUTS could be used."""
    if rescued.by_sampling:
        return EXIT_CODES["usable"]
    return EXIT_CODES[rescued.check.verdict.level if rescued.succeeded else "unreliable"]
