"""Four problems for timing variational fits, each written for NumPyro, PyMC and Stan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.flatten_util import ravel_pytree
from numpyro.infer.util import initialize_model, potential_energy

from vicheck.paper.models import (
    EIGHT_SCHOOLS,
    eight_schools_centred,
    eight_schools_noncentred,
    linear,
)

__all__ = ["Problem", "elbo", "log_ratios", "problems", "prototype", "summarise"]

POSITIVE = frozenset({"sigma", "tau"})
"""Latent sites whose unconstrained coordinate is the logarithm, in every library."""

CHUNK = 1000


@dataclass(frozen=True, eq=False)
class Problem:
    """One posterior density in three languages, with log tau and log sigma as coordinates."""

    name: str
    model: Callable[..., None]
    arguments: dict[str, Any]
    stan_code: str
    pymc_model: Callable[[], Any]


@cache
def problems() -> dict[str, Problem]:
    """Return the four problems; repeated calls return the same objects."""
    logistic_data, linear_data = simulate_logistic(), simulate_linear()
    schools = dict(EIGHT_SCHOOLS)
    listed = [
        Problem(
            "eight_schools_centred",
            eight_schools_centred,
            schools,
            STAN_CENTRED,
            lambda: pymc_eight_schools(schools, centred=True),
        ),
        Problem(
            "eight_schools_noncentred",
            eight_schools_noncentred,
            schools,
            STAN_NONCENTRED,
            lambda: pymc_eight_schools(schools, centred=False),
        ),
        Problem(
            "logistic",
            logistic_normal_prior,
            logistic_data,
            STAN_LOGISTIC,
            lambda: pymc_logistic(logistic_data),
        ),
        Problem("linear", linear, linear_data, STAN_LINEAR, lambda: pymc_linear(linear_data)),
    ]
    return {problem.name: problem for problem in listed}


def simulate_logistic(n: int = 1000, d: int = 20, seed: int = 20180) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    X, beta = rng.normal(size=(n, d)), 0.5 * rng.normal(size=d)
    return {"X": X, "y": rng.binomial(1, 1 / (1 + np.exp(-X @ beta)))}


def simulate_linear(n: int = 10_000, d: int = 100, seed: int = 20181) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    X, beta = rng.normal(size=(n, d)), rng.normal(size=d)
    return {"X": X, "y": X @ beta + 2.0 * rng.normal(size=n)}


def logistic_normal_prior(X: Any, y: Any = None) -> None:
    """Logistic regression with standard normal coefficients and no intercept."""
    beta = numpyro.sample("beta", dist.Normal(0.0, 1.0).expand([X.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=X @ beta), obs=y)


def prototype(problem: Problem) -> dict[str, Any]:
    """Return a dictionary of zeros, one array per latent site, in the current JAX precision."""
    info = initialize_model(jax.random.key(0), problem.model, model_kwargs=problem.arguments)
    return jax.tree.map(jnp.zeros_like, info.param_info.z)


def log_ratios(
    problem: Problem, loc: Any, scale: Any, num_draws: int = 100_000, seed: int = 0
) -> np.ndarray:
    """Return log p(y, z) - log q(z) at draws from N(loc, diag(scale^2)), in float64.

    ``loc`` and ``scale`` are vectors in the order of `jax.flatten_util.ravel_pytree` on NumPyro's
    unconstrained latent sites, that is by name of the site. All constants are kept.
    """
    loc, scale = np.asarray(loc, np.float64), np.asarray(scale, np.float64)
    rng = np.random.default_rng(seed)
    parts = []
    with jax.enable_x64(True):
        log_density = flat_log_density(problem)
        arguments = jax.tree.map(jnp.asarray, problem.arguments)
        for start in range(0, num_draws, CHUNK):
            noise = rng.standard_normal((min(CHUNK, num_draws - start), loc.size))
            log_q = -0.5 * (noise**2 + np.log(2 * np.pi)).sum(1) - np.log(scale).sum()
            parts.append(np.asarray(log_density(loc + scale * noise, arguments)) - log_q)
    return np.concatenate(parts)


def elbo(
    problem: Problem, loc: Any, scale: Any, num_draws: int = 100_000, seed: int = 0
) -> tuple[float, float]:
    """Return the ELBO of a mean-field Gaussian and its Monte Carlo standard error."""
    return summarise(log_ratios(problem, loc, scale, num_draws, seed))


def summarise(ratios: np.ndarray) -> tuple[float, float]:
    """Return the mean of log ratios and its standard error."""
    return float(ratios.mean()), float(ratios.std(ddof=1) / np.sqrt(ratios.size))


@cache
def flat_log_density(problem: Problem) -> Callable[..., Any]:
    """Return the compiled log density of a batch of flat positions; call under x64 only."""
    _, unravel = ravel_pytree(prototype(problem))

    def one(position: Any, arguments: dict[str, Any]) -> Any:
        return -potential_energy(problem.model, (), arguments, unravel(position))

    return jax.jit(jax.vmap(one, in_axes=(0, None)))


def pymc_eight_schools(data: dict[str, Any], centred: bool) -> Any:
    import pymc as pm

    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 5.0)
        tau = pm.HalfCauchy("tau", 5.0)
        if centred:
            theta = pm.Normal("theta", mu, tau, shape=len(data["y"]))
        else:
            theta = mu + tau * pm.Normal("theta_raw", 0.0, 1.0, shape=len(data["y"]))
        pm.Normal("y", theta, data["sigma"], observed=data["y"])
    return model


def pymc_logistic(data: dict[str, Any]) -> Any:
    import pymc as pm

    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=data["X"].shape[1])
        pm.Bernoulli("y", logit_p=data["X"] @ beta, observed=data["y"])
    return model


def pymc_linear(data: dict[str, Any]) -> Any:
    import pymc as pm

    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=data["X"].shape[1])
        sigma = pm.Gamma("sigma", alpha=0.5, beta=0.5)
        pm.Normal("y", data["X"] @ beta, sigma, observed=data["y"])
    return model


STAN_CENTRED = """
data { vector[8] y; vector<lower=0>[8] sigma; }
parameters { real mu; real<lower=0> tau; vector[8] theta; }
model {
  mu ~ normal(0, 5);
  tau ~ cauchy(0, 5);
  theta ~ normal(mu, tau);
  y ~ normal(theta, sigma);
}
"""

STAN_NONCENTRED = """
data { vector[8] y; vector<lower=0>[8] sigma; }
parameters { real mu; real<lower=0> tau; vector[8] theta_raw; }
model {
  mu ~ normal(0, 5);
  tau ~ cauchy(0, 5);
  theta_raw ~ normal(0, 1);
  y ~ normal(mu + tau * theta_raw, sigma);
}
"""

STAN_LOGISTIC = """
data { int n; int d; matrix[n, d] X; int<lower=0, upper=1> y[n]; }
parameters { vector[d] beta; }
model {
  beta ~ normal(0, 1);
  y ~ bernoulli_logit(X * beta);
}
"""

STAN_LINEAR = """
data { int n; int d; matrix[n, d] X; vector[n] y; }
parameters { vector[d] beta; real<lower=0> sigma; }
model {
  beta ~ normal(0, 1);
  sigma ~ gamma(0.5, 0.5);
  y ~ normal(X * beta, sigma);
}
"""
