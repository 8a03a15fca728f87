"""The part of a page that is about a rescue: what was tried, as texts and a picture."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vicheck.plots.rescue_data import Trail, rescue_trail_data
from vicheck.plots.rescues import draw_rescue_trail
from vicheck.report.figures import Picture, picture_of
from vicheck.report.tables import MOST_BYTES, changes_table, show

if TYPE_CHECKING:
    from vicheck.results.rescue import Rescue

__all__ = ["rescue_part"]

_HEADINGS = (
    "remedy", "khat before", "khat after", "of draws", "verdict", "effective draws", "drift",
    "evaluations", "seconds", "kept",
)  # fmt: skip
_ABOUT = (
    "What a remedy has made is judged on draws that it has never seen. Effective draws are given "
    "per draw; drift is the largest of any mean along short chains, in sds; evaluations of the "
    "density are counted with and without a gradient, including those for the judgement."
)
_CHANGES = (
    "Before: plain estimates from the approximation that the rescue began with. Now: what to "
    "report from the best that it has found, and nothing where neither VI nor weights may be used."
)


def rescue_part(rescue: Rescue, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Return all that a page shows of a rescue."""
    data = rescue_trail_data(rescue)
    return {
        "level": _level(rescue),
        "badge": _badge(rescue),
        "sentence": rescue.sentence,
        "before": None if rescue.before is None else rescue.before.verdict,
        "picture": _picture(data),
        "about": _ABOUT,
        "headings": _HEADINGS,
        "rows": _rows(rescue, data),
        "about_changes": _CHANGES,
        "changes": changes_table(rescue.changes, most_bytes),
        "code": rescue.code,
    }


def _level(rescue: Rescue) -> str:
    """Return the colour of the answer."""
    if not rescue.succeeded:
        return "unreliable"
    return "usable" if rescue.by_sampling else rescue.check.verdict.level


def _badge(rescue: Rescue) -> str:
    if not rescue.succeeded:
        return "\N{MULTIPLICATION X} not rescued"
    if len(rescue.attempts) == 1:
        return "\N{CHECK MARK} nothing to mend"
    return "\N{CHECK MARK} " + ("sampled" if rescue.by_sampling else "rescued")


def _picture(data: Trail) -> Picture:
    steps = []
    for row, remedy in enumerate(data.remedies):
        before, after = (show(each[row]) or "undefined" for each in (data.before, data.after))
        if row == 0:
            steps.append(f"khat {after} at first")
        elif np.isnan(data.after[row]):
            steps.append(f"{remedy}: {data.outcomes[row]}")
        else:
            steps.append(f"{remedy}: from {before} to {after}, {data.outcomes[row]}")
    return picture_of(
        partial(draw_rescue_trail, data),
        f"What was tried, in order: {'; '.join(steps)}.",
        "khat before and after each remedy, in order, on the scale of the paper: good below 0.5, "
        "not reliable above 0.7. What was kept is in colour; to the right, what each cost.",
    )


def _rows(rescue: Rescue, data: Trail) -> list[tuple[list[str], str]]:
    """Return the cells of each attempt, and why it was kept or not."""
    rows = []
    for name, attempt in zip(data.remedies, rescue.attempts, strict=True):
        numbers = (
            attempt.effective, attempt.drift, attempt.evaluations, attempt.seconds
        )  # fmt: skip
        cells = [
            name,
            show(attempt.khat_before) or "\N{EN DASH}",
            show(attempt.khat_after) or "\N{EN DASH}",
            f"{attempt.draws:,}" if attempt.draws else "\N{EN DASH}",
            attempt.level or "\N{EN DASH}",
            show(numbers[0]) or "\N{EN DASH}",
            "\N{EN DASH}" if np.isnan(numbers[1]) else f"{numbers[1]:+.2f}",
            f"{numbers[2]:,}",
            f"{numbers[3]:.1f}",
            "yes" if attempt.kept else "no",
        ]
        rows.append((cells, attempt.why))
    return rows
