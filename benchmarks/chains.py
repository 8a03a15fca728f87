"""What short chains cost beside a check without them, and what they say.

    python benchmarks/chains.py [--data DIRECTORY]

DIRECTORY holds leukemia.npz, for the horseshoe of the paper's section 4.4; without it that row is
left out. Times are wall times of second calls, in which nothing is compiled.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import vicheck
from vicheck.paper import models


def regression(num_rows=1000, dim=100):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, dim))
    y = x @ rng.normal(scale=0.3, size=dim) + rng.normal(size=num_rows)
    return vicheck.from_numpyro(models.linear, X=x, y=y)


def schools(function):
    return vicheck.from_numpyro(function, **models.EIGHT_SCHOOLS)


def horseshoe(path):
    arrays = np.load(path)
    return vicheck.from_numpyro(
        models.horseshoe_logistic, X=arrays["X"].astype(float), y=arrays["y"]
    )


def seconds_of(fit, repeats, **options):
    """Return the least time of some calls after a first, and what the last one found."""
    vicheck.check(fit, **options)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        checked = vicheck.check(fit, **options)
        times.append(time.perf_counter() - start)
    return min(times), checked


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    data = parser.parse_args().data
    problems = {
        "eight schools, centred": (schools(models.eight_schools_centred), {}, {}),
        "eight schools, non-centred": (schools(models.eight_schools_noncentred), {}, {}),
        "100 regressors, mean field": (regression(), {}, {}),
        "100 regressors, full rank": (regression(), {"family": "full_rank"}, {}),
    }
    if data is not None:
        model = horseshoe(data / "leukemia.npz")
        options = {"num_draws": 10_000, "quantities": ["tau", "c2", "beta0"], "chains": True}
        problems["horseshoe, 14,261 parameters"] = (model, {}, options)
    print("| problem | check alone, s | with chains, s | chains | steps | says |")
    print("|---|---:|---:|---:|---:|---|")
    for name, (model, of_fit, of_check) in problems.items():
        fit = vicheck.fit(model, **of_fit)
        repeats = 1 if "horseshoe" in name else 5
        alone, _ = seconds_of(fit, repeats, **(of_check | {"chains": False}))
        both, checked = seconds_of(fit, repeats, **of_check)
        found = checked.chains
        (says,) = [each for each in checked.findings if each.code.startswith("chains")]
        print(
            f"| {name} | {alone:.2f} | {both:.2f} | {found.num_chains} | {found.num_steps} | "
            f"`{says.code}`: {says.sentence} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
