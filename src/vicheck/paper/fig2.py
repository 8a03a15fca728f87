"""Figure 2: what stopping early does to khat and to errors, in linear regression."""

from __future__ import annotations

import time
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

import vicheck
from vicheck.paper.drawing import COLORS, draw_quartiles, mark_threshold, new_figure
from vicheck.paper.exact import linear_means
from vicheck.paper.experiment import Claim, Experiment, Numbers, Outcome, Run
from vicheck.paper.fig1 import make_gram
from vicheck.paper.linear_statistics import linear_by_statistics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

_ROWS, _WIDTH, _DRAWS = 10_000, 100, 50_000
_TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5)
_WAYS = {"plain": ("vi", "o", "VI"), "is": ("is", "s", "IS"), "psis": ("psis", "^", "PSIS")}
_BANDS = ((-np.inf, 0.7), (0.7, 1.0), (1.0, 2.0), (2.0, np.inf))


def _make_model() -> tuple[vicheck.Model, np.ndarray]:
    """Return the model given one dataset, and the exact posterior means of beta and sigma."""
    rng = np.random.default_rng(2)
    gram = make_gram(_ROWS, _WIDTH)
    # The law of the statistics is all that simulating y would give.
    shift = np.linalg.solve(np.linalg.cholesky(gram).T, rng.normal(size=_WIDTH))
    estimate = rng.normal(size=_WIDTH) + 2.0 * shift
    statistics = np.append(estimate, 4.0 * rng.chisquare(_ROWS - _WIDTH))
    model = vicheck.from_numpyro(
        linear_by_statistics, gram, _ROWS, statistics, observed=("statistics",)
    )
    beta, sigma = linear_means(gram, _ROWS, statistics)
    return model, np.append(beta, sigma)


def _one(model: vicheck.Model, truth: np.ndarray, seed: int, options: dict[str, Any]) -> Numbers:
    fit = vicheck.fit(model, seed=seed, **options)
    checked = vicheck.check(fit, num_draws=_DRAWS, seed=seed)
    log_ratios = checked.log_ratios
    weights = {
        "plain": np.full(_DRAWS, 1 / _DRAWS),
        "is": np.exp(log_ratios - np.logaddexp.reduce(log_ratios)),
        "psis": np.exp(checked.psis.log_weights),
    }
    errors = {way: weight @ checked.values - truth for way, weight in weights.items()}
    return {
        "khat": checked.khat,
        "seconds": fit.seconds,
        "status": fit.status.name,
        "iterations": fit.solution.settings.get("iterations"),
        **{f"rmse_{way}": float(np.sqrt(np.mean(error**2))) for way, error in errors.items()},
    }


def _compute(run: Run) -> Numbers:
    model, truth = _make_model()
    options: dict[str, Any] = {"solver": "stan_advi", "eta": 0.05, "iter": 100_000}
    repeats = run.choose(100, 2)
    vicheck.fit(model, tol_rel_obj=0.5, **options)  # compiles, so that no time below holds that
    vicheck.fit(model)
    ways = {f"tolerance-{tolerance:g}": options | {"tol_rel_obj": tolerance}
            for tolerance in _TOLERANCES}  # fmt: skip
    runs = {
        name: [
            run.piece(f"{name}-repeat-{seed}", partial(_one, model, truth, seed, own))
            for seed in range(repeats)
        ]
        for name, own in (ways | {"deterministic": {}}).items()
    }
    return {
        "rows": [
            {"tolerance": tolerance, "runs": runs[name]}
            for tolerance, name in zip(_TOLERANCES, ways, strict=True)
        ],
        "deterministic": runs["deterministic"],
        "nuts": run.piece("nuts", partial(_time_nuts, model, truth, run.choose(1500, 100))),
    }


def _time_nuts(model: vicheck.Model, truth: np.ndarray, size: int) -> Numbers:
    vicheck.reference(model, num_draws=size, num_warmup=size, seed=1)
    start = time.perf_counter()
    draws = vicheck.reference(model, num_draws=size, num_warmup=size)
    seconds = time.perf_counter() - start
    means = draws.moments["mean"].to_numpy()
    return {
        "seconds": seconds,
        "draws": 4 * size,
        "rmse": float(np.sqrt(np.mean((means - truth) ** 2))),
        "max_rhat": draws.max_rhat,
        "min_ess": draws.min_ess,
    }


def _draw(numbers: Numbers) -> Figure:
    figure, panels = new_figure(1, 3)
    first, second, third = panels[0]
    x = [row["tolerance"] for row in numbers["rows"]]
    columns = {
        name: [[one[name] for one in row["runs"]] for row in numbers["rows"]]
        for name in ("khat", "seconds", "rmse_plain", "rmse_is", "rmse_psis")
    }
    draw_quartiles(first, x, columns["khat"], "vi", "Stan's ADVI", "o")
    khat = np.median([one["khat"] for one in numbers["deterministic"]])
    first.axhline(khat, color=COLORS["psis"], label="converged")
    mark_threshold(first)
    first.set_title("khat")
    ticks = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
    draw_quartiles(second, x, columns["seconds"], "vi", "Stan's ADVI", "o")
    second.axhline(numbers["nuts"]["seconds"], color=COLORS["truth"], linestyle=":", label="NUTS")
    second.axhline(
        np.median([one["seconds"] for one in numbers["deterministic"]]),
        color=COLORS["psis"], label="converged",
    )  # fmt: skip
    second.set_title("seconds, compiled")
    for way, (color, marker, label) in _WAYS.items():
        draw_quartiles(third, x, columns[f"rmse_{way}"], color, label, marker)
    third.set_title("RMSE of means")
    for axes in panels[0]:
        axes.set(xscale="log", yscale="log", xlabel="tol_rel_obj")
        axes.invert_xaxis()
        axes.yaxis.set_minor_formatter("")
        axes.legend()
    first.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    return figure


def _all_runs(numbers: Numbers) -> list[Numbers]:
    return [one for row in numbers["rows"] for one in row["runs"]] + numbers["deterministic"]


def _medians(numbers: Numbers) -> list[float]:
    return [float(np.median([one["khat"] for one in row["runs"]])) for row in numbers["rows"]]


def _quartiles(runs: list[Numbers], name: str) -> str:
    low, middle, high = np.quantile([one[name] for one in runs], [0.25, 0.5, 0.75])
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def _caption(numbers: Numbers) -> str:
    rows = ", ".join(
        f"{row['tolerance']:g}: {_quartiles(row['runs'], 'khat')}" for row in numbers["rows"]
    )
    return (
        f"khat by tol_rel_obj, median and quartiles of {len(numbers['rows'][0]['runs'])} runs on "
        "one "
        f"dataset: {rows}; converged: {_quartiles(numbers['deterministic'], 'khat')}. "
        f"NUTS took {numbers['nuts']['seconds']:.1f} s for {numbers['nuts']['draws']} draws. "
        "All fits use the sufficient statistics, so times compare with each other, "
        "not with the paper's."
    )


def _claims(numbers: Numbers) -> list[Claim]:
    medians = _medians(numbers)
    falls = all(after < before for before, after in pairwise(medians))
    tight = numbers["rows"][-1]["runs"]
    loose = numbers["rows"][0]["runs"]
    counts = []
    for low, high in _BANDS:
        runs = [one for one in _all_runs(numbers) if low <= one["khat"] < high]
        better = sum(one["rmse_psis"] < one["rmse_plain"] for one in runs)
        counts.append((f"khat in [{low:g}, {high:g})", better, len(runs)))
    told = "; ".join(f"{name}: {better} of {total}" for name, better, total in counts if total)
    always = all(better == total for _, better, total in counts)
    below = counts[0][1] >= 0.95 * counts[0][2]
    return [
        Claim(
            "Section 4.1",
            "khat is 0.61 with a conservative tolerance",
            "0.61",
            f"tolerance {numbers['rows'][-1]['tolerance']:g}: {_quartiles(tight, 'khat')}; "
            f"converged: {_quartiles(numbers['deterministic'], 'khat')}",
            Outcome.HOLDS if abs(medians[-1] - 0.61) < 0.1
            else Outcome.IN_PART if medians[-1] < 0.7 else Outcome.FAILS,
            "Below 0.7, as claimed, but smaller: 0.61 comes with the old tail rule (the largest "
            "20%, "
            "no prior on k) and a fit that has not arrived.",
            stan=".20 at 1e-5, .37 at 1e-4; .61 with the old rule and eta .09",
        ),
        Claim(
            "Section 4.1",
            "khat is 4.4 with the default tolerance 0.01",
            "4.4",
            f"{_quartiles(loose, 'khat')}",
            Outcome.HOLDS if abs(medians[0] - 4.4) < 0.5
            else Outcome.IN_PART if medians[0] > 0.7 else Outcome.FAILS,
            "Far above 0.7, as claimed; the number depends on the step size and the tail rule.",
            stan="6.96 at eta .05; 4.4 with the old rule and eta .09",
        ),
        Claim(
            "Figure 2",
            "khat falls as the tolerance is tightened: it is a test of convergence",
            "falling",
            ", ".join(f"{median:.2f}" for median in medians) + " for 1e-2 to 1e-5 (medians)",
            Outcome.HOLDS if falls else Outcome.FAILS,
            "So does the test of the gradient, which also tells a family that cannot fit from "
            "an optimiser that has not arrived.",
            stan="6.96, .85, .37, .20",
        ),
        Claim(
            "Figure 2",
            "PSIS always shrinks the estimation error",
            "always",
            f"smaller error than plain VI, {told}",
            Outcome.HOLDS if always else Outcome.IN_PART if below else Outcome.FAILS,
            "True where khat is below 0.7; above it the smoothed weights rest on a few draws, and "
            "the adjusted means are worse than plain ones.",
            stan="closer in 80 of 80 below .7; worse in 3 of 18 (.7 to 1), 9 of 10 (1 to 2), 42 of "
            "44 (above 2)",
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "fig2", "Stopping early, in linear regression", _compute, _draw, _caption, _claims
)
