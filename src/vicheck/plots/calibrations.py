"""Figures of a calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from vicheck.plain_text import shortened
from vicheck.plots.calibration_data import (
    EcdfDifference,
    Histogram,
    datasets_data,
    ecdf_difference_data,
    histograms_data,
)
from vicheck.plots.style import COLORS, INK, MUTED, grid_figure, panel, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from vicheck.results.calibration import Calibration

__all__ = ["datasets", "draw_ecdf_differences", "draw_histograms", "ecdf_difference", "histograms"]

T = TypeVar("T")

_COLUMNS = 3
_WIDTH, _HEIGHT = 2.5, 2.2
_LONGEST = 20
_MARK = "\N{BLACK RIGHT-POINTING TRIANGLE}"
_LABEL = "p = Pr_q(quantity < truth)"


def histograms(
    calibration: Calibration, quantities: Sequence[str] | None = None, *, most: int = 6
) -> Figure:
    """Draw histograms of calibration probabilities over their mirror images.

    The quantity that decides the verdict comes first, and is marked.

    Parameters
    ----------
    calibration
        From `vicheck.vsbc`.
    quantities
        Names; by default the worst ones.
    most
        How many of these.
    """
    return draw_histograms(histograms_data(calibration, quantities, most))


@styled
def draw_histograms(data: Sequence[Histogram]) -> Figure:
    """Draw histograms that were computed before."""
    return _panels(data, _draw_histogram)


def ecdf_difference(
    calibration: Calibration, quantities: Sequence[str] | None = None, *, most: int = 6
) -> Figure:
    """Draw the ECDF of calibration probabilities minus that of a uniform distribution.

    The quantity that decides the verdict comes first, and is marked.

    Parameters
    ----------
    calibration
        From `vicheck.vsbc`.
    quantities
        Names; by default the worst ones.
    most
        How many of these.
    """
    return draw_ecdf_differences(ecdf_difference_data(calibration, quantities, most))


@styled
def draw_ecdf_differences(data: Sequence[EcdfDifference]) -> Figure:
    """Draw ECDFs that were computed before."""
    return _panels(data, _draw_ecdf)


@styled
def datasets(calibration: Calibration, *, ax: Axes | None = None) -> Figure:
    """Draw the khat of each simulated dataset's fit, in order, with the threshold."""
    data = datasets_data(calibration)
    figure, axes = panel(ax)
    share = (np.arange(data.khat.size) + 0.5) / max(1, data.khat.size)
    axes.plot(share, data.khat, color=COLORS["vi"], linewidth=2.0, label="khat, sorted")
    axes.axhline(
        data.threshold, color=INK, linestyle="--", linewidth=1.2,
        label=f"threshold {data.threshold:.2f}",
    )  # fmt: skip
    axes.set(xlim=(0, 1), xlabel="share of the datasets", ylabel="khat")
    if data.khat.size:  # a few giants would hide the others
        axes.set_ylim(min(0.0, data.khat[0]) - 0.05, max(1.2, 1.3 * np.quantile(data.khat, 0.95)))
    axes.legend(loc="upper left")
    return figure


def _panels(data: Sequence[T], draw: Callable[[Axes, T], None]) -> Figure:
    """Draw a panel for each quantity."""
    columns = min(_COLUMNS, max(1, len(data)))
    rows = -(-max(1, len(data)) // columns)
    figure, panels = grid_figure(rows, columns, _WIDTH * columns, _HEIGHT * rows)
    for axes, one in zip_longest(panels.ravel(), data):
        if one is None:
            axes.set_axis_off()
        else:
            draw(axes, one)
    return figure


def _draw_histogram(axes: Axes, data: Histogram) -> None:
    centres, width = 0.5 * (data.edges[1:] + data.edges[:-1]), data.edges[1]
    axes.axhspan(data.low, data.high, color=MUTED, alpha=0.18, linewidth=0)
    axes.bar(centres, data.counts, 0.92 * width, color=COLORS["vi"], alpha=0.55)
    axes.stairs(data.mirrored, data.edges, color=INK, linewidth=1.3, linestyle="--")
    axes.axvline(0.5, color=INK, linewidth=0.8, linestyle=":")
    axes.set(xlim=(0, 1), xticks=[0, 0.5, 1], xlabel=_LABEL, ylabel="datasets")
    _set_title(axes, data)


def _draw_ecdf(axes: Axes, data: EcdfDifference) -> None:
    axes.fill_between(data.points, data.lower, data.upper, color=MUTED, alpha=0.22, linewidth=0)
    axes.axhline(0.0, color=INK, linewidth=0.8, linestyle=":")
    axes.plot(data.points, data.difference, color=COLORS["vi"])
    axes.set(xlim=(0, 1), xticks=[0, 0.5, 1], xlabel=_LABEL, ylabel="ECDF - uniform")
    _set_title(axes, data)


def _set_title(axes: Axes, data: Histogram | EcdfDifference) -> None:
    """Name the quantity, with a mark if it decides the verdict."""
    name = shortened(data.name, _LONGEST)
    if data.decides:
        axes.set_title(f"{_MARK} {name}", fontweight="bold")
    else:
        axes.set_title(name)
