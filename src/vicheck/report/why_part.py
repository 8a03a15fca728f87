"""Why q is not the posterior: causes and the coordinates behind them, as texts for a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vicheck.plain_text import plain
from vicheck.report.tables import show

if TYPE_CHECKING:
    from vicheck.results.explanation import Explanation

__all__ = ["why_part"]

_ROWS = 8
_HEADINGS = {
    "score": "slope (rms)",
    "tail_shift": "shift in the tail",
    "tail_spread": "spread in the tail",
    "linear": "linear",
    "quadratic": "quadratic",
    "cubic": "cubic",
    "quartic": "quartic",
}
_ABOUT = (
    "The share is one of the variance of the log ratios or, for a mode, of the posterior. Below: "
    "how the log ratio depends on each coordinate in sds of q, as mean derivatives, and how the "
    "draws with the largest ratios differ from the others."
)


def why_part(explanation: Explanation) -> dict[str, Any]:
    """Return what a page shows of an explanation."""
    table = explanation.table.head(_ROWS)
    return {
        "causes": [
            {
                "code": cause.code,
                "share": f"{cause.share:.0%}",
                "sentence": cause.sentence,
                "hint": cause.hint,
            }
            for cause in explanation.causes
        ],
        "notes": explanation.notes,
        "about": _ABOUT,
        "headings": ["coordinate", *_HEADINGS.values()],
        "rows": [
            [plain(str(name)), *(show(row[column]) for column in _HEADINGS)]
            for name, row in table.iterrows()
        ],
    }
