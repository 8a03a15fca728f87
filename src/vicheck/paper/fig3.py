"""Figure 3: khat grows with the correlation of the design; the predictive density misleads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

from vicheck.paper.drawing import COLORS, draw_quartiles, mark_threshold, new_figure
from vicheck.paper.experiment import Claim, Experiment, Numbers, Outcome, describe_band
from vicheck.paper.logistic_runs import SCRIPTED, SHARED, all_runs, compute
from vicheck.paper.repeats import values_by_row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

_BANDS = ((-np.inf, 0.5), (0.5, 0.7), (0.7, 1.0), (1.0, np.inf))


def _draw(numbers: Numbers) -> Figure:
    figure, panels = new_figure(1, 3)
    first, second, third = panels[0]
    x = [row["correlation"] for row in numbers["rows"]]
    columns = {
        name: values_by_row(numbers["rows"], name) for name in ("khat", "lpd_vi", "lpd_truth")
    }
    draw_quartiles(first, x, columns["khat"], "vi", "", "o")
    mark_threshold(first)
    first.set(title="khat", xlabel="correlation of the design")
    draw_quartiles(second, x, columns["lpd_vi"], "vi", "VI", "o")
    draw_quartiles(second, x, columns["lpd_truth"], "truth", "exact", "s")
    second.set(title="log predictive density", xlabel="correlation of the design")
    second.legend()
    runs = [one for one in all_runs(numbers) if one["khat"] is not None]
    third.plot(
        [one["khat"] for one in runs], [_gap(one) for one in runs], ".",
        color=COLORS["vi"], alpha=0.5, markersize=3,
    )  # fmt: skip
    third.axhline(0.0, color=COLORS["truth"], linewidth=0.8, linestyle=":")
    mark_threshold(third, vertical=True)
    third.set(title="VI lpd - exact lpd", xlabel="khat")
    return figure


def _gap(one: Numbers) -> float:
    return float(one["lpd_vi"] - one["lpd_truth"])


def _medians(numbers: Numbers, name: str) -> np.ndarray:
    return np.array([np.median(values) for values in values_by_row(numbers["rows"], name)])


def _gaps(numbers: Numbers) -> dict[str, list[float]]:
    """Return the absolute gaps of predictive densities by band of khat."""
    runs = [one for one in all_runs(numbers) if one["khat"] is not None]
    return {
        describe_band(low, high): [abs(_gap(one)) for one in runs if low <= one["khat"] < high]
        for low, high in _BANDS
    }


def _caption(numbers: Numbers) -> str:
    khat = _medians(numbers, "khat")
    return (
        f"Logistic regression, n = {numbers['num_rows']}, two covariates, flat prior; medians and "
        f"quartiles of {numbers['repeats']} datasets. Median khat goes from {khat[0]:.2f} at "
        f"correlation 0 to {khat[-1]:.2f} at {numbers['rows'][-1]['correlation']:g}; its smallest "
        f"median is {khat.min():.2f}. lpd is the mean log predictive density of 100 new data "
        "points. The exact posterior is by quadrature."
    )


def _claims(numbers: Numbers) -> list[Claim]:
    x = np.array([row["correlation"] for row in numbers["rows"]])
    khat, lpd = _medians(numbers, "khat"), _medians(numbers, "lpd_vi")
    own = _medians(numbers, "posterior_correlation")
    least = int(np.argmin(khat))
    rising = spearmanr(x[least:], khat[least:]).statistic if least < len(x) - 1 else 0.0
    rises = khat[-1] > 0.7 > khat[0] and rising > 0.8
    lpd_rises = spearmanr(x, lpd).statistic
    signed = np.array([_gap(one) for one in all_runs(numbers)])
    error = 1.96 * signed.std(ddof=1) / np.sqrt(signed.size)
    gaps = _gaps(numbers)
    return [
        Claim(
            "Figure 3",
            "khat grows with the correlation of the design",
            "rising, not monotone at first",
            "medians " + ", ".join(
                f"{rho:g}: {value:.2f}" for rho, value in zip(x, khat, strict=True)
            ),
            Outcome.HOLDS if rises else Outcome.FAILS,
            f"The median correlation of the posterior itself goes from {own[0]:+.2f} over "
            f"{own[least]:+.2f}, where khat is smallest, to {own[-1]:+.2f}: khat follows its size.",
        ),
        Claim(
            "Figure 3",
            "lpd rises with the correlation however good VI is: it does not diagnose VI",
            "rising",
            f"median lpd of VI from {lpd[0]:.3f} to {lpd[-1]:.3f}, rank correlation "
            f"{lpd_rises:+.2f}; median khat from {khat[0]:.2f} to {khat[-1]:.2f}",
            Outcome.HOLDS if lpd_rises > 0.5 else Outcome.FAILS,
            "The exact posterior's lpd does the same: it is the data that become easier to predict."
            if lpd_rises > 0.5
            else "It does not rise here.",
        ),
        Claim(
            "Figure 3",
            "VI has a larger lpd than the true posterior",
            "larger",
            f"VI minus exact, mean over all datasets {signed.mean():+.5f} +- {error:.5f}",
            Outcome.HOLDS if signed.mean() > error
            else Outcome.FAILS if signed.mean() < -error else Outcome.IN_PART,
            "The paper says that this is special to its example, in which the model is "
            "misspecified; here the data come from the model.",
        ),
        Claim(
            "Figure 3",
            "the gap between VI and true lpd jumps at khat 0.7",
            "sharp increase around 0.7",
            "mean absolute gap with "
            + ", ".join(
                f"{name}: {np.mean(band):.4f} ({len(band)})" for name, band in gaps.items() if band
            ),
            *_judge_jump([float(np.mean(band)) if band else np.nan for band in gaps.values()]),
        ),
    ]  # fmt: skip


def _judge_jump(gaps: list[float]) -> tuple[Outcome, str]:
    """Call it a jump when the gap grows twice as much across 0.7 as from the band before."""
    before, across = gaps[1] / gaps[0], gaps[2] / gaps[1]
    if not np.isfinite(across):
        return Outcome.NOT_RUN, "Too few datasets on one side of 0.7."
    growth = (
        f"It grows by a factor of {before:.1f} from below 0.5 to 0.5 to 0.7, and by one of "
        f"{across:.1f} across 0.7"
    )
    if across > 2 * before:
        return Outcome.HOLDS, f"{growth}: a jump."
    if across > 1:
        return Outcome.IN_PART, f"{growth}: it grows with khat, without a jump."
    return Outcome.FAILS, f"{growth}."


EXPERIMENT = Experiment(
    "fig3", "Correlation and predictive density, in logistic regression",
    compute, _draw, _caption, _claims, SCRIPTED, shared=SHARED,
)  # fmt: skip
