"""What notebooks show of a result: verdict, scale and the worst quantities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vicheck.report.page import LEVELS, SEVERITIES, UNTITLED, environment
from vicheck.report.tables import Table, calibration_table, moments_table

if TYPE_CHECKING:
    from vicheck.results.calibration import Calibration
    from vicheck.results.check import Check
    from vicheck.results.explanation import Explanation
    from vicheck.results.verdict import Verdict

__all__ = ["calibration_html", "check_html", "explanation_html"]

_ROWS = 10
_MOST_NUMBERS = 20_000_000
"""Draws times quantities above which computing the moments takes long."""


def check_html(check: Check) -> str:
    """Return a check as a card."""
    from vicheck.report.check_part import scale_picture

    # Nobody wants to wait for minutes because a cell ends with a name.
    costly = check.values.size > _MOST_NUMBERS and "moments" not in vars(check)
    table = None if costly else moments_table(check.worst_first)
    return _card(check.title, check.verdict, table, scale_picture(check).svg)


def calibration_html(calibration: Calibration) -> str:
    """Return a calibration as a card."""
    return _card(
        calibration.title, calibration.verdict, calibration_table(calibration.worst_first), ""
    )


def explanation_html(explanation: Explanation) -> str:
    """Return causes and the coordinates behind them."""
    from vicheck.report.why_part import why_part

    return environment().get_template("why.html").render(why=why_part(explanation))


def _card(title: str, verdict: Verdict, table: Table | None, picture: Any) -> str:
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
            rows=[] if table is None else table.rows[:_ROWS],
            more=0 if table is None else max(0, table.total - _ROWS),
        )
    )
