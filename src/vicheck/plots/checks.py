"""Figures of a check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from vicheck.plain_text import shortened
from vicheck.plots.check_data import (
    Cloud,
    KhatGrowth,
    Pair,
    khat_growth_data,
    khat_scale_data,
    pairs_data,
    solver_data,
    tail_data,
)
from vicheck.plots.style import (
    COLORS,
    INK,
    MUTED,
    grid_figure,
    log_scale,
    panel,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from vicheck.results.check import Check

__all__ = ["draw_khat_growth", "draw_pairs", "khat_growth", "khat_scale", "pairs", "solver", "tail"]

_LEFT, _RIGHT = -0.3, 1.5
"""Ends of the scale of khat; what lies beyond is pointed to."""
_LONGEST = 22
"""Characters of a name below an axis."""
_SHADES = {"good": 0.06, "usable": 0.16, "not reliable": 0.3}


@styled
def khat_scale(check: Check, *, ax: Axes | None = None) -> Figure:
    """Draw khat with its 90% interval on the scale of the paper's bands; into ``ax`` if given."""
    data = khat_scale_data(check)
    figure, axes = panel(ax, 4.6, 1.1)
    for name, begin, end in data.bands:
        low, high = max(begin, _LEFT), min(end, _RIGHT)
        axes.axvspan(low, high, color=MUTED, alpha=_SHADES[name], linewidth=0)
        axes.text(0.5 * (low + high), 0.08, name, ha="center", color=INK, fontsize=9.5)
    if data.threshold > _LEFT:  # that of a single draw is minus infinity
        axes.axvline(data.threshold, color=INK, linestyle="--", linewidth=1.2)
        axes.text(
            data.threshold, 1.03, f"threshold {data.threshold:.2f}",
            ha="center", va="bottom", color=INK,
        )  # fmt: skip
    if np.isfinite(data.khat):
        low, high, khat = np.clip([data.low, data.high, data.khat], _LEFT, _RIGHT)
        axes.plot([low, high], [0.6, 0.6], color=COLORS["vi"], linewidth=5, solid_capstyle="butt")
        beyond = (data.khat > _RIGHT) - (data.khat < _LEFT)
        marker = {1: ">", 0: "D", -1: "<"}[beyond]
        axes.plot(khat - 0.012 * beyond, 0.6, marker, color=COLORS["psis"], markersize=9,
                  markeredgecolor="white", clip_on=False)  # fmt: skip
        axes.text(
            khat - 0.03 if khat > 1.0 else khat + 0.03, 0.78, f"khat {data.khat:.2f}",
            ha="right" if khat > 1.0 else "left", va="center", color=INK, fontweight="bold",
        )  # fmt: skip
    axes.set(xlim=(_LEFT, _RIGHT), ylim=(0, 1), yticks=[])
    axes.set_xticks([0.0, 0.5, 0.7, 1.0])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("khat (bar: 90% interval)")
    return figure


@styled
def tail(check: Check, *, ax: Axes | None = None) -> Figure:
    """Draw the largest ratios, the Pareto distribution fitted to them, and the smoothed weights.

    It is drawn into ``ax`` if given, like all figures with one panel.
    """
    data = tail_data(check)
    figure, axes = panel(ax)
    axes.plot(data.share, data.log_ratios, "o", color=COLORS["soft"], markersize=5, label="ratios")
    axes.plot(data.share, data.log_fitted, color=COLORS["vi"],
              label=f"fitted tail, khat {data.khat:.2f}")  # fmt: skip
    axes.plot(data.share, data.log_smoothed, ".", color=COLORS["psis"], label="smoothed weights")
    log_scale(axes.xaxis)
    axes.set_xlabel("share of draws with a larger ratio")
    axes.set_ylabel("log10 of p/q over its mean")
    axes.legend(loc="best")
    return figure


def khat_growth(check: Check, *, ax: Axes | None = None) -> Figure:
    """Draw khat against the number of draws, with its 90% interval and the threshold."""
    return draw_khat_growth(khat_growth_data(check), ax)


@styled
def draw_khat_growth(data: KhatGrowth, ax: Axes | None = None) -> Figure:
    """Draw khats that were computed before."""
    figure, axes = panel(ax)
    axes.fill_between(data.num_draws, data.low, data.high, color=COLORS["vi"], alpha=0.25,
                      linewidth=0, label="90% interval")  # fmt: skip
    axes.plot(data.num_draws, data.khat, "o-", color=COLORS["vi"], label="khat")
    if len(data.num_draws) == 1:  # a band and a line of one point cannot be seen
        axes.vlines(data.num_draws, data.low, data.high, color=COLORS["vi"], alpha=0.4, linewidth=6)
        axes.axhline(data.threshold[0], color=INK, linestyle="--", linewidth=1.2)
    axes.plot(data.num_draws, data.threshold, "--", color=INK, linewidth=1.2, label="threshold")
    log_scale(axes.xaxis)
    axes.set_xlabel("number of draws S (the first ones)")
    axes.set_ylabel("khat")
    axes.legend(loc="best")
    return figure


@styled
def solver(check: Check, *, ax: Axes | None = None) -> Figure:
    """Draw the progress of the solver: the gradient, or the ELBO where only that is known."""
    from matplotlib.ticker import MaxNLocator

    data = solver_data(check)
    figure, axes = panel(ax)
    line = "o-" if len(data.steps) <= 40 else "-"
    axes.plot(data.steps, data.values, line, color=COLORS["vi"], markersize=4)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if data.what == "gradient":
        if (data.values > 0.0).any():
            log_scale(axes.yaxis)
        axes.set_xlabel("round of the solver")
        axes.set_ylabel("largest gradient (sds of q)")
        return figure
    later = data.values[len(data.steps) // 5 :]
    later = later[np.isfinite(later)]
    if later.size:  # the way up from a far start would hide whether the end is flat
        margin = 0.08 * np.ptp(later) or 1.0
        axes.set_ylim(later.min() - margin, later.max() + margin)
    means = f" (means of {data.block})" if data.block > 1 else ""
    axes.set_xlabel(f"estimate of the ELBO{means}")
    axes.set_ylabel("ELBO in nats (higher is better)")
    axes.ticklabel_format(axis="y", useOffset=False)
    return figure


def pairs(check: Check, num_pairs: int = 3) -> Figure:
    """Draw q's draws beside the reweighted ones, for the pairs that the weights change most."""
    return draw_pairs(pairs_data(check, num_pairs))


@styled
def draw_pairs(data: Sequence[Pair]) -> Figure:
    """Draw pairs that were computed before."""
    figure, panels = grid_figure(len(data), 2, 4.0, 1.95 * len(data))
    for row, pair in zip(panels, data, strict=True):
        _draw_cloud(row[0], pair.q, pair, "q", COLORS["vi"])
        _draw_cloud(row[1], pair.reweighted, pair, "reweighted", COLORS["psis"])
        row[0].sharex(row[1])
        row[0].sharey(row[1])
        row[0].autoscale()
    return figure


def _draw_cloud(axes: Axes, cloud: Cloud, pair: Pair, title: str, color: str) -> None:
    axes.scatter(
        cloud.x, cloud.y, s=5.0 * cloud.count, color=color, alpha=0.35, linewidth=0,
        rasterized=True,  # so many marks would make a large file
    )  # fmt: skip
    for axis, is_log in ((axes.xaxis, pair.x_log), (axes.yaxis, pair.y_log)):
        if is_log:
            log_scale(axis)
    axes.set_title(title)
    axes.set_xlabel(shortened(pair.x_name, _LONGEST) + (" (log scale)" if pair.x_log else ""))
    axes.set_ylabel(shortened(pair.y_name, _LONGEST) + (" (log scale)" if pair.y_log else ""))
