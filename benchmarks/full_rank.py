"""Do fits with correlations converge on ordinary models with 17 to 200 parameters? A table.

``python benchmarks/full_rank.py [family] [seeds]`` prints the table of ``docs/fit.md``. Times are
those of the processor, of a first fit with compiling and of a later one; the ELBO on the solver's
own draws is held against one on fresh draws, in nats.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import vicheck
from vicheck.model import Model

NUM_DRAWS = 20_000


def logistic(x, y=None):
    beta = numpyro.sample("beta", dist.Normal(0.0, 2.5).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ beta), obs=y)


def linear(x, y=None):
    beta = numpyro.sample("beta", dist.Normal(0.0, 10.0).expand([x.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(5.0))
    numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def poisson(x, y=None):
    beta = numpyro.sample("beta", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Poisson(jnp.exp(x @ beta)), obs=y)


def hierarchical(group, num_groups, y=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfNormal(2.0))
    theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([num_groups]).to_event(1))
    numpyro.sample("y", dist.Normal(theta[group], 1.0), obs=y)


def radon(county, num_counties, floor, y=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    offset = numpyro.sample("offset", dist.Normal(0.0, 1.0).expand([num_counties]).to_event(1))
    numpyro.sample("y", dist.Normal(mu + tau * offset[county] + slope * floor, sigma), obs=y)


def logistic_of(rng: np.random.Generator, dim: int) -> Model:
    x = correlated(rng, 20 * dim, dim)
    chance = 1.0 / (1.0 + np.exp(-x @ rng.normal(0.0, 0.5, dim)))
    return vicheck.from_numpyro(logistic, x, y=(rng.random(len(x)) < chance).astype(int))


def poisson_of(rng: np.random.Generator, dim: int) -> Model:
    x = correlated(rng, 10 * dim, dim)
    rate = np.exp(x @ rng.normal(0.0, 0.5 / np.sqrt(dim), dim))
    return vicheck.from_numpyro(poisson, x, y=rng.poisson(rate))


def linear_of(rng: np.random.Generator, dim: int) -> Model:
    x = correlated(rng, 5 * dim, dim - 1)
    y = x @ rng.standard_normal(dim - 1) + rng.standard_normal(len(x))
    return vicheck.from_numpyro(linear, x, y=y)


def hierarchical_of(rng: np.random.Generator, dim: int) -> Model:
    group = np.repeat(np.arange(dim - 2), 10)
    y = rng.normal(1.0, 1.0, dim - 2)[group] + rng.standard_normal(len(group))
    return vicheck.from_numpyro(hierarchical, group, dim - 2, y=y)


def radon_of(rng: np.random.Generator, dim: int) -> Model:
    county = rng.integers(0, dim - 4, 20 * (dim - 4))
    floor = rng.integers(0, 2, len(county)).astype(float)
    y = rng.normal(1.5, 0.3, dim - 4)[county] - 0.6 * floor + 0.8 * rng.standard_normal(len(county))
    return vicheck.from_numpyro(radon, county, dim - 4, floor, y=y)


def correlated(rng: np.random.Generator, num_rows: int, num_columns: int) -> np.ndarray:
    """Return covariates that correlate by 0.7."""
    common = rng.standard_normal((num_rows, 1))
    return np.sqrt(0.7) * common + np.sqrt(0.3) * rng.standard_normal((num_rows, num_columns))


PROBLEMS: list[tuple[str, Callable[[np.random.Generator, int], Model], tuple[int, ...]]] = [
    ("logistic regression", logistic_of, (20, 30, 60)),
    ("Poisson regression", poisson_of, (20, 60)),
    ("hierarchical normal", hierarchical_of, (18, 26, 42)),
    ("radon-like", radon_of, (45,)),
    ("linear regression", linear_of, (17, 21, 41, 101, 200)),
]


def main(family: str, num_seeds: int) -> None:
    print("| model | parameters | converged | khat | draws | ELBO too high | first, s | later, s |")
    print("|---|---|---|---|---|---|---|---|")
    for name, make, dimensions in PROBLEMS:
        for dim in dimensions:
            model = make(np.random.default_rng(dim), dim)
            print(f"| {name} | {dim} | {measured(model, family, num_seeds)} |", flush=True)


def measured(model: Model, family: str, num_seeds: int) -> str:
    seconds, khats, excess, converged, draws = [], [], [], 0, 0
    for seed in range(num_seeds):
        start = time.process_time()
        fit = vicheck.fit(model, family=family, seed=seed)
        seconds.append(time.process_time() - start)
        checked = vicheck.check(fit, num_draws=NUM_DRAWS)
        khats.append(checked.khat)
        excess.append(fit.elbo - checked.divergences.elbo.value)
        converged += fit.converged
        draws = max(draws, fit.solution.num_draws)
    khat = f"{min(khats):.2f} to {max(khats):.2f}"
    later = f"{np.median(seconds[1:]):.2f}" if num_seeds > 1 else ""
    high = f"{np.mean(excess):.3f}"
    return f"{converged} of {num_seeds} | {khat} | {draws} | {high} | {seconds[0]:.1f} | {later}"


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] if arguments else "full_rank", int(arguments[1]) if arguments[1:] else 5)
