"""The figure of a rescue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vicheck.plain_text import shortened
from vicheck.plots.rescue_data import Trail, rescue_trail_data
from vicheck.plots.style import COLORS, INK, MUTED, grid_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from vicheck.results.rescue import Rescue

__all__ = ["cost_in_words", "draw_rescue_trail", "rescue_trail"]

_LEFT, _RIGHT = -0.1, 1.3
"""Ends of the scale of khat; what lies beyond is pointed to."""
_ROW = 0.3
"""Height of a row, in inches."""
_SHADES = (0.06, 0.16, 0.3)
_LONGEST = 20
_KEPT = ("began here", "kept", "sampled")
"""Outcomes that are in colour."""


def rescue_trail(rescue: Rescue) -> Figure:
    """Draw khat before and after each remedy, on khat's scale, with what each cost."""
    return draw_rescue_trail(rescue_trail_data(rescue))


@styled
def draw_rescue_trail(data: Trail) -> Figure:
    """Draw a trail that was computed before."""
    count = len(data.remedies)
    figure, panels = grid_figure(1, 1, 5.8, 0.75 + _ROW * count)
    axes: Axes = panels[0, 0]
    good, usable = data.cutoffs
    bands = (("good", _LEFT, good), ("usable", good, usable), ("not reliable", usable, _RIGHT))
    for (name, low, high), shade in zip(bands, _SHADES, strict=True):
        axes.axvspan(low, high, color=MUTED, alpha=shade, linewidth=0)
        axes.text(0.5 * (low + high), -0.75, name, ha="center", va="center", color=INK, fontsize=8)
    for row in range(count):
        _draw_row(axes, data, row)
    names = [shortened(name, _LONGEST) for name in data.remedies]
    axes.set_yticks(range(count), names)
    axes.set_ylabel("remedies, in order")
    axes.tick_params(axis="y", length=0)
    for label, outcome in zip(axes.get_yticklabels(), data.outcomes, strict=True):
        label.set_fontweight("bold" if outcome in _KEPT else "normal")
    axes.set(xlim=(_LEFT, _RIGHT), ylim=(count - 0.4, -1.15))
    axes.set_xticks([0.0, 0.5, 0.7, 1.0])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("khat on fresh draws (open: before the remedy; filled: after)")
    return figure


def _draw_row(axes: Axes, data: Trail, row: int) -> None:
    """Draw where khat was and where it went, and say what came of it, and at what cost."""
    before, after = data.before[row], data.after[row]
    outcome, began = data.outcomes[row], row == 0
    color = COLORS["psis"] if outcome in _KEPT else COLORS["soft"]
    if np.isfinite(before) and np.isfinite(after) and not began:
        ends = np.clip([before, after], _LEFT, _RIGHT)
        axes.plot(ends, [row, row], color=color, linewidth=1.6, zorder=2)
    if np.isfinite(before) and not began:
        _mark(axes, before, row, color, filled=False)
    if np.isfinite(after):
        _mark(axes, after, row, COLORS["vi"] if began else color, filled=True)
        inside = float(np.clip(after, _LEFT, _RIGHT))
        left = not began and after < before
        at_edge = inside > _RIGHT - 0.1 and not left
        axes.text(
            inside - 0.03 if left or at_edge else inside + 0.03, row - (0.28 if at_edge else 0.02),
            f"{after:.2f}", ha="right" if left or at_edge else "left", va="center", color=INK,
            fontsize=8, fontweight="bold" if outcome in _KEPT else "normal",
        )  # fmt: skip
    cost = cost_in_words(int(data.evaluations[row]), float(data.seconds[row]))
    said = outcome if outcome == "not tried" else f"{outcome}, {cost}"
    axes.text(
        1.02, row, said, transform=axes.get_yaxis_transform(),
        ha="left", va="center", color=INK, fontsize=8,
    )  # fmt: skip


def _mark(axes: Axes, khat: float, row: int, color: str, *, filled: bool) -> None:
    beyond = int(khat > _RIGHT) - int(khat < _LEFT)
    marker = {1: ">", 0: "o", -1: "<"}[beyond]
    axes.plot(
        np.clip(khat, _LEFT, _RIGHT), row, marker, color=color, markersize=6, zorder=3,
        markerfacecolor=color if filled else "none", clip_on=False,
    )  # fmt: skip


def cost_in_words(evaluations: int, seconds: float) -> str:
    """Say how many evaluations of the density and how many seconds something took."""
    count, unit = float(evaluations), ""
    for larger in ("k", "M", "G"):
        if count < 999.5:
            break
        count, unit = count / 1000.0, larger
    shown = f"{count:.0f}" if count >= 9.95 or not unit else f"{count:.2g}"
    digits = 1 if seconds < 100.0 else 0
    return f"{shown}{unit} evals, {seconds:.{digits}f} s"
