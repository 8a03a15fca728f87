"""Mixtures of normals near and far, and posteriors with several modes, with exact answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import jax.scipy.stats as jstats
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import logsumexp

import vicheck
from truth.exact import by_quadrature
from truth.problem import FAR, MULTIMODAL, Moments, Problem, Truth
from vicheck.model import Model

MODES = frozenset({MULTIMODAL})
FAR_MODES = frozenset({MULTIMODAL, FAR})
KIND = "mixture"


def problems() -> Iterator[Problem]:
    for name, weights, means, sds, dim, tags in (
        ("normals at 0 and 2, 30% there", (0.7, 0.3), (0, 2), (1, 1), 1, frozenset[str]()),
        ("normals at 0 and 3, half there", (0.5, 0.5), (0, 3), (1, 1), 1, MODES),
        ("normals at 0 and 5, 80% there", (0.2, 0.8), (0, 5), (1, 1), 1, MODES),
        ("normals at 0 and 10, 80% there", (0.2, 0.8), (0, 10), (1, 1), 1, FAR_MODES),
        ("normals at 0 and 20, 70% there", (0.3, 0.7), (0, 20), (1, 1), 1, FAR_MODES),
        ("normals at -3000 and 5000", (0.5, 0.5), (-3000, 5000), (500, 500), 1, FAR_MODES),
        ("4.5% far away", (0.955, 0.045), (0, 43), (1, 1), 1, FAR_MODES),
        ("2% a little away", (0.98, 0.02), (0, 6), (1, 1), 2, MODES),
        ("narrow and wide, far apart", (0.5, 0.5), (0, 15), (0.3, 3), 2, FAR_MODES),
        ("30% in a narrow part of five dimensions", (0.7, 0.3), (0, 1), (1, 0.15), 5, MODES),
        ("narrow part beside a wide centre", (0.6, 0.4), (0, 0.3), (1, 0.2), 8, MODES),
        ("16 dimensions, 3.6 sds apart in each", (0.6, 0.4), (0, 3.6), (1, 1), 16, FAR_MODES),
        ("16 dimensions, 4.4 sds apart in each", (0.6, 0.4), (0, 4.4), (1, 1), 16, FAR_MODES),
        ("scale mixture, 2 dimensions", (0.5, 0.5), (0, 0), (1, 6), 2, frozenset[str]()),
        ("scale mixture, 10 dimensions", (0.7, 0.3), (0, 0), (1, 3), 10, frozenset[str]()),
        ("scale mixture, 50 dimensions", (0.5, 0.5), (0, 0), (1, 2), 50, frozenset[str]()),
    ):
        yield normals(name, weights, means, sds, dim, tags)
    yield sine()
    yield cauchy()
    yield twelve_effects()
    for observed in (1.0, 6.0):
        yield product(observed)
    yield label_switching(2)
    yield label_switching(3)
    yield sign_flips()


def normals(
    name: str,
    weights: Sequence[float],
    means: Sequence[float],
    sds: Sequence[float],
    dim: int,
    tags: frozenset[str],
) -> Problem:
    """Return a mixture of spherical normals, each with its mean in all coordinates."""
    share, centre, spread = (np.asarray(each, dtype=float) for each in (weights, means, sds))
    mean = share @ centre
    sd = np.sqrt(share @ (spread**2 + centre**2) - mean**2)
    moments = {f"x[{i}]": Moments(float(mean), float(sd)) for i in range(min(dim, 8))}

    def density(x: Any) -> Any:
        logs = jstats.norm.logpdf(x[None], centre[:, None], spread[:, None]).sum(axis=1)
        return logsumexp(jnp.log(share) + logs)

    def make() -> Model:
        return vicheck.from_log_density(density, jnp.zeros(dim))

    truth = Truth(moments, "closed form", 0.0)
    return Problem(name, KIND, lambda: truth, make, tags=tags, quantities=tuple(moments))


def oscillation(t: Any, y: Any = None) -> None:
    w = numpyro.sample("w", dist.Normal(0, 10))
    numpyro.sample("y", dist.Normal(jnp.sin(w * t), 0.3), obs=y)


def sine() -> Problem:
    rng = np.random.default_rng(7)
    t = np.linspace(0.1, 5.0, 40)
    y = np.sin(7.3 * t) + 0.3 * rng.normal(size=40)

    def make() -> Model:
        return vicheck.from_numpyro(oscillation, t, y=y)

    truth = lambda: by_quadrature(make(), [(-80.0, 80.0)], 1_600_001)  # noqa: E731
    return Problem("y ~ N(sin(w t), 0.3)", "several modes", truth, make, tags=FAR_MODES)


def cauchy_place(rows: Any, y: Any = None) -> None:
    place = numpyro.sample("place", dist.Normal(0, 100))
    numpyro.sample("y", dist.Cauchy(place, 0.5).expand([len(rows)]), obs=y)


def cauchy() -> Problem:
    y = np.array([-0.6, 0.1, 0.4, 29.2, 29.9, 30.5, 30.8])

    def make() -> Model:
        return vicheck.from_numpyro(cauchy_place, np.arange(len(y)), y=y)

    truth = lambda: by_quadrature(make(), [(-200.0, 200.0)], 400_001)  # noqa: E731
    return Problem("Cauchy data at 0 and 30", "several modes", truth, make, tags=FAR_MODES)


def twelve_effects() -> Problem:
    """Return effects with prior scale 0.1 or 1, each with one noisy observation.

    Given the scale they are normal, so the posterior is a mixture of two normals: a narrow one
    inside the bulk of a wide one.
    """
    rng = np.random.default_rng(12)
    y = rng.normal(size=12)
    y *= np.sqrt(18.9 / (y**2).sum())  # the narrow one holds 37%
    scales = np.array([0.1, 1.0])
    total = scales**2 + 1.0
    log_masses = -0.5 * (12 * np.log(2 * np.pi * total) + (y**2).sum() / total) + np.log(0.5)
    evidence = np.logaddexp(*log_masses)
    masses = np.exp(log_masses - evidence)
    pull = scales**2 / total
    means = pull[:, None] * y
    mean = masses @ means
    sd = np.sqrt(masses @ (pull[:, None] + means**2) - mean**2)

    def density(x: Any) -> Any:
        priors = jstats.norm.logpdf(x, 0, scales[:, None]).sum(axis=1)
        return logsumexp(priors) - jnp.log(2.0) + jstats.norm.logpdf(y, x, 1.0).sum()

    def make() -> Model:
        return vicheck.from_log_density(density, jnp.zeros(12))

    moments = {f"x[{i}]": Moments(float(mean[i]), float(sd[i])) for i in range(12)}
    truth = Truth(moments, "closed form", float(evidence))
    name = "twelve effects, prior scale 0.1 or 1"
    return Problem(name, "several modes", lambda: truth, make, tags=MODES)


def two_factors(y: Any = None) -> None:
    a = numpyro.sample("a", dist.Normal(0, 3))
    b = numpyro.sample("b", dist.Normal(0, 3))
    numpyro.sample("y", dist.Normal(a * b, 0.5), obs=y)


def product(observed: float) -> Problem:
    def make() -> Model:
        return vicheck.from_numpyro(two_factors, y=np.array(observed))

    truth = lambda: by_quadrature(make(), [(-18.0, 18.0)] * 2, 1601)  # noqa: E731
    name = f"y ~ N(a b, 0.5), y = {observed:g}"
    return Problem(name, "several modes", truth, make, tags=MODES)


def components(rows: Any, number: int, y: Any = None) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([number]).to_event(1))
    shares = dist.Categorical(probs=jnp.ones(number) / number)
    mixture = dist.MixtureSameFamily(shares, dist.Normal(mu, 1.0))
    numpyro.sample("y", mixture.expand([len(rows)]), obs=y)


def label_switching(number: int) -> Problem:
    rng = np.random.default_rng(number)
    y = np.concatenate([centre + rng.normal(size=8) for centre in (-3.0, 1.5, 5.0)[:number]])

    def make() -> Model:
        return vicheck.from_numpyro(components, np.arange(len(y)), number, y=y)

    size, coarse = {2: (801, None), 3: (121, 61)}[number]
    box = [(-15.0, 15.0)] * number
    truth = lambda: by_quadrature(make(), box, size, coarse)  # noqa: E731
    name = f"label switching, {number} components"
    return Problem(name, "several modes", truth, make, tags=FAR_MODES)


def one_factor(rows: Any, y: Any = None) -> None:
    loading = numpyro.sample("loading", dist.Normal(0, 1).expand([3]).to_event(1))
    covariance = jnp.outer(loading, loading) + 0.5 * jnp.eye(3)
    factors = dist.MultivariateNormal(jnp.zeros(3), covariance_matrix=covariance)
    numpyro.sample("y", factors.expand([len(rows)]), obs=y)


def sign_flips() -> Problem:
    """Return the loadings of a one-factor model, whose common sign is unknown."""
    rng = np.random.default_rng(3)
    loading = np.array([0.9, 0.7, -0.5])
    y = rng.normal(size=(25, 1)) * loading + np.sqrt(0.5) * rng.normal(size=(25, 3))

    def make() -> Model:
        return vicheck.from_numpyro(one_factor, np.arange(25), y=y)

    truth = lambda: by_quadrature(make(), [(-3.0, 3.0)] * 3, 91)  # noqa: E731
    return Problem("sign flips of one factor", "several modes", truth, make, tags=FAR_MODES)
