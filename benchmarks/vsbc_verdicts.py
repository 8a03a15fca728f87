"""How often the verdict of a calibration is right, by simulation of probabilities of known law.

Run by ``make vsbc-verdicts``. The posterior is N(0, 1) in every dataset unless the case says
otherwise, so the law of the calibration probabilities is known, and with it what the verdict ought
to be. Where there are several quantities, the first is that of the case and the others are right.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import ndtr

from vicheck.calibration.tables import tests_table
from vicheck.judging import judge_calibration
from vicheck.results.status import FitStatus

ROOT = Path(__file__).parents[1]
LEVELS = ("good", "usable", "unreliable")
RUNS = {100: 100, 1000: 100, 10_000: 20}
"""Runs of each case, by the number of datasets."""
QUANTITIES = (1, 10)

Rng = np.random.Generator
Draw = Callable[[Rng, int], np.ndarray]


def main() -> None:
    rows = [
        {"case": name, "should_be": should_be, "datasets": num, "quantities": quantities}
        | shares(draw, num, quantities)
        for name, (draw, should_be) in CASES.items()
        for num in RUNS
        for quantities in QUANTITIES
    ]
    (ROOT / "benchmarks" / "vsbc_verdicts.json").write_text(
        json.dumps({"verdicts": rows}, indent=1) + "\n"
    )
    (ROOT / "docs" / "vsbc-verdicts.md").write_text(as_markdown(rows))
    print(as_markdown(rows))


def shares(draw: Draw, num_datasets: int, num_quantities: int) -> dict[str, float]:
    """Return the share of each level over the runs."""
    runs = RUNS[num_datasets]
    names = [f"x[{i}]" for i in range(num_quantities)]
    counts: Counter[str] = Counter()
    for run in range(runs):
        rng = np.random.default_rng([20261118, run, num_datasets, num_quantities])
        p = rng.random((num_datasets, num_quantities))
        p[:, 0] = draw(rng, num_datasets)
        converged = {FitStatus.CONVERGED: num_datasets}
        counts[judge_calibration(tests_table(p, names), converged, num_datasets).level] += 1
    return {level: counts[level] / runs for level in LEVELS}


def stretched(narrow: float) -> Draw:
    return lambda rng, num: ndtr(narrow * rng.normal(size=num))


def shifted(shift: float) -> Draw:
    return lambda rng, num: ndtr(rng.normal(size=num) - shift)


def narrow_in_some(share: float) -> Draw:
    def draw(rng: Rng, num: int) -> np.ndarray:
        return ndtr(np.where(rng.random(num) < share, 50.0, 1.0) * rng.normal(size=num))

    return draw


def lost_in_some(share: float) -> Draw:
    def draw(rng: Rng, num: int) -> np.ndarray:
        side = rng.integers(2, size=num).astype(float)
        return np.where(rng.random(num) < share, side, ndtr(rng.normal(size=num) / 1.15))

    return draw


def with_mean_and_sd_of_a_gamma(shape: float) -> Draw:
    return lambda rng, num: ndtr((rng.gamma(shape, size=num) - shape) / np.sqrt(shape))


CASES: dict[str, tuple[Draw, str]] = {
    "exact": (lambda rng, num: rng.random(num), "good"),
    "1.03 times too narrow": (stretched(1.03), "good"),
    "1.05 times too narrow": (stretched(1.05), "good"),
    "1.05 times too wide": (stretched(1 / 1.05), "good"),
    "1.1 times too narrow": (stretched(1.1), "usable"),
    "1.2 times too narrow": (stretched(1.2), "usable"),
    "1.2 times too wide": (stretched(1 / 1.2), "usable"),
    "1.5 times too narrow": (stretched(1.5), "usable"),
    "50 times too narrow in 5% of the datasets": (narrow_in_some(0.05), "usable"),
    "50 times too narrow in 10%": (narrow_in_some(0.1), "usable"),
    "15% miss completely, the rest 1.15 times too wide": (lost_in_some(0.15), "usable"),
    "mean and sd of a Gamma(100) posterior": (with_mean_and_sd_of_a_gamma(100.0), "good"),
    "mean and sd of a Gamma(4) posterior": (with_mean_and_sd_of_a_gamma(4.0), "usable"),
    "mean and sd of a Gamma(5) posterior": (with_mean_and_sd_of_a_gamma(5.0), "usable"),
    "shifted by 0.05 sds": (shifted(0.05), "good"),
    "shifted by 0.1 sds": (shifted(0.1), "good or usable"),
    "shifted by 0.2 sds": (shifted(0.2), "unreliable"),
    "shifted by 0.3 sds": (shifted(0.3), "unreliable"),
    "shifted by 0.5 sds": (shifted(0.5), "unreliable"),
}
"""How q is wrong for the first quantity, and what the verdict ought to be, on enough datasets."""


def as_markdown(rows: list[dict[str, float]]) -> str:
    runs = ", ".join(f"{count} with {num} datasets" for num, count in RUNS.items())
    lines = [
        "# How often the verdict of VSBC is right",
        "",
        "Written by `make vsbc-verdicts` (`benchmarks/vsbc_verdicts.py`); do not edit. The",
        "calibration probabilities are simulated, so that the truth is known: q is wrong for the",
        "first quantity in the way that the row says, and exact for all others. Runs of each row:",
        f"{runs}. Rows with the same numbers of datasets and quantities share their random",
        "numbers.",
        "",
        "*ought to be* is the verdict on infinitely many datasets. It is good where the error is",
        "small enough to make no difference (a factor of 1.05 between sds, a shift of less than",
        "0.1 sds; see [the statistics](statistics.md#what-the-level-is)). A share of *good* where",
        "the verdict ought to be another is a false assurance, which cannot be avoided with few",
        "datasets: a good verdict says how large an error they would have shown. A share of",
        "anything else where the verdict ought to be good is a false alarm.",
        "",
        "| q is | ought to be | datasets | quantities | good | usable | unreliable |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['case']} | {row['should_be']} | {row['datasets']} | {row['quantities']} | "
        + " | ".join(f"{row[level]:.1%}" for level in LEVELS)
        + " |"
        for row in rows
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
