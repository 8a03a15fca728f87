"""Small models of the kinds people fit, with truths in closed form or by quadrature."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy import special, stats

import vicheck
from truth.exact import by_quadrature
from truth.problem import Moments, Problem, Truth
from vicheck.model import Model
from vicheck.paper import models
from vicheck.paper.exact import eight_schools

KIND = "model"


def problems() -> Iterator[Problem]:
    yield schools("centred")
    yield schools("noncentred")
    yield changepoint()
    yield categories(6, 40)
    yield categories(18, 12)
    yield autoregression()
    yield gaussian_process()
    yield ordinal()
    yield censored()
    yield zero_inflated()
    yield normal_with_unknown_scale()
    yield local_level()


def schools(parametrization: str) -> Problem:
    function = getattr(models, f"eight_schools_{parametrization}")
    y, sigma = (models.EIGHT_SCHOOLS[name] for name in ("y", "sigma"))

    def truth() -> Truth:
        known = eight_schools(y, sigma, 5.0, lambda tau: stats.halfcauchy.logpdf(tau, scale=5.0))
        names = ["mu", "tau", *(f"theta[{i}]" for i in range(8))]
        moments = {name: Moments(known.mean(name), known.sd(name)) for name in names}
        return Truth(moments, "quadrature", known.log_evidence)

    make = lambda: vicheck.from_numpyro(function, sigma=sigma, y=y)  # noqa: E731
    return Problem(f"eight schools, {parametrization}", KIND, truth, make)


def step(time: Any, y: Any = None) -> None:
    change = numpyro.sample("change", dist.Uniform(0, 50))
    numpyro.sample("y", dist.Normal(jnp.where(time < change, 0.0, 1.5), 1.0), obs=y)


def changepoint() -> Problem:
    """Return the time of a step, of which the density is piecewise constant: no slope anywhere."""
    rng = np.random.default_rng(5)
    time = np.arange(50.0)
    y = np.where(time < 30.5, 0.0, 1.5) + rng.normal(size=50)

    def truth() -> Truth:
        # Between two times the likelihood is constant, so everything is a sum over 50 intervals.
        logs = np.array(
            [stats.norm.logpdf(y, np.where(time < low + 0.5, 0.0, 1.5), 1.0).sum() for low in time]
        )
        log_evidence = float(special.logsumexp(logs) - np.log(50.0))
        weights = np.exp(logs - special.logsumexp(logs))
        mean = weights @ (time + 0.5)
        square = weights @ ((time + 0.5) ** 2 + 1.0 / 12.0)
        moments = {"change": Moments(float(mean), float(np.sqrt(square - mean**2)))}
        return Truth(moments, "closed form", log_evidence)

    make = lambda: vicheck.from_numpyro(step, time, y=y)  # noqa: E731
    return Problem("changepoint, its time alone", KIND, truth, make)


def multinomial(number: int, total: int, y: Any = None) -> None:
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(number)))
    numpyro.sample("y", dist.Multinomial(total, share), obs=y)


def categories(number: int, total: int) -> Problem:
    rng = np.random.default_rng(number)
    y = rng.multinomial(total, rng.dirichlet(np.ones(number)))

    def truth() -> Truth:
        shape = 1.0 + y
        mean = shape / shape.sum()
        sd = np.sqrt(mean * (1 - mean) / (1 + shape.sum()))
        # All ways to divide the total among the categories are equally probable.
        ways = special.gammaln(total + number) - special.gammaln([total + 1, number]).sum()
        moments = {f"share[{i}]": Moments(float(mean[i]), float(sd[i])) for i in range(number)}
        return Truth(moments, "closed form", -float(ways))

    make = lambda: vicheck.from_numpyro(multinomial, number, total, y=y)  # noqa: E731
    return Problem(f"Dirichlet, {total} counts in {number} categories", KIND, truth, make)


def _by_quadrature(
    name: str, make: Callable[[], Model], box: list[tuple[float, float]], size: int, coarse: int
) -> Problem:
    return Problem(name, KIND, lambda: by_quadrature(make(), box, size, coarse), make)


def first_order(before: Any, y: Any = None) -> None:
    level = numpyro.sample("level", dist.Normal(0, 5))
    memory = numpyro.sample("memory", dist.Uniform(-1, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    numpyro.sample("y", dist.Normal(level + memory * (before - level), sigma), obs=y)


def autoregression() -> Problem:
    """Return an AR(1) of 30 values with a memory of 0.9: its level is hardly known."""
    rng = np.random.default_rng(9)
    series = [0.5]
    for _ in range(30):
        series.append(0.9 * series[-1] + 0.7 * rng.normal())
    before, y = np.array(series[:-1]), np.array(series[1:])
    make = lambda: vicheck.from_numpyro(first_order, before, y=y)  # noqa: E731
    box = [(-30.0, 30.0), (-9.0, 16.0), (-2.5, 1.5)]
    return _by_quadrature("AR(1), 30 values", make, box, 121, 81)


def process(x: Any, y: Any = None) -> None:
    length = numpyro.sample("length", dist.InverseGamma(3, 2))
    scale = numpyro.sample("scale", dist.HalfNormal(2))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    numpyro.deterministic("log_noise", jnp.log(noise))
    gaps = (x[:, None] - x[None]) / length
    covariance = scale**2 * jnp.exp(-0.5 * gaps**2) + (noise**2 + 1e-8) * jnp.eye(len(x))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), covariance), obs=y)


def gaussian_process() -> Problem:
    rng = np.random.default_rng(8)
    x = np.linspace(0.0, 4.0, 8)
    y = np.sin(1.5 * x) + 0.3 * rng.normal(size=8)
    make = lambda: vicheck.from_numpyro(process, x, y=y)  # noqa: E731
    return _by_quadrature(
        "Gaussian process, 8 points", make, [(-3.0, 10.0), (-16.0, 3.0), (-22.0, 2.5)], 91, 41
    )


def ordered(x: Any, y: Any = None) -> None:
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    first = numpyro.sample("first", dist.Normal(0, 2))
    gap = numpyro.sample("gap", dist.Exponential(1))
    cutpoints = jnp.stack([first, first + gap])
    numpyro.sample("y", dist.OrderedLogistic(slope * x, cutpoints), obs=y)


def ordinal() -> Problem:
    x = np.repeat([-1.0, 0.0, 1.0], 4)
    y = np.array([0, 0, 0, 1, 0, 1, 1, 2, 1, 2, 2, 2])
    make = lambda: vicheck.from_numpyro(ordered, x, y=y)  # noqa: E731
    box = [(-12.0, 16.0), (-14.0, 12.0), (-20.0, 5.0)]
    return _by_quadrature("ordinal, 12 answers", make, box, 121, 61)


def cut_off(rows: Any, limit: float, y: Any = None) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(5))
    numpyro.factor("hidden", 6 * dist.Normal(0, 1).log_cdf((mu - limit) / sigma))
    numpyro.sample("y", dist.Normal(mu, sigma).expand([len(rows)]), obs=y)


def censored() -> Problem:
    """Return a normal sample of ten, of which six are only known to lie above a limit."""
    make = lambda: vicheck.from_numpyro(  # noqa: E731
        cut_off, np.arange(4), 1.0, y=np.array([-0.9, 0.1, 0.4, 0.8])
    )
    return _by_quadrature("censored sample", make, [(-15.0, 25.0), (-4.0, 4.0)], 601, 201)


def with_zeros(rows: Any, y: Any = None) -> None:
    gate = numpyro.sample("gate", dist.Beta(1, 1))
    rate = numpyro.sample("rate", dist.Gamma(2, 0.5))
    numpyro.sample("y", dist.ZeroInflatedPoisson(gate, rate).expand([len(rows)]), obs=y)


def zero_inflated() -> Problem:
    y = np.array([0, 0, 0, 0, 0, 1, 0, 3, 2, 0, 0, 1])
    make = lambda: vicheck.from_numpyro(with_zeros, np.arange(12), y=y)  # noqa: E731
    return _by_quadrature("zero-inflated counts", make, [(-25.0, 8.0), (-6.0, 4.0)], 801, 201)


def sample_of_five(rows: Any, y: Any = None) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2))
    numpyro.sample("y", dist.Normal(mu, sigma).expand([len(rows)]), obs=y)


def normal_with_unknown_scale() -> Problem:
    y = np.array([1.2, 0.3, 2.9, 1.6, 0.8])
    make = lambda: vicheck.from_numpyro(sample_of_five, np.arange(5), y=y)  # noqa: E731
    return _by_quadrature("mean and scale of five", make, [(-60.0, 60.0), (-3.0, 8.0)], 1201, 301)


def random_walk(number: int, y: Any = None) -> None:
    drift_scale = numpyro.sample("drift_scale", dist.HalfNormal(1))
    noise_scale = numpyro.sample("noise_scale", dist.HalfNormal(1))
    time = jnp.arange(1.0, number + 1)
    walk = jnp.minimum(time[:, None], time[None])
    covariance = drift_scale**2 * walk + (noise_scale**2 + 1e-10) * jnp.eye(number)
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(number), covariance), obs=y)


def local_level() -> Problem:
    """Return the two scales of a random walk with noise, the walk itself integrated out."""
    rng = np.random.default_rng(4)
    y = np.cumsum(0.3 * rng.normal(size=20)) + 0.6 * rng.normal(size=20)
    make = lambda: vicheck.from_numpyro(random_walk, 20, y=y)  # noqa: E731
    return _by_quadrature("local level, 20 values", make, [(-22.0, 2.0), (-14.0, 2.0)], 501, 161)
