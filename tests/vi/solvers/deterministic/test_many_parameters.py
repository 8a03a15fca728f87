"""Families with correlations in many dimensions: the draws follow, and runaways are tried again."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

import vicheck
from vicheck.model import double_precision
from vicheck.results.status import FitStatus
from vicheck.vi.families.registry import kind_of
from vicheck.vi.solvers.deterministic.solver import Deterministic


def linear(x, y=None):
    beta = numpyro.sample("beta", dist.Normal(0.0, 3.0).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Normal(x @ beta, 1.0), obs=y)


def linear_with_sigma(x, y=None):
    beta = numpyro.sample("beta", dist.Normal(0.0, 3.0).expand([x.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(3.0))
    numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def logistic(x, y=None):
    beta = numpyro.sample("beta", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ beta), obs=y)


def hierarchical(group, num_groups, y=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfNormal(2.0))
    theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([num_groups]).to_event(1))
    numpyro.sample("y", dist.Normal(theta[group], 1.0), obs=y)


def correlated_design(num_columns, num_rows):
    rng = np.random.default_rng(num_columns)
    common, own = rng.standard_normal((num_rows, 1)), rng.standard_normal((num_rows, num_columns))
    return 0.8 * common + 0.6 * own, rng


def linear_of(dim):
    x, rng = correlated_design(dim, 3 * dim)
    y = x @ rng.standard_normal(dim) + rng.standard_normal(len(x))
    return vicheck.from_numpyro(linear, x, y=y)


def logistic_of(dim):
    x, rng = correlated_design(dim, 10 * dim)
    y = rng.random(len(x)) < 1.0 / (1.0 + np.exp(-x @ (0.5 * rng.standard_normal(dim))))
    return vicheck.from_numpyro(logistic, x, y=y.astype(int))


def hierarchical_of(dim):
    rng = np.random.default_rng(dim)
    group = np.repeat(np.arange(dim - 2), 8)
    y = rng.normal(1.0, 1.0, dim - 2)[group] + rng.standard_normal(len(group))
    return vicheck.from_numpyro(hierarchical, group, dim - 2, y=y)


def assert_exact(fit):
    """Compare with the posterior of `linear`, a Gaussian, and with its evidence."""
    x, y = (np.asarray(fit.model.data[name]) for name in ("x", "y"))
    covariance = np.linalg.inv(x.T @ x + np.eye(x.shape[1]) / 9.0)
    sd = np.sqrt(np.diagonal(covariance))
    assert fit.converged
    np.testing.assert_allclose((fit.mean - covariance @ x.T @ y) / sd, 0.0, atol=0.01)
    np.testing.assert_allclose((fit.covariance - covariance) / np.outer(sd, sd), 0.0, atol=0.01)
    marginal = stats.multivariate_normal(cov=np.eye(len(x)) + 9.0 * x @ x.T)
    assert fit.elbo == pytest.approx(marginal.logpdf(y), abs=0.01)


@pytest.mark.slow
def test_a_gaussian_posterior_of_two_hundred_parameters_is_found_as_it_is():
    assert_exact(vicheck.fit(linear_of(200), family="full_rank", num_starts=1))


@pytest.mark.slow
def test_a_hierarchical_model_of_26_parameters_converges_at_full_rank():
    assert vicheck.fit(hierarchical_of(26), family="full_rank", num_starts=1).converged


@pytest.mark.slow
def test_the_elbo_on_the_fixed_draws_is_that_on_fresh_ones():
    fit = vicheck.fit(logistic_of(20), family="full_rank", num_starts=1)
    assert fit.converged
    checked = vicheck.check(fit, num_draws=5000)
    assert checked.khat < 0.7
    elbo = checked.divergences.elbo
    assert fit.elbo == pytest.approx(elbo.value, abs=0.02 + 4.0 * elbo.mcse)


def test_mean_field_of_more_correlated_parameters_than_draws_is_exact_at_once():
    """16 draws and their negatives in 40 dimensions: what is known of the curvature makes up."""
    fit = vicheck.fit(linear_of(40), num_starts=1)
    assert fit.converged
    x, y = (np.asarray(fit.model.data[name]) for name in ("x", "y"))
    precision = x.T @ x + np.eye(40) / 9.0
    sd = 1.0 / np.sqrt(np.diagonal(precision))
    np.testing.assert_allclose(fit.sd, sd, rtol=1e-3)
    np.testing.assert_allclose((fit.mean - np.linalg.solve(precision, x.T @ y)) / sd, 0, atol=0.01)
    assert fit.solution.num_draws == 64


@pytest.mark.slow
def test_low_rank_finds_what_it_holds_in_sixty_dimensions():
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((60, 2))
    covariance = np.eye(60) + factor @ factor.T

    def log_density(z, data):
        return -0.5 * z @ data["precision"] @ z

    model = vicheck.from_log_density(
        log_density, np.zeros(60), data={"precision": np.linalg.inv(covariance)}
    )
    fit = vicheck.fit(model, family="low_rank", rank=2, num_starts=1)
    assert fit.converged
    sd = np.sqrt(np.diagonal(covariance))
    np.testing.assert_allclose((fit.covariance - covariance) / np.outer(sd, sd), 0.0, atol=0.05)


def test_a_runaway_on_few_draws_is_tried_again_with_more():
    heard = []
    fit = vicheck.fit(
        linear_of(20), family="full_rank", num_draws=32, num_starts=1, progress=heard.append
    )
    assert_exact(fit)
    assert fit.solution.num_draws >= 128
    assert "runs away on 32 draws, tried again on 128" in heard


def test_an_interrupt_after_a_runaway_has_no_elbo():
    def interrupt(sentence):
        if "runs away" in sentence:
            raise KeyboardInterrupt

    fit = vicheck.fit(
        linear_of(20), family="full_rank", num_draws=32, num_starts=1, progress=interrupt
    )
    assert fit.status is FitStatus.INTERRUPTED
    assert np.isnan(fit.elbo)


def flat_or_not(z, data):
    """A Gaussian in twenty dimensions or, for a scale of zero, no posterior at all."""
    return -0.5 * data["scale"] * z @ z - 0.01 * data["scale"] * jnp.sum(z) ** 2


@pytest.mark.slow
def test_only_those_of_many_fits_that_ran_away_are_tried_again():
    model = vicheck.from_log_density(flat_or_not, np.zeros(20), data={"scale": 1.0})
    scales = {"scale": np.array([1.0, 0.0, 4.0])}
    with double_precision():
        settled = Deterministic(num_restarts=0).solve_many(
            model.program, kind_of("full_rank", 20, None), {}, scales, np.arange(3)
        )
    assert [status.name for status in settled.status] == ["CONVERGED", "AT_INFINITY", "CONVERGED"]
    assert np.isnan(settled.elbo).tolist() == [False, True, False]
    assert settled.num_evaluations[1] > 4 * settled.num_evaluations[0]
    np.testing.assert_allclose(settled.num_evaluations[0], settled.num_evaluations[2], rtol=0.5)


@pytest.mark.slow
def test_vsbc_of_full_rank_with_twenty_parameters():
    x, _ = correlated_design(19, 60)
    calibration = vicheck.vsbc(
        vicheck.from_numpyro(linear_with_sigma, x), num_datasets=20, family="full_rank"
    )
    assert set(calibration.status.values) == {"CONVERGED"}
    assert np.median(calibration.khat) < 0.7


@pytest.mark.slow
def test_what_the_verdict_proposes_for_a_correlated_regression_works():
    model = linear_of(40)
    names = {"vicheck": vicheck, "model": model}
    first = vicheck.check(vicheck.fit(model, num_starts=1), num_draws=5000)
    assert first.verdict.level == "unreliable"
    assert 'family="full_rank"' in first.verdict.code
    exec(first.verdict.code, names)
    assert names["check"].verdict.level == "good"


def test_fewer_draws_than_the_family_needs_are_refused():
    message = "max_draws must be at least 128 for family='full_rank' and 20 parameters, got 64"
    with pytest.raises(ValueError, match=message):
        vicheck.fit(linear_of(20), family="full_rank", max_draws=64)
    with pytest.raises(ValueError, match=message):
        vicheck.vsbc(linear_of(20), family="full_rank", max_draws=64)


@pytest.mark.slow
def test_mean_field_whose_correction_for_few_draws_misleads_does_without_it():
    """On 32 draws in 60 dimensions it outweighs a density that is not quadratic far enough."""
    rng = np.random.default_rng(60)
    common = rng.standard_normal((1200, 1))
    x = np.sqrt(0.7) * common + np.sqrt(0.3) * rng.standard_normal((1200, 60))
    chance = 1.0 / (1.0 + np.exp(-x @ rng.normal(0.0, 0.5, 60)))
    data = {"x": x, "y": (rng.random(1200) < chance).astype(float)}

    def log_density(z, data):
        logits = data["x"] @ z
        return (data["y"] * logits - jnp.logaddexp(0.0, logits)).sum() - 0.08 * (z @ z)

    model = vicheck.from_log_density(log_density, np.zeros(60), data=data)
    fit, reference = (
        vicheck.fit(model, num_starts=1, num_draws=num_draws) for num_draws in (None, 1024)
    )
    assert fit.status is reference.status is FitStatus.CONVERGED
    assert fit.elbo == pytest.approx(reference.elbo, abs=0.2)
    assert fit.solution.num_evaluations < 100_000
    np.testing.assert_allclose(fit.mean, reference.mean, atol=0.1 * reference.sd.min())
