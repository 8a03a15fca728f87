"""The look that all figures share."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from vicheck.plots.style import COLORS, STYLE, grid_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLORS",
    "as_svg",
    "draw_probabilities",
    "draw_quartiles",
    "mark_threshold",
    "new_figure",
]

_STYLE: dict[Any, Any] = STYLE | {
    "svg.fonttype": "path",
    "svg.hashsalt": "vicheck",  # the same numbers give the same file
}
_WIDTH, _HEIGHT = 2.9, 2.4
_BINS = 20


def new_figure(rows: int, columns: int, height: float = _HEIGHT) -> tuple[Figure, Any]:
    """Return a figure and its panels, an array of shape ``(rows, columns)``."""
    return grid_figure(rows, columns, max(_WIDTH * columns, 5.0), height * rows)


def as_svg(draw: Callable[[Any], Figure], numbers: Any) -> str:
    """Draw numbers in the common look and return the picture; the same numbers give the same."""
    buffer = io.StringIO()
    with mpl.rc_context(_STYLE):
        draw(numbers).savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def mark_threshold(axes: Axes, value: float = 0.7, *, vertical: bool = False) -> None:
    """Draw a line at the khat above which nothing can be trusted."""
    line = axes.axvline if vertical else axes.axhline
    line(value, color=COLORS["soft"], linewidth=1.0, linestyle="--", zorder=0)


def draw_quartiles(
    axes: Axes, x: ArrayLike, rows: Sequence[Sequence[float]], color: str, label: str, marker: str
) -> None:
    """Draw medians as a line with bars from the lower to the upper quartile."""
    quartiles = np.array([np.nanquantile(np.array(row, float), [0.25, 0.5, 0.75]) for row in rows])
    low, middle, high = quartiles.T
    axes.errorbar(
        x, middle, [middle - low, high - middle],
        color=COLORS[color], label=label, marker=marker, capsize=2, elinewidth=0.9,
    )  # fmt: skip


def draw_probabilities(axes: Axes, probabilities: ArrayLike, title: str) -> None:
    """Draw calibration probabilities as a histogram over where a uniform one would lie."""
    values = np.array(probabilities, float)
    values = values[np.isfinite(values)]
    low, high = binom.ppf([0.005, 0.995], values.size, 1 / _BINS)
    axes.axhspan(low, high, color=COLORS["soft"], alpha=0.25, linewidth=0, zorder=0)
    axes.hist(values, np.linspace(0, 1, _BINS + 1).tolist(), color=COLORS["vi"], edgecolor="white")
    axes.axvline(0.5, color=COLORS["truth"], linewidth=0.8, linestyle=":")
    axes.axvline(values.mean(), color=COLORS["psis"], linewidth=1.4)
    axes.set_title(title)
    axes.set_xlim(0, 1)
    axes.set_xlabel("Pr$_q$(quantity < truth)")
