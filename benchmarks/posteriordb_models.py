"""NumPyro versions of posteriordb posteriors: raw data, and the priors of the Stan programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from posteriordb_odes import (
    lotka_volterra,
    one_compartment,
    prepare_compartment,
    prepare_populations,
)

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Posterior:
    """One posterior: `names` maps our scalars as ArviZ prints them to the reference's names."""

    name: str
    model: Callable[..., None]
    prepare: Callable[[Mapping[str, Any]], Arrays]
    names: Mapping[str, str]


def load(directory: str | Path, name: str) -> tuple[Arrays, dict[str, dict[str, float]]]:
    """Return the model's arrays, and the reference mean and sd by our names of the scalars."""
    posterior = {each.name: each for each in (*REGRESSIONS, *OTHERS)}[name]
    stored = json.loads((Path(directory) / f"{name}.json").read_text(encoding="utf-8"))
    params = stored["reference"]["params"]
    reference = {
        ours: {moment: params[theirs][moment] for moment in ("mean", "sd")}
        for ours, theirs in posterior.names.items()
    }
    return posterior.prepare(stored["data"]), reference


def _names(*scalars: str, **lengths: int) -> dict[str, str]:
    vectors = {f"{k}[{i}]": f"{k}[{i + 1}]" for k, size in lengths.items() for i in range(size)}
    return vectors | {scalar: scalar for scalar in scalars}


def _column(data: Mapping[str, Any], name: str) -> np.ndarray:
    return np.asarray(data[name], dtype=float)


def _design(*columns: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(columns[0])), *columns])


# Regressions: the design's first column is the intercept's, except in sblrc-blr, which has none.


def _flat(size: int) -> dist.Distribution:
    return dist.ImproperUniform(constraints.real, (), (size,))


def flat_regression(design: Any, y: Any = None) -> None:
    beta = numpyro.sample("beta", _flat(design.shape[1]))
    sigma = numpyro.sample("sigma", dist.ImproperUniform(constraints.positive, (), ()))
    numpyro.sample("y", dist.Normal(design @ beta, sigma), obs=y)


def cauchy_scale_regression(design: Any, y: Any = None) -> None:
    beta = numpyro.sample("beta", _flat(design.shape[1]))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    numpyro.sample("y", dist.Normal(design @ beta, sigma), obs=y)


def normal_prior_regression(design: Any, y: Any = None) -> None:
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([design.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(10))
    numpyro.sample("y", dist.Normal(design @ beta, sigma), obs=y)


def kilpisjarvi(
    x: Any, alpha_mean: Any, alpha_sd: Any, beta_mean: Any, beta_sd: Any, y: Any = None
) -> None:
    alpha = numpyro.sample("alpha", dist.Normal(alpha_mean, alpha_sd))
    beta = numpyro.sample("beta", dist.Normal(beta_mean, beta_sd))
    sigma = numpyro.sample("sigma", dist.ImproperUniform(constraints.positive, (), ()))
    numpyro.sample("y", dist.Normal(alpha + beta * x, sigma), obs=y)


def prepare_height_male(data: Mapping[str, Any]) -> Arrays:
    height, male = _column(data, "height"), _column(data, "male")
    return {"design": _design(height, male), "y": np.log(_column(data, "earn"))}


def prepare_earnings_interaction(data: Mapping[str, Any]) -> Arrays:
    height, male = _column(data, "height"), _column(data, "male")
    return {"design": _design(height, male, height * male), "y": np.log(_column(data, "earn"))}


def prepare_kidscore_interaction(data: Mapping[str, Any]) -> Arrays:
    mom_hs, mom_iq = _column(data, "mom_hs"), _column(data, "mom_iq")
    return {"design": _design(mom_hs, mom_iq, mom_hs * mom_iq), "y": _column(data, "kid_score")}


def prepare_kidscore_momiq(data: Mapping[str, Any]) -> Arrays:
    return {"design": _design(_column(data, "mom_iq")), "y": _column(data, "kid_score")}


def prepare_kilpisjarvi(data: Mapping[str, Any]) -> Arrays:
    return {
        "x": _column(data, "x"),
        "alpha_mean": _column(data, "pmualpha"),
        "alpha_sd": _column(data, "psalpha"),
        "beta_mean": _column(data, "pmubeta"),
        "beta_sd": _column(data, "psbeta"),
        "y": _column(data, "y"),
    }


def prepare_mesquite(data: Mapping[str, Any]) -> Arrays:
    sizes = ("diam1", "diam2", "canopy_height", "total_height", "density")
    logs = [np.log(_column(data, name)) for name in sizes]
    return {"design": _design(*logs, _column(data, "group")), "y": np.log(_column(data, "weight"))}


def prepare_mesquite_volume(data: Mapping[str, Any]) -> Arrays:
    volume = _column(data, "diam1") * _column(data, "diam2") * _column(data, "canopy_height")
    return {"design": _design(np.log(volume)), "y": np.log(_column(data, "weight"))}


def prepare_nes(data: Mapping[str, Any]) -> Arrays:
    ages = [(_column(data, "age_discrete") == level).astype(float) for level in (2, 3, 4)]
    before = [_column(data, name) for name in ("real_ideo", "race_adj")]
    after = [_column(data, name) for name in ("educ1", "gender", "income")]
    return {"design": _design(*before, *ages, *after), "y": _column(data, "partyid7")}


def prepare_blr(data: Mapping[str, Any]) -> Arrays:
    return {"design": _column(data, "X"), "y": _column(data, "y")}


REGRESSIONS = (
    Posterior(
        "earnings-logearn_height_male",
        flat_regression,
        prepare_height_male,
        _names("sigma", beta=3),
    ),
    Posterior(
        "earnings-logearn_interaction",
        flat_regression,
        prepare_earnings_interaction,
        _names("sigma", beta=4),
    ),
    Posterior(
        "kidiq-kidscore_interaction",
        cauchy_scale_regression,
        prepare_kidscore_interaction,
        _names("sigma", beta=4),
    ),
    Posterior(
        "kidiq-kidscore_momiq",
        cauchy_scale_regression,
        prepare_kidscore_momiq,
        _names("sigma", beta=2),
    ),
    Posterior(
        "kilpisjarvi_mod-kilpisjarvi",
        kilpisjarvi,
        prepare_kilpisjarvi,
        _names("alpha", "beta", "sigma"),
    ),
    Posterior("mesquite-logmesquite", flat_regression, prepare_mesquite, _names("sigma", beta=7)),
    Posterior(
        "mesquite-logmesquite_logvolume",
        flat_regression,
        prepare_mesquite_volume,
        _names("sigma", beta=2),
    ),
    Posterior("nes1972-nes", flat_regression, prepare_nes, _names("sigma", beta=9)),
    Posterior("nes1980-nes", flat_regression, prepare_nes, _names("sigma", beta=9)),
    Posterior("sblrc-blr", normal_prior_regression, prepare_blr, _names("sigma", beta=5)),
)


# Series: y given its own past, which comes as data (`lags`, `series`), so that the likelihood is a
# product of one-step predictions. It is the Stan program's at the data; with y=None the draws are
# one-step predictions along the observed series, not new series.


def autoregression(lags: Any, y: Any = None) -> None:
    alpha = numpyro.sample("alpha", dist.Normal(0, 10))
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([lags.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    numpyro.sample("y", dist.Normal(alpha + lags @ beta, sigma), obs=y)


def arma(series: Any, y: Any = None) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    phi = numpyro.sample("phi", dist.Normal(0, 2))
    theta = numpyro.sample("theta", dist.Normal(0, 2))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))

    def step(error: Any, pair: Any) -> tuple[Any, Any]:
        before, now = pair
        mean = mu + phi * before + theta * error
        return now - mean, mean

    first = mu + phi * mu
    pairs = (jnp.asarray(series[:-1]), jnp.asarray(series[1:]))
    _, rest = jax.lax.scan(step, series[0] - first, pairs)
    numpyro.sample("y", dist.Normal(jnp.append(first, rest), sigma), obs=y)


def garch(series: Any, first_scale: Any, y: Any = None) -> None:
    mu = numpyro.sample("mu", dist.ImproperUniform(constraints.real, (), ()))
    alpha0 = numpyro.sample("alpha0", dist.ImproperUniform(constraints.positive, (), ()))
    # Beta(1, 2) times a uniform share of the rest is the flat density on alpha1 + beta1 < 1.
    alpha1 = numpyro.sample("alpha1", dist.Beta(1, 2))
    share = numpyro.sample("share", dist.Uniform(0, 1))
    beta1 = numpyro.deterministic("beta1", share * (1 - alpha1))

    def step(variance: Any, before: Any) -> tuple[Any, Any]:
        variance = alpha0 + alpha1 * (before - mu) ** 2 + beta1 * variance
        return variance, variance

    first = jnp.square(first_scale) + 0 * mu
    _, rest = jax.lax.scan(step, first, jnp.asarray(series[:-1]))
    numpyro.sample("y", dist.Normal(mu, jnp.sqrt(jnp.append(first, rest))), obs=y)


def hidden_markov(series: Any, y: Any = None) -> None:
    theta1 = numpyro.sample("theta1", dist.Dirichlet(jnp.ones(2)))
    theta2 = numpyro.sample("theta2", dist.Dirichlet(jnp.ones(2)))
    ordered = constraints.positive_ordered_vector
    mu = numpyro.sample("mu", dist.ImproperUniform(ordered, (), (2,)))
    numpyro.factor("mu_prior", dist.Normal(jnp.array([3.0, 10.0]), 1).log_prob(mu).sum())
    log_transition = jnp.log(jnp.stack([theta1, theta2]))

    def step(log_state: Any, before: Any) -> tuple[Any, Any]:
        log_joint = log_state + dist.Normal(mu, 1).log_prob(before)
        log_next = jax.nn.logsumexp(log_joint[:, None] + log_transition, axis=0)
        log_next = jax.nn.log_softmax(log_next)
        return log_next, log_next

    first = jnp.log(0.5) + 0 * mu
    _, rest = jax.lax.scan(step, first, jnp.asarray(series[:-1]))
    states = dist.Categorical(logits=jnp.concatenate([first[None], rest]))
    emissions = dist.Normal(jnp.broadcast_to(mu, (len(series), 2)), 1)
    numpyro.sample("y", dist.MixtureSameFamily(states, emissions), obs=y)


# The rest.


def eight_schools(sigma: Any, y: Any = None) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    trans = numpyro.sample("theta_trans", dist.Normal(0, 1).expand([len(sigma)]).to_event(1))
    theta = numpyro.deterministic("theta", mu + tau * trans)
    numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def gaussian_process(x: Any, y: Any = None) -> None:
    rho = numpyro.sample("rho", dist.Gamma(25, 4))
    alpha = numpyro.sample("alpha", dist.HalfNormal(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    gaps = (x[:, None] - x[None, :]) / rho
    # As in the Stan program, sigma is the noise's variance.
    covariance = alpha**2 * jnp.exp(-(gaps**2) / 2) + sigma * jnp.eye(len(x))
    mean = jnp.zeros(len(x))
    numpyro.sample("y", dist.MultivariateNormal(mean, covariance_matrix=covariance), obs=y)


def gaussian_mixture(rows: Any, y: Any = None) -> None:
    mu = numpyro.sample("mu", dist.ImproperUniform(constraints.ordered_vector, (), (2,)))
    numpyro.factor("mu_prior", dist.Normal(0, 2).log_prob(mu).sum())
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([2]).to_event(1))
    theta = numpyro.sample("theta", dist.Beta(5, 5))
    weights = dist.Categorical(probs=jnp.stack([theta, 1 - theta]))
    mixture = dist.MixtureSameFamily(weights, dist.Normal(mu, sigma))
    numpyro.sample("y", mixture.expand([len(rows)]), obs=y)


def prepare_autoregression(data: Mapping[str, Any]) -> Arrays:
    y, order = _column(data, "y"), data["K"]
    lags = np.column_stack([y[order - k : len(y) - k] for k in range(1, order + 1)])
    return {"lags": lags, "y": y[order:]}


def prepare_series(data: Mapping[str, Any]) -> Arrays:
    return {"series": _column(data, "y"), "y": _column(data, "y")}


def prepare_garch(data: Mapping[str, Any]) -> Arrays:
    return prepare_series(data) | {"first_scale": _column(data, "sigma1")}


def prepare_schools(data: Mapping[str, Any]) -> Arrays:
    return {"sigma": _column(data, "sigma"), "y": _column(data, "y")}


def prepare_process(data: Mapping[str, Any]) -> Arrays:
    return {"x": _column(data, "x"), "y": _column(data, "y")}


def prepare_mixture(data: Mapping[str, Any]) -> Arrays:
    return {"rows": np.arange(data["N"]), "y": _column(data, "y")}


OTHERS = (
    Posterior("arK-arK", autoregression, prepare_autoregression, _names("alpha", "sigma", beta=5)),
    Posterior("arma-arma11", arma, prepare_series, _names("mu", "phi", "theta", "sigma")),
    Posterior(
        "eight_schools-eight_schools_noncentered",
        eight_schools,
        prepare_schools,
        _names("mu", "tau", theta=8),
    ),
    Posterior("garch-garch11", garch, prepare_garch, _names("mu", "alpha0", "alpha1", "beta1")),
    Posterior(
        "gp_pois_regr-gp_regr",
        gaussian_process,
        prepare_process,
        _names("rho", "alpha", "sigma"),
    ),
    Posterior(
        "hmm_example-hmm_example",
        hidden_markov,
        prepare_series,
        _names(theta1=2, theta2=2, mu=2),
    ),
    Posterior(
        "low_dim_gauss_mix-low_dim_gauss_mix",
        gaussian_mixture,
        prepare_mixture,
        _names("theta", mu=2, sigma=2),
    ),
    Posterior(
        "one_comp_mm_elim_abs-one_comp_mm_elim_abs",
        one_compartment,
        prepare_compartment,
        _names("k_a", "K_m", "V_m", "sigma"),
    ),
    Posterior(
        "hudson_lynx_hare-lotka_volterra",
        lotka_volterra,
        prepare_populations,
        _names(theta=4, z_init=2, sigma=2),
    ),
)
