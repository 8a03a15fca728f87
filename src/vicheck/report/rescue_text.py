"""A rescue as text: what was tried, what it changed, and the lines that repeat it.

``print(rescued)`` and the command line show the same lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from vicheck.plain_text import plain
from vicheck.plots.rescue_data import rescue_trail_data
from vicheck.report.tables import show, show_to

if TYPE_CHECKING:
    from vicheck.results.rescue import Rescue

__all__ = ["changes_lines", "code_lines", "rescue_text", "trail_lines"]

_ROWS = 12
"""Quantities that are printed; the others are counted."""
_USE = {"vi": "VI", "psis": "PSIS", "nuts": "NUTS", "neither": "neither"}


def rescue_text(rescue: Rescue) -> str:
    """Return all of it, as it stands outside of a terminal."""
    parts = [trail_lines(rescue), changes_lines(rescue), code_lines(rescue)]
    blocks = ["\n".join(lines) for lines in parts if lines]
    return "\n\n".join([plain(rescue.sentence), *blocks])


def trail_lines(rescue: Rescue) -> list[str]:
    """Return what was tried, a line for each remedy; none where nothing had to be mended."""
    if len(rescue.attempts) == 1:
        return []
    data = rescue_trail_data(rescue)
    head = (
        "What was tried:",
        "khat",
        "",
        "draws",
        "verdict",
        "drift",
        "evaluations",
        "seconds",
        "",
    )
    rows = [head]
    for row, attempt in enumerate(rescue.attempts):
        outcome = data.outcomes[row]
        said = f"{outcome}: {attempt.why}" if attempt.why and outcome != "kept" else outcome
        said = attempt.why if outcome == "failed" else said  # which says so itself
        rows.append(
            (
                f"  {data.remedies[row]}",
                f"{attempt.khat_before:.2f}",
                "" if np.isnan(attempt.khat_after) or not row else f"-> {attempt.khat_after:.2f}",
                f"{attempt.draws:,}" if attempt.draws else "",
                attempt.level,
                "" if np.isnan(attempt.drift) else f"{attempt.drift:+.2f}",
                f"{attempt.evaluations:,}",
                f"{attempt.seconds:.1f}",
                "" if outcome == "began here" else plain(said),
            )
        )
    return _aligned(rows, "<><><>>><")


def changes_lines(rescue: Rescue) -> list[str]:
    """Return what to report of each quantity, beside what was estimated before."""
    title = "What to report:" if rescue.succeeded else "What may be used:"
    changes = rescue.changes
    rows: list[tuple[str, ...]] = [(title, "before", "+- sd", "now", "+- sd", "MCSE", "by")]
    for name, row in changes.head(_ROWS).iterrows():
        before = [show(row["before_mean"]) or "-", show(row["before_sd"]) or "-"]
        now = ["-", "-", "-"]
        if row["source"] != "neither":
            now[0] = show_to(row["mean"], row["mcse"]) or "-"
            now[1:] = [show(row["sd"]) or "-", show(row["mcse"]) or "-"]
        rows.append((f"  {plain(str(name))}", *before, *now, _USE[row["source"]]))
    left_out = len(changes) - _ROWS
    more = [f"  ... and {left_out} more quantities in .changes"] if left_out > 0 else []
    return [*_aligned(rows, "<>>>>><"), *more]


def code_lines(rescue: Rescue) -> list[str]:
    """Return the lines that repeat it; none where nothing was kept."""
    if not any(attempt.kept for attempt in rescue.attempts[1:]):
        return []
    lines = (f"  {line}" for line in rescue.code.splitlines())
    return ["To repeat this without the search:", *lines]


def _aligned(rows: Sequence[tuple[str, ...]], sides: str) -> list[str]:
    """Set cells in columns, each to its side."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        )
        for row in rows
    )
    return [line.rstrip() for line in lines]
