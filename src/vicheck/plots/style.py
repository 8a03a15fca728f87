"""The look that all figures share."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, cast

import matplotlib as mpl

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = [
    "COLORS",
    "INK",
    "MUTED",
    "STYLE",
    "grid_figure",
    "log_scale",
    "panel",
    "styled",
]

# Okabe and Ito's colours, which everybody can tell apart; where they meet, shapes differ too.
COLORS = {
    "vi": "#0072B2",
    "is": "#009E73",
    "psis": "#D55E00",
    "truth": "#222222",
    "stan": "#CC79A7",
    "soft": "#9AA5B1",
}
INK, MUTED = "#1a1d21", "#5a6470"
"""Colours of text and axes; pages of HTML replace them by their own."""

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.0,
}
_OF_PAGES = {
    "text.color": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": "white",
    "axes.facecolor": "none",
    "font.size": 10.5,  # a page shows figures at about their size
    "axes.titlesize": 10.5,
    "legend.fontsize": 9.5,
    "text.parse_math": False,  # a name may hold a dollar sign
}
_WIDTH = 4.0
_NOTEBOOK_DPI = 110
_DECADES = 30.0

_P = ParamSpec("_P")


def styled(draw: Callable[_P, Figure]) -> Callable[_P, Figure]:
    """Draw in the common look, whatever the caller's settings are."""

    @functools.wraps(draw)
    def drawn(*args: _P.args, **kwargs: _P.kwargs) -> Figure:
        with mpl.rc_context(STYLE | _OF_PAGES):
            return draw(*args, **kwargs)

    return drawn


def panel(
    ax: Axes | None = None, width: float = _WIDTH, height: float = 2.35
) -> tuple[Figure, Axes]:
    """Return a new figure with one panel, or a panel that is given with its figure."""
    if ax is not None:
        return cast("Figure", ax.get_figure(root=True)), ax
    figure, axes = grid_figure(1, 1, width, height)
    return figure, axes[0, 0]


def grid_figure(rows: int, columns: int, width: float, height: float) -> tuple[Figure, Any]:
    """Return a figure of a size in inches and its panels, shape ``(rows, columns)``."""
    figure = _kind_of_figure()(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


@functools.cache
def _kind_of_figure() -> type[Figure]:
    """Return figures that notebooks show, although pyplot does not know them."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            content = io.BytesIO()
            self.savefig(content, format="png", dpi=_NOTEBOOK_DPI)
            return content.getvalue()

    return NotebookFigure


def log_scale(axis: Axis) -> None:
    """Make an axis with data on it logarithmic, with plain numbers at powers of ten.

    Where it spans few of these there are numbers at 2 and 5 times them as well.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes = axis.axes
    (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
    low, high = axis.get_view_interval()
    subs = (1.0,) if high > _DECADES * low else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=subs, numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
