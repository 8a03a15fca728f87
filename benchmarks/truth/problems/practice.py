"""More models that people fit: survival, counts with groups, growth curves, paths, cut points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import jax.scipy.stats as jstats
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy import special, stats

import vicheck
from truth.exact import Box, by_quadrature
from truth.problem import Moments, Problem, Truth
from vicheck.model import Model

KIND = "model"


def problems() -> Iterator[Problem]:
    yield overdispersed()
    yield probit()
    yield survival()
    yield grades()
    yield robust()
    yield decay()
    yield enzyme()
    yield uneven_chances()
    yield groups_of_counts("centred")
    yield groups_of_counts("noncentred")
    yield path()
    yield functions_of_two()


def _on_a_grid(
    name: str, make: Callable[[], Model], box: Box, size: int, coarse: int | None = None
) -> Problem:
    return Problem(name, KIND, lambda: by_quadrature(make(), box, size, coarse), make)


def negative_binomial(x: Any, y: Any = None) -> None:
    beta = numpyro.sample("beta", dist.Normal(0.0, 2.0).expand([2]).to_event(1))
    shape = numpyro.sample("shape", dist.Gamma(2.0, 0.5))
    numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(x @ beta), shape), obs=y)


def overdispersed() -> Problem:
    rng = np.random.default_rng(21)
    x = np.column_stack([np.ones(15), rng.normal(size=15)])
    mean = np.exp(x @ np.array([1.0, 0.5]))
    y = rng.negative_binomial(2.0, 2.0 / (2.0 + mean))
    make = lambda: vicheck.from_numpyro(negative_binomial, x, y=y)  # noqa: E731
    box = [(-8.0, 8.0), (-8.0, 8.0), (-6.0, 6.0)]
    return _on_a_grid("negative binomial regression, 15 rows", make, box, 101, 41)


def probit_of(x: Any, y: Any = None) -> None:
    beta = numpyro.sample("beta", dist.Normal(0.0, 2.0).expand([2]).to_event(1))
    sides = jnp.where(y == 1, 1.0, -1.0)
    numpyro.factor("y", jstats.norm.logcdf(sides * (x @ beta)).sum())


def probit() -> Problem:
    """Return a probit regression on two covariates that correlate by 0.9."""
    rng = np.random.default_rng(11)
    common = rng.normal(size=(25, 1))
    x = np.sqrt(0.9) * common + np.sqrt(0.1) * rng.normal(size=(25, 2))
    y = (x @ np.array([1.0, -0.5]) + rng.normal(size=25) > 0).astype(int)
    make = lambda: vicheck.from_numpyro(probit_of, x, y=y)  # noqa: E731
    return _on_a_grid("probit regression, correlated", make, [(-12.0, 12.0)] * 2, 601)


def weibull(time: Any, died: Any) -> None:
    shape = numpyro.sample("shape", dist.LogNormal(0.0, 1.0))
    scale = numpyro.sample("scale", dist.LogNormal(1.0, 1.0))
    log_time = jnp.log(time) - jnp.log(scale)
    hazard = jnp.log(shape) - jnp.log(scale) + (shape - 1.0) * log_time
    numpyro.factor("lifetimes", (died * hazard - jnp.exp(shape * log_time)).sum())


def survival() -> Problem:
    """Return twelve Weibull lifetimes, those beyond 3 censored."""
    rng = np.random.default_rng(31)
    lifetimes = 3.0 * rng.weibull(1.7, size=12)
    time, died = np.minimum(lifetimes, 3.0), (lifetimes < 3.0).astype(float)
    make = lambda: vicheck.from_numpyro(weibull, time, died)  # noqa: E731
    return _on_a_grid("Weibull survival, censored", make, [(-5.0, 5.0)] * 2, 801)


def ordered_logit(x: Any, y: Any = None) -> None:
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    cuts = dist.TransformedDistribution(
        dist.Normal(0.0, 2.0).expand([2]).to_event(1), dist.transforms.OrderedTransform()
    )
    numpyro.sample("y", dist.OrderedLogistic(slope * x, numpyro.sample("cuts", cuts)), obs=y)


def grades() -> Problem:
    """Return an ordinal regression whose cut points are parameters, too."""
    rng = np.random.default_rng(41)
    x = rng.normal(size=15)
    y = np.digitize(1.2 * x + rng.logistic(size=15), [-1.0, 1.0])
    make = lambda: vicheck.from_numpyro(ordered_logit, x, y=y)  # noqa: E731
    box = [(-6.0, 8.0), (-9.0, 9.0), (-9.0, 6.0)]
    return _on_a_grid("ordinal regression with cut points", make, box, 101, 41)


def student_errors(x: Any, y: Any = None) -> None:
    level = numpyro.sample("level", dist.Normal(0.0, 5.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 5.0))
    scale = numpyro.sample("scale", dist.HalfCauchy(1.0))
    numpyro.sample("y", dist.StudentT(4.0, level + slope * x, scale), obs=y)


def robust() -> Problem:
    rng = np.random.default_rng(82)
    x = rng.normal(size=30)
    y = 0.5 + 2.0 * x + 0.5 * rng.standard_t(2, size=30)
    make = lambda: vicheck.from_numpyro(student_errors, x, y=y)  # noqa: E731
    box = [(-6.0, 6.0), (-6.0, 6.0), (-5.0, 4.0)]
    return _on_a_grid("regression with t errors", make, box, 101, 61)


def exponential_decay(t: Any, y: Any = None) -> None:
    start = numpyro.sample("start", dist.HalfNormal(5.0))
    rate = numpyro.sample("rate", dist.HalfNormal(2.0))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(start * jnp.exp(-rate * t), noise), obs=y)


def decay() -> Problem:
    rng = np.random.default_rng(97)
    t = np.linspace(0.0, 4.0, 8)
    y = 3.0 * np.exp(-0.8 * t) + 0.3 * rng.normal(size=8)
    make = lambda: vicheck.from_numpyro(exponential_decay, t, y=y)  # noqa: E731
    box = [(-3.0, 4.0), (-6.0, 3.0), (-5.0, 3.0)]
    return _on_a_grid("exponential decay, 8 rows", make, box, 121, 61)


def michaelis_menten(x: Any, y: Any = None) -> None:
    top = numpyro.sample("top", dist.LogNormal(0.0, 1.0))
    half = numpyro.sample("half", dist.LogNormal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(top * x / (half + x), 0.08), obs=y)


def enzyme() -> Problem:
    """Return two parameters of a saturation curve of which the data show the beginning."""
    rng = np.random.default_rng(98)
    x = np.array([0.1, 0.3, 0.5, 1.0, 2.0])
    y = 2.0 * x / (1.5 + x) + 0.08 * rng.normal(size=5)
    make = lambda: vicheck.from_numpyro(michaelis_menten, x, y=y)  # noqa: E731
    return _on_a_grid("saturation curve, 5 rows", make, [(-5.0, 6.0)] * 2, 1201, 201)


def beta_binomial(trials: Any, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Beta(1.0, 1.0))
    size = numpyro.sample("size", dist.LogNormal(1.5, 1.0))
    numpyro.sample("y", dist.BetaBinomial(mean * size, (1.0 - mean) * size, trials), obs=y)


def uneven_chances() -> Problem:
    rng = np.random.default_rng(95)
    y = rng.binomial(10, rng.beta(2.0, 4.0, size=6))
    make = lambda: vicheck.from_numpyro(beta_binomial, np.full(6, 10), y=y)  # noqa: E731
    return _on_a_grid("beta-binomial, 6 groups", make, [(-8.0, 8.0), (-6.0, 9.0)], 801)


def poisson_groups(time: Any, centred: bool, y: Any = None) -> None:
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    count = len(time)
    if centred:
        level = numpyro.sample("level", dist.Normal(mu, tau).expand([count]).to_event(1))
    else:
        raw = numpyro.sample("raw", dist.Normal(0.0, 1.0).expand([count]).to_event(1))
        level = mu + tau * raw
    numpyro.sample("y", dist.Poisson(time * jnp.exp(level)), obs=y)


def groups_of_counts(parametrization: str) -> Problem:
    """Return the mean and the spread of the log rates of three groups with a count each."""
    rng = np.random.default_rng(53)
    time = np.full(3, 3.0)
    y = rng.poisson(time * np.exp(rng.normal(0.5, 0.6, size=3)))

    def truth() -> Truth:
        # On a grid of mu and log tau; each group by Gauss-Hermite quadrature.
        mu, log_tau = np.meshgrid(np.linspace(-6, 6, 241), np.linspace(-9, 2, 331), indexing="ij")
        nodes, weights = np.polynomial.hermite_e.hermegauss(120)
        tau = np.exp(log_tau)
        log_p = stats.norm.logpdf(mu, 0.0, 2.0) + stats.halfnorm.logpdf(tau) + log_tau
        log_rate = np.log(time[0]) + mu[..., None] + tau[..., None] * nodes
        for count in y:
            likelihood = stats.poisson.logpmf(count, np.exp(np.minimum(log_rate, 50.0)))
            log_p += special.logsumexp(likelihood, axis=-1, b=weights / np.sqrt(2.0 * np.pi))
        total = special.logsumexp(log_p)
        shares = np.exp(log_p - total)
        moments = {name: _moments(shares, each) for name, each in (("mu", mu), ("tau", tau))}
        cell = (mu[1, 0] - mu[0, 0]) * (log_tau[0, 1] - log_tau[0, 0])
        return Truth(moments, "quadrature", float(total + np.log(cell)))

    centred = parametrization == "centred"
    make = lambda: vicheck.from_numpyro(poisson_groups, time, centred, y=y)  # noqa: E731
    name = f"three groups of counts, {parametrization}"
    return Problem(name, KIND, truth, make, quantities=("mu", "tau"))


def walk(y: Any) -> None:
    step = numpyro.sample("step", dist.HalfNormal(1.0))
    path = numpyro.sample("path", dist.GaussianRandomWalk(step, num_steps=len(y)))
    numpyro.sample("y", dist.Normal(path, 0.7), obs=y)


def path() -> Problem:
    """Return a random walk of twelve steps, seen with noise: normal, given the size of a step."""
    rng = np.random.default_rng(61)
    y = np.cumsum(0.6 * rng.normal(size=12)) + 0.7 * rng.normal(size=12)
    shown = (0, 6, 11)

    def truth() -> Truth:
        log_step = np.linspace(-14.0, 2.5, 3301)
        times = np.arange(1, 13)
        log_p, means, variances = [], [], []
        for each in log_step:
            prior = np.exp(2.0 * each) * np.minimum.outer(times, times)
            seen = prior + 0.49 * np.eye(12)
            log_p.append(stats.multivariate_normal.logpdf(y, np.zeros(12), seen))
            gain = np.linalg.solve(seen, prior).T
            means.append(gain @ y)
            variances.append(np.diag(prior - gain @ prior))
        log_p = np.array(log_p) + stats.halfnorm.logpdf(np.exp(log_step)) + log_step
        total = special.logsumexp(log_p)
        shares = np.exp(log_p - total)
        moments = {"step": _moments(shares, np.exp(log_step))}
        for i in shown:
            mean, spread = (np.array(each)[:, i] for each in (means, variances))
            sd = np.sqrt(shares @ spread + _moments(shares, mean).sd ** 2)
            moments[f"path[{i}]"] = Moments(float(shares @ mean), float(sd))
        return Truth(moments, "quadrature", float(total + np.log(log_step[1] - log_step[0])))

    make = lambda: vicheck.from_numpyro(walk, y=y)  # noqa: E731
    return Problem("random walk, 12 steps", KIND, truth, make)


def functions_of_two() -> Problem:
    """Return probabilities, products and powers of two correlated normals."""
    mean, covariance = np.array([0.4, -1.0]), np.array([[1.0, 1.2], [1.2, 4.0]])
    (m, n), (v, c, w) = mean, (covariance[0, 0], covariance[0, 1], covariance[1, 1])
    both = stats.multivariate_normal(-mean, covariance).cdf([0.0, 0.0])
    log_mean, log_variance = 0.3 * n, 0.09 * w
    lognormal = np.exp(log_mean + log_variance / 2.0)
    moments = {
        "a > 0": _of_chance(float(stats.norm.cdf(m / np.sqrt(v)))),
        "both > 0": _of_chance(float(both)),
        "a b": Moments(
            m * n + c, float(np.sqrt(m**2 * w + n**2 * v + 2 * m * n * c + v * w + c**2))
        ),
        "a^2": Moments(m**2 + v, float(np.sqrt(2 * v**2 + 4 * m**2 * v))),
        "exp(0.3 b)": Moments(float(lognormal), float(lognormal * np.sqrt(np.expm1(log_variance)))),
    }
    quantities = {
        "a > 0": lambda theta: theta["x"][0] > 0.0,
        "both > 0": lambda theta: theta["x"].min() > 0.0,
        "a b": lambda theta: theta["x"].prod(),
        "a^2": lambda theta: theta["x"][0] ** 2,
        "exp(0.3 b)": lambda theta: jnp.exp(0.3 * theta["x"][1]),
    }

    def make() -> Model:
        density = lambda x: jstats.multivariate_normal.logpdf(x, mean, covariance)  # noqa: E731
        return vicheck.from_log_density(density, jnp.zeros(2))

    truth = Truth(moments, "closed form", 0.0)
    name = "functions of two correlated normals"
    return Problem(name, KIND, lambda: truth, make, quantities=quantities)


def _of_chance(chance: float) -> Moments:
    return Moments(chance, float(np.sqrt(chance * (1.0 - chance))))


def _moments(shares: Any, values: Any) -> Moments:
    mean = (shares * values).sum()
    return Moments(float(mean), float(np.sqrt((shares * (values - mean) ** 2).sum())))
