"""Figure 4: errors of first and second moments against khat, in logistic regression."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from vicheck.paper.correlated import SCRIPTED, WAYS, all_runs, compute
from vicheck.paper.drawing import draw_quartiles, mark_threshold, new_figure
from vicheck.paper.experiment import Claim, Experiment, Numbers, Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

_EDGES = (-np.inf, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, np.inf)
_ORDERS = ("first", "second")
_LEAST = 3


def _bins(numbers: Numbers) -> list[list[Numbers]]:
    runs = all_runs(numbers)
    bins = [[one for one in runs if low <= one["khat"] < high] for low, high in pairwise(_EDGES)]
    return [each for each in bins if len(each) >= _LEAST]


def _draw(numbers: Numbers) -> Figure:
    figure, panels = new_figure(1, 2)
    bins = _bins(numbers) or [all_runs(numbers)]
    x = [float(np.mean([one["khat"] for one in each])) for each in bins]
    for axes, order in zip(panels[0], _ORDERS, strict=True):
        for way, (color, marker, label) in WAYS.items():
            rows = [[one[f"rmse_{order}_{way}"] for one in each] for each in bins]
            draw_quartiles(axes, x, rows, color, label, marker)
        mark_threshold(axes, vertical=True)
        axes.set(title=f"RMSE of {order} moments", xlabel="khat", yscale="log")
    panels[0][0].legend()
    return figure


def _caption(numbers: Numbers) -> str:
    return (
        f"The fits of Figure 3 ({len(all_runs(numbers))} datasets), in bins of khat: median and "
        f"quartiles of the error against the exact posterior, by {numbers['num_draws']:,} draws. "
        + _told_wins(numbers)
    )


def _wins(
    numbers: Numbers, order: str, way: str, other: str, low: float, high: float
) -> list[bool]:
    return [
        one[f"rmse_{order}_{way}"] < one[f"rmse_{order}_{other}"]
        for one in all_runs(numbers)
        if low <= one["khat"] < high
    ]


def _told_wins(numbers: Numbers) -> str:
    parts = []
    for low, high, where in ((-np.inf, 0.7, "below"), (0.7, np.inf, "above")):
        for order in _ORDERS:
            wins = _wins(numbers, order, "psis", "plain", low, high)
            if wins:
                parts.append(f"{sum(wins)} of {len(wins)} for {order} moments {where} 0.7")
    return f"PSIS is closer than plain VI in {', '.join(parts)}."


def _median(numbers: Numbers, name: str, low: float, high: float) -> float:
    values = [one[name] for one in all_runs(numbers) if low <= one["khat"] < high]
    return float(np.median(values)) if values else np.nan


def _claims(numbers: Numbers) -> list[Claim]:
    shares = [
        float(np.mean(_wins(numbers, order, "psis", "plain", -np.inf, np.inf))) for order in _ORDERS
    ]
    growth = {
        way: _median(numbers, f"rmse_first_{way}", 0.7, np.inf)
        / _median(numbers, f"rmse_first_{way}", -np.inf, 0.5)
        for way in WAYS
    }
    against_is = [
        float(np.mean(_wins(numbers, order, "psis", "is", -np.inf, np.inf))) for order in _ORDERS
    ]
    ratio = [
        float(np.median([one[f"rmse_{order}_is"] / one[f"rmse_{order}_psis"]
                         for one in all_runs(numbers)]))
        for order in _ORDERS
    ]  # fmt: skip
    return [
        Claim(
            "Figure 4",
            "khat diagnoses the errors of first and second moments: none is reliable above 0.7",
            "large errors above 0.7",
            "median error of first moments above 0.7 over that below 0.5: "
            + ", ".join(f"{WAYS[way][2]} {value:.1f}" for way, value in growth.items()),
            Outcome.HOLDS if min(growth.values()) > 2
            else Outcome.IN_PART if growth["psis"] > 2 else Outcome.FAILS,
            "The errors of adjusted moments grow with khat. Plain means do not follow it: the "
            "family is symmetric, and its mean can be right while its shape is not."
            if growth["plain"] < growth["psis"] else "All errors grow with khat.",
        ),
        Claim(
            "Figure 4",
            "PSIS always shrinks the errors of VI",
            "always",
            _told_wins(numbers),
            Outcome.HOLDS if min(shares) == 1.0
            else Outcome.IN_PART if min(shares) > 0.8 else Outcome.FAILS,
            "Mostly, and not always: an error of plain VI can be small by luck.",
        ),
        Claim(
            "Figure 4",
            "plain importance sampling has larger errors than PSIS",
            "larger",
            f"PSIS is closer in {100 * against_is[0]:.0f}% (first) and {100 * against_is[1]:.0f}% "
            f"(second moments); median ratio of errors {ratio[0]:.2f} and {ratio[1]:.2f}",
            Outcome.HOLDS if min(against_is) > 0.6
            else Outcome.FAILS if max(against_is) < 0.5 else Outcome.IN_PART,
            "With 100,000 draws in two dimensions the two hardly differ: smoothing pays when khat "
            "is "
            "high or draws are few.",
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "fig4", "Errors of moments, in logistic regression", compute, _draw, _caption, _claims, SCRIPTED
)
