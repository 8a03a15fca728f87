"""Normal posteriors of 2 to 1000 dimensions, independent and correlated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

import vicheck
from truth.problem import SEEDS, Moments, Problem, Truth

DIMENSIONS = (2, 10, 50, 200, 1000)
CORRELATIONS = (0.0, 0.5, 0.9)
MOST_REPORTED = 8
FEWER_DRAWS = 20_000
"""In hundreds of dimensions: 100,000 would take most of the time of a run."""


def problems() -> Iterator[Problem]:
    for dim in DIMENSIONS:
        for correlation in CORRELATIONS:
            kind = f"correlation {correlation}" if correlation else "independent"
            yield _problem(f"normal, {dim} dimensions, {kind}", dim, correlation)
    # A constant in the density takes digits from the ratios, and changes nothing else.
    for offset in ("-1e6", "-1e13"):
        yield _problem(f"normal, 2 dimensions, offset {offset}", 2, 0.0, float(offset))


def log_density(x: Any, data: Any) -> Any:
    """Return the log density of a normal whose coordinates have one common correlation.

    The precision of (1 - r) I + r 11' is that of a multiple of I less a multiple of 11'.
    """
    scaled = (x - data["mean"]) / data["sd"]
    quadratic = data["own"] * jnp.sum(scaled**2) - data["common"] * jnp.sum(scaled) ** 2
    return data["constant"] - 0.5 * quadratic


def _problem(name: str, dim: int, correlation: float, offset: float = 0.0) -> Problem:
    rng = np.random.default_rng(dim)
    mean, sd = 3.0 * rng.normal(size=dim), np.exp(rng.uniform(-1.5, 1.5, dim))
    log_determinant = (dim - 1) * np.log1p(-correlation) + np.log1p((dim - 1) * correlation)
    data = {
        "mean": mean,
        "sd": sd,
        "own": np.array(1.0 / (1.0 - correlation)),
        "common": np.array(
            correlation / ((1.0 - correlation) * (1.0 + (dim - 1) * correlation)),
        ),
        "constant": np.array(
            offset
            - 0.5 * (dim * np.log(2.0 * np.pi) + log_determinant)
            - np.log(sd).sum(dtype=float)
        ),
    }
    places = np.unique(np.linspace(0, dim - 1, MOST_REPORTED).astype(int))

    def truth() -> Truth:
        moments = {f"x[{i}]": Moments(mean[i], sd[i]) for i in places}
        moments["total"] = Moments(
            mean.sum(),
            float(np.sqrt((1.0 - correlation) * (sd**2).sum() + correlation * sd.sum() ** 2)),
        )
        return Truth(moments, "closed form", log_evidence=offset)

    quantities = {f"x[{i}]": (lambda theta, i=i: theta["x"][i]) for i in map(int, places)}
    return Problem(
        name,
        "normal",
        truth,
        lambda: vicheck.from_log_density(log_density, jnp.zeros(dim), data=data),
        quantities=quantities | {"total": lambda theta: theta["x"].sum()},
        num_draws=FEWER_DRAWS if dim >= 200 else None,
        seeds={"deterministic": 1, "stan_advi": 1} if dim >= 200 else SEEDS,
        # Half a million parameters are too many for plain gradient steps.
        without=frozenset({("full_rank", "stan_advi")}) if dim >= 1000 else frozenset(),
    )
