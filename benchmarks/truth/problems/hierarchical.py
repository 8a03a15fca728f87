"""Models with no exact answer: their moments are those of long runs of NUTS, stored beside.

``python -m truth.references`` makes ``references.json`` again. Of 40,000 transitions of the
horseshoe 91 diverged; with larger steps 246 did, and no mean moved by more than 0.014 sds, no sd by
more than 1.1%.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import vicheck
from truth.problem import Moments, Problem, Truth
from vicheck.model import Model

KIND = "model by NUTS"
REFERENCES = Path(__file__).parents[1] / "references.json"


def problems() -> Iterator[Problem]:
    yield _problem(
        "hierarchical logistic regression",
        hierarchical_logistic,
        ("mu", "tau", *(f"theta[{i}]" for i in range(8))),
    )
    yield _problem(
        "correlations with an LKJ prior",
        correlations,
        ("sd[0]", "sd[1]", "sd[2]", "correlation[0]", "correlation[1]", "correlation[2]"),
    )
    yield _problem(
        "horseshoe regression, 10 coefficients",
        horseshoe,
        tuple(f"beta[{i}]" for i in range(10)),
    )


def _problem(name: str, make: Callable[[], Model], quantities: tuple[str, ...]) -> Problem:
    def truth() -> Truth:
        stored = json.loads(REFERENCES.read_text(encoding="utf-8"))[name]
        moments = {each: Moments(*stored["moments"][each]) for each in quantities}
        return Truth(moments, "long NUTS", num_draws=stored["least_ess"])

    return Problem(name, KIND, truth, make, quantities=quantities)


def groups(trials: Any, y: Any = None) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 1.5))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    raw = numpyro.sample("raw", dist.Normal(0, 1).expand([len(trials)]).to_event(1))
    theta = numpyro.deterministic("theta", mu + tau * raw)
    numpyro.sample("y", dist.Binomial(trials, logits=theta), obs=y)


def hierarchical_logistic() -> Model:
    trials = np.array([12, 5, 30, 8, 20, 3, 15, 10])
    return vicheck.from_numpyro(groups, trials, y=np.array([9, 2, 24, 7, 11, 3, 13, 4]))


def covariance(rows: Any, y: Any = None) -> None:
    sd = numpyro.sample("sd", dist.HalfNormal(2).expand([3]).to_event(1))
    root = numpyro.sample("root", dist.LKJCholesky(3, 2.0))
    matrix = root @ root.T
    numpyro.deterministic("correlation", jnp.stack([matrix[0, 1], matrix[0, 2], matrix[1, 2]]))
    normal = dist.MultivariateNormal(jnp.zeros(3), scale_tril=sd[:, None] * root)
    numpyro.sample("y", normal.expand([len(rows)]), obs=y)


def correlations() -> Model:
    rng = np.random.default_rng(33)
    y = rng.multivariate_normal(
        np.zeros(3), [[1.0, 0.7, 0.2], [0.7, 1.0, -0.1], [0.2, -0.1, 1.0]], 15
    )
    return vicheck.from_numpyro(covariance, np.arange(15), y=y)


def shrunken(x: Any, y: Any = None) -> None:
    size = x.shape[1]
    tau = numpyro.sample("tau", dist.HalfCauchy(0.3))
    local = numpyro.sample("local", dist.HalfCauchy(1).expand([size]).to_event(1))
    raw = numpyro.sample("raw", dist.Normal(0, 1).expand([size]).to_event(1))
    beta = numpyro.deterministic("beta", tau * local * raw)
    numpyro.sample("y", dist.Normal(x @ beta, 1.0), obs=y)


def horseshoe() -> Model:
    rng = np.random.default_rng(10)
    x = rng.standard_normal((30, 10))
    beta = np.array([2.0, -1.0, 0.5, *np.zeros(7)])
    return vicheck.from_numpyro(shrunken, x, y=x @ beta + rng.standard_normal(30))
