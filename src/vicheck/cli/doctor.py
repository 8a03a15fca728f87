"""`vicheck doctor`: what vicheck runs on, and whether it works there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from vicheck.cli.application import app
from vicheck.cli.failures import EX_SOFTWARE
from vicheck.cli.pages import Command
from vicheck.cli.printing import AsJson, Paragraph, write, write_json

if TYPE_CHECKING:
    from vicheck.doctor.self_test import Trial

__all__: list[str] = []

_HELP = """
Print versions, devices and optional libraries, and run a self-test: PSIS against values of the R
package loo, a fit with a closed-form posterior and its check, precision, files. It takes a few
seconds, and half a minute the first time, when code is compiled. Include its output when you
report a bug.
"""

_MORE = """
Exit status:
  0 when all is well, 70 when a part of the self-test has failed.

Examples:
  $ vicheck doctor
  $ vicheck doctor --json > doctor.json
"""


@app.command(
    "doctor",
    cls=Command,
    help=_HELP,
    short_help="Print versions and devices, and run a self-test.",
    epilog=_MORE,
)
def _doctor(as_json: AsJson = False) -> None:
    """Look around, print, run the self-test and print that."""
    from vicheck.doctor.environment import cache, extras, machine, versions
    from vicheck.doctor.self_test import run_trials

    facts: dict[str, Any] = {
        "versions": versions(),
        "machine": machine(),
        "devices": _devices(),
        "cache": cache(),
        "extras": extras(),
    }
    write([] if as_json else _described(facts))
    trials = []
    for trial in run_trials():
        trials.append(trial)
        write([] if as_json else [_line(trial)])
    failed = [trial.name for trial in trials if not trial.passed]
    if as_json:
        write_json(facts | {"self_test": [vars(trial) for trial in trials], "passed": not failed})
    else:
        end = f"Failed: {', '.join(failed)}." if failed else "All is well."
        write([Text(), Text(end, "bold red" if failed else "bold green")])
    raise typer.Exit(EX_SOFTWARE if failed else 0)


def _devices() -> list[str]:
    from vicheck.doctor.environment import devices

    try:
        return devices()
    except Exception as error:
        return [f"none: {type(error).__name__}: {error}"]


def _described(facts: dict[str, Any]) -> list[Text | Paragraph]:
    lines: list[Text | Paragraph] = [Text("Versions", "bold")]
    lines += [_row(name, version or "not installed") for name, version in facts["versions"].items()]
    machine, cache = facts["machine"], facts["cache"]
    lines += [Text(), Text("Machine", "bold"), _row("platform", machine["platform"])]
    lines.append(_row("cores", str(machine["cores"])))
    if machine["memory"]:
        lines.append(_row("memory", f"{machine['memory'] / 2**30:.1f} GB"))
    lines.append(_row("devices", ", ".join(facts["devices"])))
    where = f"{cache['directory']}, {cache['bytes'] / 2**20:.1f} MB" if cache["directory"] else ""
    lines.append(_row("cache", where or cache["reason"] or "compiled code is not kept"))
    lines += [Text(), Text("Extras", "bold")]
    for extra, package in facts["extras"].items():
        install = f"not installed: pip install 'vicheck[{extra}]'"
        version = package["version"]
        lines.append(_row(extra, f"{package['package']} {version}" if version else install))
    return [*lines, Text(), Text("Self-test", "bold")]


def _row(name: str, value: str) -> Paragraph:
    return Paragraph(Text(f"  {name:<14} {value}"), indent=17)


def _line(trial: Trial) -> Paragraph:
    line = Text(f"  {trial.name:<14} ")
    line.append(f"{'ok' if trial.passed else 'failed':<7}", "green" if trial.passed else "red")
    return Paragraph(line.append(f" {trial.detail}"), indent=25)
