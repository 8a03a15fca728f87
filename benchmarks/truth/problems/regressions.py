"""Regressions: conjugate with closed forms, others by quadrature or importance sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy import special

import vicheck
from truth.exact import by_importance_sampling, by_quadrature
from truth.problem import Moments, Problem, Truth
from vicheck.model import Model

KIND = "regression"


def problems() -> Iterator[Problem]:
    for dim in (3, 20, 100):
        yield linear(dim)
    yield logistic(2, 20, by_quadrature_in=[(-20.0, 20.0)] * 2)
    yield logistic(10, 200)
    yield logistic(20, 300)
    yield poisson(2, 15, by_quadrature_in=[(-6.0, 6.0)] * 2)
    yield poisson(10, 100)
    yield separable()


def covariates(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Return an intercept, and covariates that correlate by 0.7."""
    common = rng.standard_normal((rows, 1))
    mixed = np.sqrt(0.7) * common + np.sqrt(0.3) * rng.standard_normal((rows, columns - 1))
    return np.column_stack([np.ones(rows), mixed])


def conjugate(x: Any, y: Any = None) -> None:
    """Draw the variance from InvGamma(2, 2), and coefficients in units of the noise."""
    variance = numpyro.sample("variance", dist.InverseGamma(2.0, 2.0))
    scale = jnp.sqrt(variance)
    beta = numpyro.sample("beta", dist.Normal(0.0, 3.0 * scale).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Normal(x @ beta, scale), obs=y)


def linear(dim: int) -> Problem:
    rng = np.random.default_rng(dim)
    rows = 4 * dim
    x = covariates(rng, rows, dim)
    y = x @ rng.normal(size=dim) + rng.normal(size=rows)
    reported = ["variance", *(f"beta[{i}]" for i in range(min(dim, 8)))]

    def truth() -> Truth:
        prior = np.eye(dim) / 9.0
        covariance = np.linalg.inv(x.T @ x + prior)
        mean = covariance @ x.T @ y
        shape = 2.0 + rows / 2
        rate = 2.0 + 0.5 * (y @ y - mean @ (x.T @ x + prior) @ mean)
        sd = np.sqrt(rate / (shape - 1) * np.diag(covariance))
        log_evidence = (
            0.5 * (np.linalg.slogdet(prior)[1] + np.linalg.slogdet(covariance)[1])
            - rows / 2 * np.log(2 * np.pi)
            + 2.0 * np.log(2.0)
            - shape * np.log(rate)
            + special.gammaln(shape)
            - special.gammaln(2.0)
        )
        moments = {f"beta[{i}]": Moments(float(mean[i]), float(sd[i])) for i in range(dim)}
        moments["variance"] = Moments(rate / (shape - 1), rate / (shape - 1) / np.sqrt(shape - 2))
        return Truth({k: moments[k] for k in reported}, "closed form", float(log_evidence))

    make = lambda: vicheck.from_numpyro(conjugate, x, y=y)  # noqa: E731
    name = f"linear regression, {dim} coefficients"
    return Problem(name, KIND, truth, make, quantities=tuple(reported))


def logit(x: Any, y: Any = None) -> None:
    beta = numpyro.sample("beta", dist.Normal(0.0, 2.5).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ beta), obs=y)


def counts(x: Any, y: Any = None) -> None:
    beta = numpyro.sample("beta", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Poisson(jnp.exp(x @ beta)), obs=y)


def _regression(
    name: str, make: Callable[[], Model], box: list[tuple[float, float]] | None
) -> Problem:
    def truth() -> Truth:
        return by_quadrature(make(), box, 601) if box else by_importance_sampling(make())

    return Problem(name, KIND, truth, make)


def logistic(
    dim: int, rows: int, by_quadrature_in: list[tuple[float, float]] | None = None
) -> Problem:
    rng = np.random.default_rng(100 + dim)
    x = covariates(rng, rows, dim)
    y = (rng.random(rows) < special.expit(x @ rng.normal(size=dim))).astype(int)
    name = f"logistic regression, {dim} coefficients, {rows} rows"
    return _regression(name, lambda: vicheck.from_numpyro(logit, x, y=y), by_quadrature_in)


def poisson(
    dim: int, rows: int, by_quadrature_in: list[tuple[float, float]] | None = None
) -> Problem:
    rng = np.random.default_rng(200 + dim)
    x = covariates(rng, rows, dim)
    y = rng.poisson(np.exp(x @ (0.5 * rng.normal(size=dim) / np.sqrt(dim))))
    name = f"Poisson regression, {dim} coefficients, {rows} rows"
    return _regression(name, lambda: vicheck.from_numpyro(counts, x, y=y), by_quadrature_in)


def separable() -> Problem:
    """Return a logistic regression whose classes can be separated: the prior alone holds it."""
    x = np.column_stack([np.ones(8), np.arange(8.0) - 3.5])
    y = (x[:, 1] > 0).astype(int)
    make = lambda: vicheck.from_numpyro(logit, x, y=y)  # noqa: E731
    return _regression("logistic regression, separable", make, [(-20.0, 20.0)] * 2)
