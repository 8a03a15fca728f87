"""Figure 4: errors of first and second moments against khat, in logistic regression."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from vicheck.paper.drawing import draw_quartiles, mark_threshold, new_figure
from vicheck.paper.experiment import Claim, Experiment, Numbers, Outcome, defined_values
from vicheck.paper.logistic_runs import SCRIPTED, SHARED, all_runs, compute
from vicheck.paper.repeats import WAYS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

_EDGES = (-np.inf, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, np.inf)
_ORDERS = ("first", "second")
_LEAST = 3


def _runs(numbers: Numbers, low: float = -np.inf, high: float = np.inf) -> list[Numbers]:
    return [
        one for one in all_runs(numbers) if one["khat"] is not None and low <= one["khat"] < high
    ]


def _bins(numbers: Numbers) -> list[list[Numbers]]:
    bins = [_runs(numbers, low, high) for low, high in pairwise(_EDGES)]
    return [each for each in bins if len(each) >= _LEAST]


def _draw(numbers: Numbers) -> Figure:
    figure, panels = new_figure(1, 2)
    bins = _bins(numbers) or [_runs(numbers)]
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
        + _describe_wins(numbers)
    )


def _wins(numbers: Numbers, order: str, other: str, low: float, high: float) -> list[bool]:
    """Return, for each run with a khat in a band, whether PSIS is closer than another way."""
    return [
        one[f"rmse_{order}_psis"] < one[f"rmse_{order}_{other}"]
        for one in _runs(numbers, low, high)
    ]


def _describe_wins(numbers: Numbers) -> str:
    parts = []
    for low, high, where in ((-np.inf, 0.7, "below"), (0.7, np.inf, "above")):
        for order in _ORDERS:
            wins = _wins(numbers, order, "plain", low, high)
            if wins:
                parts.append(f"{sum(wins)} of {len(wins)} for {order} moments {where} 0.7")
    return f"PSIS is closer than plain VI in {', '.join(parts)}."


def _growth(numbers: Numbers, order: str, way: str) -> float:
    """Return the median error above 0.7 over that below 0.5."""
    name = f"rmse_{order}_{way}"
    above, below = (
        defined_values(_runs(numbers, 0.7), name),
        defined_values(_runs(numbers, high=0.5), name),
    )
    return float(np.median(above) / np.median(below)) if above and below else np.nan


def _claims(numbers: Numbers) -> list[Claim]:
    growth = {order: {way: _growth(numbers, order, way) for way in WAYS} for order in _ORDERS}
    factors = [factor for each in growth.values() for factor in each.values()]
    closer = {
        other: {order: float(np.mean(_wins(numbers, order, other, -np.inf, np.inf)))
                for order in _ORDERS}
        for other in ("plain", "is")
    }  # fmt: skip
    ratios = [
        float(np.median([one[f"rmse_{order}_is"] / one[f"rmse_{order}_psis"]
                         for one in _runs(numbers)]))
        for order in _ORDERS
    ]  # fmt: skip
    if np.isnan(factors).any():
        diagnosed = Outcome.NOT_RUN, "Too few datasets below 0.5 or above 0.7."
    else:
        diagnosed = (
            Outcome.across(factor > 2 for factor in factors),
            f"Errors grow with khat, by factors from {min(factors):.1f} to {max(factors):.1f}.",
        )
    against_is = list(closer["is"].values())
    return [
        Claim(
            "Figure 4",
            "khat diagnoses the errors of first and second moments: none is reliable above 0.7",
            "large errors above 0.7",
            "median error above 0.7 over that below 0.5: " + "; ".join(
                f"{order}, " + ", ".join(f"{WAYS[way][2]} {f:.1f}" for way, f in each.items())
                for order, each in growth.items()
            ),
            *diagnosed,
        ),
        Claim(
            "Figure 4",
            "PSIS always shrinks the errors of VI",
            "always",
            _describe_wins(numbers),
            Outcome.HOLDS if min(closer["plain"].values()) == 1.0
            else Outcome.IN_PART if min(closer["plain"].values()) > 0.8 else Outcome.FAILS,
            "An error of plain VI can be small by luck, and above 0.7 weights are noisy."
            if min(closer["plain"].values()) < 1.0 else "In every dataset.",
        ),
        Claim(
            "Figure 4",
            "plain importance sampling has larger errors than PSIS",
            "larger",
            f"PSIS is closer in {100 * against_is[0]:.0f}% (first) and {100 * against_is[1]:.0f}% "
            f"(second moments); median ratio of errors {ratios[0]:.2f} and {ratios[1]:.2f}",
            Outcome.HOLDS if min(against_is) > 0.6
            else Outcome.FAILS if max(against_is) < 0.5 else Outcome.IN_PART,
            f"Two parameters and {numbers['num_draws']:,} draws: the largest weights, which are "
            "all that smoothing changes, matter little here unless khat is high.",
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "fig4", "Errors of moments, in logistic regression", compute, _draw, _caption, _claims,
    SCRIPTED, shared=SHARED,
)  # fmt: skip
