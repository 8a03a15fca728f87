"""What notebooks show of a result: verdict, scale and the worst quantities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vicheck.report.page import LEVELS, SEVERITIES, UNTITLED, environment
from vicheck.report.tables import Table, calibration_table, moments_table

if TYPE_CHECKING:
    from vicheck.calibration.result import Calibration
    from vicheck.checking.result import Check
    from vicheck.records import Verdict

__all__ = ["calibration_html", "check_html"]

_ROWS = 10


def check_html(check: Check) -> str:
    """Return a check as a card."""
    from vicheck.report.check_part import scale_picture

    table = moments_table(check.worst_first)
    return _card(check.title, check.verdict, table, scale_picture(check).svg)


def calibration_html(calibration: Calibration) -> str:
    """Return a calibration as a card."""
    return _card(
        calibration.title, calibration.verdict, calibration_table(calibration.worst_first), ""
    )


def _card(title: str, verdict: Verdict, table: Table, picture: Any) -> str:
    return (
        environment()
        .get_template("card.html")
        .render(
            title=title or UNTITLED,
            verdict=verdict,
            badge=LEVELS[verdict.level],
            severities=SEVERITIES,
            picture=picture,
            table=table,
            rows=table.rows[:_ROWS],
            more=max(0, table.total - _ROWS),
        )
    )
