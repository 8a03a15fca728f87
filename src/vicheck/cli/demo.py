"""`vicheck demo`: the eight schools, twice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from vicheck.cli.answer import command_line, require_places
from vicheck.cli.application import app
from vicheck.cli.failures import fail_to_write
from vicheck.cli.pages import Command
from vicheck.cli.printing import COLORS, AsJson, status_line, write, write_json
from vicheck.cli.rescued import level_of

if TYPE_CHECKING:
    from vicheck.results.check import Check
    from vicheck.results.rescue import Rescue
    from vicheck.vi.solvers.reporting import Report as ShowStatus

__all__: list[str] = []

_HELP = """
Fit the eight-schools model in two parametrizations, check both fits and write a report of each.

Same data, same model, same algorithm: the centred fit misses the neck of the funnel and is not
reliable; the non-centred one is usable with care, and PSIS corrects its means. Then the centred fit
is rescued, without being told what is wrong with it.
"""

_MORE = """
Examples:
  $ vicheck demo
  $ vicheck demo --out reports --json
"""

_STORIES = {
    "centred": "Eight schools, centred: theta ~ N(mu, tau)",
    "noncentred": "Eight schools, non-centred: theta = mu + tau theta_raw",
}

_EXACT = {"tau": 3.598, "theta[0]": 6.212, "theta[6]": 6.297, "mu": 4.397}
"""Posterior means by quadrature."""
_RESCUE_SECONDS = 300.0
"""After which no further remedy is begun; a few seconds are enough."""


@app.command(
    "demo",
    cls=Command,
    help=_HELP,
    short_help="Fit the eight schools twice, check both, rescue one, write reports.",
    epilog=_MORE,
)
def _demo(
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Directory for the reports.")
    ] = "vicheck-demo",
    as_json: AsJson = False,
) -> None:
    """Fit, check, print and report."""
    directory = Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail_to_write(out, error)
    reports = {name: str(directory / f"eight-schools-{name}.html") for name in _STORIES}
    of_rescue = str(directory / "eight-schools-rescued.html")
    require_places(*reports.values(), of_rescue)
    results = {}
    for name, path in reports.items():
        with status_line(f"fitting, {name}") as show_status:
            checked = _checked(name)
            show_status("writing the report")
            try:
                checked.report(path)
            except OSError as error:
                fail_to_write(path, error)
        results[name] = checked.to_dict() if as_json else {}
        write([] if as_json else _story(_STORIES[name], checked))
    with status_line("rescuing the centred fit") as show_status:
        rescued = _rescue(show_status).with_command(command_line())
        show_status("writing the report")
        try:
            rescued.report(of_rescue)
        except OSError as error:
            fail_to_write(of_rescue, error)
    if as_json:
        answer: dict[str, Any] = {
            name: {"report": reports[name], "check": results[name]} for name in reports
        }
        write_json(answer | {"rescue": {"report": of_rescue} | rescued.to_dict()})
        return
    write(
        [
            *_rescue_story(rescued),
            Text("Try your own: vicheck check model.py:function --data data.json --rescue"),
            Text("The reports, to open in a browser:"),
            *(Text(f"  {path}", no_wrap=True) for path in (*reports.values(), of_rescue)),
        ]
    )


def _checked(name: str) -> Check:
    import vicheck
    from vicheck.paper import models

    arguments: dict[str, Any] = dict(models.EIGHT_SCHOOLS)
    model = vicheck.from_numpyro(getattr(models, f"eight_schools_{name}"), **arguments)
    return vicheck.check(vicheck.fit(model)).with_command(command_line())


def _rescue(show_status: ShowStatus) -> Rescue:
    """Rescue the centred fit as a user would: by the model alone."""
    import vicheck
    from vicheck.paper import models

    arguments: dict[str, Any] = dict(models.EIGHT_SCHOOLS)
    model = vicheck.from_numpyro(models.eight_schools_centred, **arguments)
    return vicheck.rescue(vicheck.fit(model), budget=_RESCUE_SECONDS, progress=show_status)


def _rescue_story(rescued: Rescue) -> list[Text]:
    """Say what was done, and set the means beside the exact ones."""
    from vicheck.report.rescue_text import code_lines, trail_lines

    rows = [f"{'':10}{'before':>8}{'rescued':>9}{'+-':>8}{'exact':>8}"]
    for name, exact in _EXACT.items():
        row = rescued.changes.loc[name]
        cells = f"{row['before_mean']:8.2f}{row['mean']:9.2f}{row['mcse']:8.2f}{exact:8.2f}"
        rows.append(f"{name:10}{cells}")
    return [
        Text("The centred fit once more, rescued: vicheck.rescue(fit)", "bold"),
        Text(rescued.sentence, COLORS[level_of(rescued)]),
        *(Text(line, no_wrap=True) for line in trail_lines(rescued)),
        Text("Posterior means before, rescued, and exact:"),
        *map(Text, rows),
        *(Text(line, no_wrap=True) for line in code_lines(rescued)),
        Text(),
    ]


def _story(title: str, checked: Check) -> list[Text]:
    from vicheck.report.text import advice_line

    verdict = checked.verdict
    lines = [Text(title, "bold"), Text(verdict.sentence, COLORS[verdict.level])]
    lines += [Text(str(advice_line(verdict))), Text()]
    if verdict.level != "usable":
        return lines
    same = "Same data, same model, same algorithm: only the parametrization differs."
    return [*lines, *_against_exact(checked.moments), Text(same), Text()]


def _against_exact(moments: Any) -> list[Text]:
    """Set plain and adjusted means beside the exact ones."""
    rows = [f"{'':10}{'VI':>8}{'PSIS':>8}{'+-':>8}{'exact':>8}"]
    for name, exact in _EXACT.items():
        row = moments.loc[name]
        rows.append(f"{name:10}{row.vi_mean:8.2f}{row.psis_mean:8.2f}{row.mcse:8.2f}{exact:8.2f}")
    return [Text("Posterior means, plain, adjusted by PSIS, and exact:"), *map(Text, rows), Text()]
