"""Posteriors with one mode and another shape than a normal, with closed forms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import jax.scipy.stats as jstats
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from scipy import special, stats

import vicheck
from truth.exact import by_quadrature
from truth.problem import NO_VARIANCE, Moments, Problem, Truth
from vicheck.model import Model

KIND = "shape"


def problems() -> Iterator[Problem]:
    for freedom, dim in ((3, 1), (5, 1), (5, 5), (10, 10), (3, 20), (8, 50)):
        yield student(freedom, dim)
    for dim in (1, 4):
        yield student(2, dim, tags=frozenset({NO_VARIANCE}))
    yield multivariate_student(4, 10)
    for spread, dim in ((1.0, 5), (3.0, 2), (3.0, 10)):
        yield funnel(spread, dim)
    for bend in (0.3, 1.0, 3.0):
        yield banana(bend)
    for shape, dim in ((0.5, 1), (2.0, 1), (2.0, 10), (10.0, 3)):
        yield log_gamma(shape, dim)
    for successes, trials in ((9, 10), (0, 5), (3, 40)):
        yield proportion(successes, trials)
    yield rate()
    yield near_a_bound()
    yield independent_scale_mixture()


def _of_density(density: Any, dim: int) -> Model:
    return vicheck.from_log_density(density, jnp.zeros(dim))


def _each(dim: int, moments: Moments, name: str = "x") -> dict[str, Moments]:
    return {f"{name}[{i}]": moments for i in range(dim)}


def student(freedom: float, dim: int, tags: frozenset[str] = frozenset()) -> Problem:
    sd = np.sqrt(freedom / (freedom - 2)) if freedom > 2 else np.inf
    quartile = stats.t.ppf(0.75, freedom) / stats.norm.ppf(0.75)
    shown = dim if dim <= 20 else 8
    truth = Truth(_each(shown, Moments(0.0, sd, quartile)), "closed form", 0.0)

    def density(x: Any) -> Any:
        return jstats.t.logpdf(x, freedom).sum()

    name, reported = f"t({freedom}), {dim} independent", tuple(truth.moments)
    make = lambda: _of_density(density, dim)  # noqa: E731
    return Problem(name, KIND, lambda: truth, make, tags=tags, quantities=reported)


def multivariate_student(freedom: float, dim: int) -> Problem:
    truth = Truth(_each(dim, Moments(0.0, np.sqrt(freedom / (freedom - 2)))), "closed form", 0.0)
    constant = (
        special.gammaln((freedom + dim) / 2)
        - special.gammaln(freedom / 2)
        - dim / 2 * np.log(freedom * np.pi)
    )

    def density(x: Any) -> Any:
        return constant - 0.5 * (freedom + dim) * jnp.log1p((x**2).sum() / freedom)

    name = f"multivariate t({freedom}), {dim} dimensions"
    return Problem(name, KIND, lambda: truth, lambda: _of_density(density, dim))


def funnel(spread: float, dim: int) -> Problem:
    """Return Neal's funnel: v ~ N(0, spread), and the rest N(0, exp(v / 2))."""
    wide = Moments(0.0, float(np.exp(spread**2 / 4)))
    truth = Truth(
        {"v": Moments(0.0, spread)} | _each(dim - 1, wide), "closed form", log_evidence=0.0
    )

    def density(theta: Any) -> Any:
        v, x = theta["v"], theta["x"]
        return jstats.norm.logpdf(v, 0, spread) + jstats.norm.logpdf(x, 0, jnp.exp(v / 2)).sum()

    example = {"v": jnp.zeros(()), "x": jnp.zeros(dim - 1)}
    name = f"funnel, v of sd {spread}, {dim} dimensions"
    return Problem(name, KIND, lambda: truth, lambda: vicheck.from_log_density(density, example))


def banana(bend: float) -> Problem:
    moments = {"x[0]": Moments(0.0, 1.0), "x[1]": Moments(0.0, float(np.sqrt(1 + 2 * bend**2)))}
    truth = Truth(moments, "closed form", 0.0)

    def density(x: Any) -> Any:
        centre = bend * (x[0] ** 2 - 1)
        return jstats.norm.logpdf(x[0]) + jstats.norm.logpdf(x[1], centre, 1.0)

    return Problem(f"banana, bend {bend}", KIND, lambda: truth, lambda: _of_density(density, 2))


def log_gamma(shape: float, dim: int) -> Problem:
    moments = Moments(float(special.digamma(shape)), float(np.sqrt(special.polygamma(1, shape))))
    truth = Truth(_each(dim, moments), "closed form", 0.0)

    def density(x: Any) -> Any:
        return (shape * x - jnp.exp(x) - gammaln(shape)).sum()

    name = f"log of gamma({shape}), {dim} independent"
    return Problem(name, KIND, lambda: truth, lambda: _of_density(density, dim))


def binomial(trials: Any, y: Any = None) -> None:
    chance = numpyro.sample("chance", dist.Uniform(0, 1))
    numpyro.sample("y", dist.Binomial(trials, chance), obs=y)


def proportion(successes: int, trials: int) -> Problem:
    posterior = stats.beta(1 + successes, 1 + trials - successes)
    moments = {"chance": Moments(float(posterior.mean()), float(posterior.std()))}
    truth = Truth(moments, "closed form", -float(np.log(trials + 1)))

    def make() -> Model:
        return vicheck.from_numpyro(binomial, np.array(trials), y=np.array(successes))

    return Problem(f"proportion, {successes} of {trials}", KIND, lambda: truth, make)


def poisson(rows: Any, y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Gamma(2.0, 1.0))
    numpyro.sample("y", dist.Poisson(mean).expand([len(rows)]), obs=y)


def rate() -> Problem:
    y = np.array([0, 2, 1])
    shape, inverse = 2.0 + y.sum(), 1.0 + len(y)
    evidence = (
        special.gammaln(shape) - shape * np.log(inverse) - special.gammaln(2.0)
        - special.gammaln(y + 1.0).sum()
    )  # fmt: skip
    moments = {"mean": Moments(shape / inverse, float(np.sqrt(shape)) / inverse)}
    truth = Truth(moments, "closed form", float(evidence))
    make = lambda: vicheck.from_numpyro(poisson, np.arange(3), y=y)  # noqa: E731
    return Problem("Poisson mean, three counts", KIND, lambda: truth, make)


def bounded(y: Any = None) -> None:
    place = numpyro.sample("place", dist.Uniform(0, 10))
    numpyro.sample("y", dist.Normal(place, 1.0), obs=y)


def near_a_bound() -> Problem:
    """Return a place between 0 and 10 that is measured as 0.2 +- 1: a truncated normal."""
    posterior = stats.truncnorm(-0.2, 9.8, loc=0.2)
    evidence = float(np.log(stats.norm.cdf(9.8) - stats.norm.cdf(-0.2)) - np.log(10.0))
    moments = {"place": Moments(float(posterior.mean()), float(posterior.std()))}
    truth = Truth(moments, "closed form", evidence)
    make = lambda: vicheck.from_numpyro(bounded, y=np.array(0.2))  # noqa: E731
    return Problem("place next to its bound", KIND, lambda: truth, make)


def independent_scale_mixture() -> Problem:
    """Return a spike and a slab on one coordinate, by quadrature to test that room too."""

    def density(x: Any) -> Any:
        narrow, wide = (jstats.norm.logpdf(x[0], 0, sd) for sd in (0.3, 2.0))
        return jnp.logaddexp(narrow, wide) - jnp.log(2.0) + jstats.norm.logpdf(x[0], 0.8, 1.0)

    make = lambda: _of_density(density, 1)  # noqa: E731
    truth = lambda: by_quadrature(make(), [(-12.0, 12.0)], 20_001)  # noqa: E731
    return Problem("spike and slab, one effect", KIND, truth, make)
