"""What the figures of VSBC share: the run, its numbers, the panels, the wording."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import vicheck
from vicheck.paper.drawing import draw_probabilities, new_figure
from vicheck.paper.experiment import Numbers, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "SEED",
    "SIGN",
    "calibrate",
    "describe",
    "describe_convergence",
    "direction_of",
    "draw_rows",
]

SEED = 2018
SIGN = (
    "Bars: calibration probabilities Pr(quantity < truth) under q, small where q sits too high. "
    "Grey: where 99% of the bars of a uniform law lie. Orange: the mean."
)

_COLUMNS = (
    "p_value", "p_adjusted", "direction", "median", "bias", "bias_low", "bias_high",
    "dispersion", "dispersion_low", "dispersion_high", "ks_p_value",
)  # fmt: skip


def calibrate(
    run: Run,
    key: str,
    model: vicheck.Model,
    quantities: Sequence[str],
    num_datasets: int,
    **options: Any,
) -> Numbers:
    """Run VSBC, resumably, and keep the probabilities, the tests and how the fits ended."""

    def compute() -> Numbers:
        start = time.perf_counter()
        result = vicheck.vsbc(
            model,
            num_datasets=num_datasets,
            quantities=list(quantities),
            seed=SEED,
            store=run.store(key),
            progress=run.bar(key),
            **options,
        )
        seconds = time.perf_counter() - start
        table = result.tests
        khat = result.khat_summary
        return {
            "num_datasets": num_datasets,
            "seconds": seconds,
            "converged": float(result.converged.mean()),
            "status": {
                str(name): int(count)
                for name, count in zip(*np.unique(result.status, return_counts=True), strict=True)
            },
            "verdict": str(result.verdict),
            "khat": {"median": khat.median, "low": khat.low, "high": khat.high},
            "quantities": {
                name: {
                    "probabilities": result.probabilities.sel(quantity=name).to_numpy(),
                    **_mean(result.probabilities.sel(quantity=name).to_numpy()),
                    **{column: table.loc[name, column] for column in _COLUMNS},
                }
                for name in quantities
            },
        }

    numbers: Numbers = run.piece(key, compute)
    return numbers


def _mean(probabilities: Any) -> Numbers:
    finite = probabilities[np.isfinite(probabilities)]
    return {"mean": finite.mean(), "mean_error": finite.std(ddof=1) / np.sqrt(finite.size)}


def draw_rows(rows: Mapping[str, Numbers], titles: Mapping[str, str]) -> Figure:
    """Draw a row of histograms for each calibration, a column for each quantity."""
    figure, panels = new_figure(len(rows), len(titles))
    for line, (label, numbers) in zip(panels, rows.items(), strict=True):
        for axes, (name, title) in zip(line, titles.items(), strict=True):
            draw_probabilities(axes, numbers["quantities"][name]["probabilities"], title)
        line[0].set_ylabel(label)
    return figure


def describe(numbers: Numbers, name: str) -> str:
    """Describe a quantity: mean probability with its 95% interval, exact test of symmetry, bias."""
    row = numbers["quantities"][name]
    if row["mean"] is None or row["mean_error"] is None or row["p_value"] is None:
        return "too few fits to tell"
    error = 1.96 * row["mean_error"]
    low, high = row["mean"] - error, row["mean"] + error
    summary = f"mean {row['mean']:.3f} [{low:.3f}, {high:.3f}], symmetry p {_p(row['p_value'])}"
    if row["bias_low"] is None or row["bias_high"] is None:  # too few datasets for an interval
        return summary
    interval = f"[{row['bias_low']:+.2f}, {row['bias_high']:+.2f}]"
    return f"{summary}, bias {row['bias']:+.2f} sd {interval}"


def direction_of(numbers: Numbers, name: str) -> str:
    """Return "over", "under" or "none", by the test of one quantity at 5%, adjusted for all."""
    return str(numbers["quantities"][name]["direction"])


def describe_convergence(numbers: Numbers) -> str:
    """Describe how many fits there were and what share has converged."""
    return f"{numbers['num_datasets']} fits, {numbers['converged']:.1%} converged"


def _p(value: float) -> str:
    return f"{value:.2f}" if value >= 0.01 else (f"{value:.0e}" if value > 1e-12 else "< 1e-12")
