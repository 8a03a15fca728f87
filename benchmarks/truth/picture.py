"""The picture of the scoreboard: the true error of each fit against its khat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from vicheck.plots.style import COLORS, grid_figure, log_scale, styled

__all__ = ["draw", "write_picture"]

MARKS = {"good": ("o", "vi"), "usable": ("^", "is"), "unreliable": ("x", "psis")}
KHATS, ERRORS = (-1.0, 4.0), (1e-4, 1e3)
"""What is further out is drawn at the border."""


@styled
def draw(points: list[list[Any]]) -> Figure:
    """Draw two panels, the means of VI and of PSIS; colours and shapes are the verdict's levels."""
    figure, axes = grid_figure(1, 2, 8.4, 3.8)
    for panel, place, title in ((axes[0, 0], 1, "means of VI"), (axes[0, 1], 2, "means of PSIS")):
        for level, (mark, colour) in MARKS.items():
            these = [point for point in points if point[3] == level and point[0] is not None]
            khats = [min(max(point[0], KHATS[0]), KHATS[1]) for point in these]
            errors = [_within(point[place]) for point in these]
            panel.scatter(
                khats, errors, s=11, c=COLORS[colour], marker=mark, alpha=0.6, lw=0.7, label=level
            )
        panel.axhline(0.1, color=COLORS["truth"], lw=0.8, ls="--")
        panel.axvline(0.7, color=COLORS["truth"], lw=0.8, ls="--")
        log_scale(panel.yaxis)
        panel.set(title=title, xlabel="khat", ylabel="largest error, in posterior sds")
    axes[0, 0].legend(loc="lower right", title="verdict")
    return figure


def _within(error: float | None) -> float:
    return ERRORS[1] if error is None else min(max(error, ERRORS[0]), ERRORS[1])


def write_picture(points: list[list[Any]], path: Path) -> None:
    draw(points).savefig(path, dpi=110, metadata={"Software": None})
