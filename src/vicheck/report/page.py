"""The report: one self-contained HTML page on a check, a calibration or a rescue."""

from __future__ import annotations

import math
import re
from base64 import b64encode
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vicheck.files.durable import whole_file
from vicheck.plain_text import plain_lines
from vicheck.results.provenance import Provenance, versions_of

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from vicheck.results.calibration import Calibration
    from vicheck.results.check import Check
    from vicheck.results.rescue import Rescue

__all__ = ["LEVELS", "SEVERITIES", "UNTITLED", "environment", "report_html", "write_report"]

_ROWS_PRINTED = 10
"""Rows of a table that are printed on paper."""

UNTITLED = "Draws from an approximation"
LEVELS = {
    "good": "\N{CHECK MARK} good",
    "usable": "! usable with care",
    "unreliable": "\N{MULTIPLICATION X} not reliable",
    "none": "? no verdict",
}
SEVERITIES = {"ok": "\N{CHECK MARK} ok", "caution": "! caution", "bad": "\N{MULTIPLICATION X} bad"}


def write_report(
    path: str | Path,
    *,
    check: Check | None = None,
    calibration: Calibration | None = None,
    rescue: Rescue | None = None,
    title: str = "",
) -> Path:
    """Write a page, and return its path; an old file stays until the new one is complete."""
    path = Path(path)
    page = report_html(check=check, calibration=calibration, rescue=rescue, title=title)
    try:
        with whole_file(path) as file:
            file.write(page.encode("utf-8", "replace"))
    except OSError as error:
        raise type(error)(
            error.errno, f"cannot write the report: {error.strerror}", str(path)
        ) from error
    return path


def report_html(
    *,
    check: Check | None = None,
    calibration: Calibration | None = None,
    rescue: Rescue | None = None,
    title: str = "",
) -> str:
    """Return the page; a rescue comes with the check of the best that it has found."""
    from vicheck.plots.calibration_data import require_calibration
    from vicheck.plots.check_data import require_check
    from vicheck.report.calibration_part import calibration_part
    from vicheck.report.check_part import check_part
    from vicheck.report.glossary import OF_CALIBRATIONS, OF_CHECKS
    from vicheck.report.rescue_part import rescue_part
    from vicheck.report.tables import MOST_BYTES, ROWS_SHOWN

    origins = []
    if check is not None:
        require_check(check)
        rows = _origin(check.provenance, check.seconds)
        origins.append(("This fit", rows, _codes(check.provenance, check.command)))
    if calibration is not None:
        require_calibration(calibration)
        rows = _origin(calibration.provenance, calibration.seconds)
        codes = _codes(calibration.provenance, calibration.command)
        origins.append(("Simulated datasets", rows, codes))
    room = MOST_BYTES // max(1, len(origins) + (rescue is not None))
    result = calibration if check is None else check
    if result is None:
        raise ValueError("a report needs a check or a calibration, got neither")
    return (
        environment()
        .get_template("report.html")
        .render(
            title=title or _title(result, rescue),
            version=versions_of()["vicheck"],
            rescue=None if rescue is None else rescue_part(rescue, room),
            check=None if check is None else check_part(check, room),
            calibration=None if calibration is None else calibration_part(calibration, room),
            origins=origins,
            glossary=[
                *(OF_CHECKS if check is not None else ()),
                *(OF_CALIBRATIONS if calibration is not None else ()),
            ],
            levels=LEVELS,
            severities=SEVERITIES,
            rows_shown=ROWS_SHOWN,
            rows_printed=_ROWS_PRINTED,
            script=_script(),
            policy=_policy(),
        )
    )


def _title(result: Check | Calibration, rescue: Rescue | None) -> str:
    """Return what the page is about: of a rescue, what was to be rescued."""
    if rescue is not None and rescue.before is not None:
        return rescue.before.title or UNTITLED
    return result.title or UNTITLED


@cache
def environment() -> Environment:
    """Return what reads the templates."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("vicheck.report", "templates"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    environment.filters["with_code"] = _with_code
    return environment


def _finalized(value: Any) -> Any:
    """Remove control characters, and marks that reverse the direction of writing, from texts."""
    return plain_lines(value) if type(value) is str else value


@cache
def _script() -> Markup:
    """Return the only script of a page."""
    from markupsafe import Markup

    return Markup(environment().get_template("tables.js").render())


def _policy() -> str:
    """Return what a page may do: run its own script, and nothing from elsewhere.

    Figures have styles in their attributes; a style can fetch nothing here either.
    """
    digest = b64encode(sha256(_script().encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _with_code(text: str) -> Markup:
    """Set what stands between backticks as code; everything else stays text."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _origin(provenance: Provenance | None, seconds: float) -> list[tuple[str, str]]:
    """Return what is known of how a result was made, as names and texts."""
    elsewhere = provenance is None or provenance.subject == "draws"
    taken = f"{seconds:.1f} s" + (" for the check" if elsewhere else ", compiling included")
    rows = [
        ("page written", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
        ("time taken", "not kept in the file" if math.isnan(seconds) else taken),
    ]
    if provenance is None:
        return rows
    rows += [(name, str(value)) for name, value in provenance.settings.items()]
    if provenance.fingerprint:
        rows.append((f"fingerprint of the {provenance.subject}", provenance.fingerprint))
    versions = ", ".join(f"{name} {number}" for name, number in provenance.versions.items())
    return [*rows, ("versions", versions)]


def _codes(provenance: Provenance | None, command: str) -> list[str]:
    """Return the command, and the Python code, that make a result again."""
    code = "" if provenance is None else provenance.code
    return [each for each in (command, code) if each]
