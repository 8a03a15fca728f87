"""Linear response: against closed forms, quadrature and DADVI's formula, and where it is none."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

import vicheck
from tests.adapters.test_stan import stan_model
from vicheck.errors import ArgumentError
from vicheck.model import double_precision
from vicheck.paper.exact import eight_schools, logistic_plane
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_noncentred, logistic
from vicheck.results.linear_response import ResponseStatus
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.response.solving import by_conjugate_gradients
from vicheck.vi.solvers.deterministic.noise import make_noise, standardised

RHO = 0.9


def gaussian(dim):
    """Return a model with a correlated normal posterior, and its covariance."""
    rng = np.random.default_rng(dim)
    factor = rng.normal(size=(dim, dim + 3))
    covariance = factor @ factor.T / (dim + 3) + 0.05 * np.eye(dim)

    def log_density(x, data):
        deviation = x - data["mean"]
        return -0.5 * deviation @ data["precision"] @ deviation

    data = {"precision": np.linalg.inv(covariance), "mean": rng.normal(size=dim)}
    return vicheck.from_log_density(log_density, np.zeros(dim), data=data), covariance


def autoregression(x):
    """A chain of correlated normals with unit variances."""
    return -0.5 * (x[0] ** 2 + jnp.sum((x[1:] - RHO * x[:-1]) ** 2) / (1 - RHO**2))


def known_noise(X, y=None):  # noqa: N803
    beta = numpyro.sample("beta", dist.Normal(0.0, 1.0).expand([X.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Normal(X @ beta, 1.0), obs=y)


def test_linear_regression_against_its_exact_posterior():
    rng = np.random.default_rng(1)
    design = rng.normal(size=(40, 5)) + 1.5 * rng.normal(size=(40, 1))
    model = vicheck.from_numpyro(known_noise, X=design, y=design.sum(axis=1))
    fitted = vicheck.fit(model, num_starts=1)
    covariance = np.linalg.inv(design.T @ design + np.eye(5))
    np.testing.assert_allclose(fitted.linear_response().covariance, covariance, rtol=1e-6)
    assert (fitted.sd / np.sqrt(np.diag(covariance)) < 0.7).all()


def schools_fit(**options):
    model = vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
    return vicheck.fit(model, num_starts=1, **options)


def moved(fit, shift):
    """Return the fit with its mean shifted by so many of its sds."""
    with double_precision():
        q = MeanField(fit.q.loc + shift * fit.q.sd, fit.q.log_scale)
    return replace(fit, solution=replace(fit.solution, q=q))


def placed(model, q):
    """Return a fit that says to have found q."""
    fitted = schools_fit()
    return replace(fitted, model=model, solution=replace(fitted.solution, q=q))


@pytest.mark.parametrize("dim", [1, 2, 10, pytest.param(200, marks=pytest.mark.slow)])
def test_a_normal_posterior_is_recovered_exactly(dim):
    model, covariance = gaussian(dim)
    fitted = vicheck.fit(model, num_starts=1)
    response = fitted.linear_response()
    assert response.status is ResponseStatus.OK
    np.testing.assert_allclose(response.covariance, covariance, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(response.sd, np.sqrt(np.diag(covariance)), rtol=1e-8)
    np.testing.assert_allclose(response.coordinates, response.sd, rtol=1e-8)
    assert list(response.sd.index) == list(model.coordinates)
    assert response.num_evaluations == 2 * 2 * dim * 256
    if dim > 2:
        assert (fitted.sd / response.sd).min() < 0.9  # which mean field has too small


@pytest.mark.parametrize("family", ["full_rank", "low_rank"])
def test_families_with_correlations_keep_what_they_have(family):
    model, covariance = gaussian(3)
    rank = 1 if family == "low_rank" else None  # of a higher one the factor can be turned
    fitted = vicheck.fit(model, family=family, rank=rank, num_starts=1)
    response = fitted.linear_response()
    np.testing.assert_allclose(response.covariance, covariance, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_thousands_of_parameters_by_conjugate_gradients():
    fitted = vicheck.fit(vicheck.from_log_density(autoregression, np.zeros(5000)), num_starts=1)
    response = fitted.linear_response(["x[0]", "x[1]", "x[2500]"])
    expected = [[1.0, RHO, 0.0], [RHO, 1.0, 0.0], [0.0, 0.0, 1.0]]
    np.testing.assert_allclose(response.covariance, expected, atol=1e-5)
    assert response.num_draws == 64
    assert 0 < response.num_evaluations <= 2 * 64 * 3 * response.num_iterations
    assert response.num_iterations < 200
    assert len(response.coordinates) == 0
    with pytest.raises(ValueError, match="5000 parameters was not computed"):
        response.approximation()
    mean = fitted.linear_response({"mean": lambda theta: theta["x"].mean()})
    lags = np.arange(1, 5000)
    variance = (5000 + 2 * ((5000 - lags) * RHO**lags).sum()) / 5000**2
    assert mean.sd["mean"] == pytest.approx(np.sqrt(variance), rel=1e-5)
    with pytest.raises(ArgumentError, match="at most 256 for a fit of 10000 variational"):
        fitted.linear_response()


def test_it_is_dadvis_formula():
    """On the same draws, with JAX's Hessian in the family's own parameters, not in steps."""

    def log_density(x):
        return -(x[0] ** 2) - jnp.exp(0.3 * x[0]) * (x[1] - x[0]) ** 2 - 0.1 * x[1] ** 4

    functions = {
        "linear": lambda theta: theta["x"][0],
        "curved": lambda theta: jnp.exp(theta["x"][1]),
        "joint": lambda theta: theta["x"][0] * theta["x"][1],
    }
    fitted = vicheck.fit(vicheck.from_log_density(log_density, np.zeros(2)), num_starts=1)
    response = fitted.linear_response(functions, num_draws=64)
    with double_precision():
        half = standardised(make_noise(64, 2, np.array([fitted.seed])))[0]
        noise = jnp.asarray(np.concatenate([half, -half]))

        def draws(parameters):
            return parameters[:2] + jnp.exp(parameters[2:]) * noise

        def objective(parameters):
            return -jax.vmap(log_density)(draws(parameters)).mean() - parameters[2:].sum()

        def means(parameters):
            each = [
                jax.vmap(lambda x, function=function: function({"x": x}))(draws(parameters)).mean()
                for function in functions.values()
            ]
            return jnp.stack(each)

        at = jnp.concatenate([fitted.q.loc, fitted.q.log_scale])
        slopes = jax.jacobian(means)(at)
        expected = slopes @ jnp.linalg.solve(jax.hessian(objective)(at), slopes.T)
    np.testing.assert_allclose(response.covariance, expected, rtol=1e-5)


def test_eight_schools_against_quadrature():
    """log tau gains most; on their own scale, tau and theta lose what a first order leaves out."""
    prior = stats.halfcauchy(scale=5.0).logpdf
    exact = eight_schools(EIGHT_SCHOOLS["y"], EIGHT_SCHOOLS["sigma"], 5.0, prior)
    fitted = schools_fit()
    response = fitted.linear_response()
    log_tau = fitted.sd[fitted.model.coordinates.index("tau")]
    assert log_tau / exact.sd("log_tau") < 0.7
    assert 0.85 < response.coordinates["tau"] / exact.sd("log_tau") < 1.0
    for name in ("mu", "theta_raw[0]", "theta_raw[5]"):
        assert response.sd[name] == pytest.approx(exact.sd(name), rel=0.05)
    for name in ("tau", "theta[0]"):
        assert 0.75 < response.sd[name] / exact.sd(name) < 0.9


def test_logistic_regression_against_quadrature():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    x[:, 1] = 0.95 * x[:, 0] + 0.3 * x[:, 1]
    y = (rng.random(50) < 1 / (1 + np.exp(-x @ [1.0, -0.5]))).astype(float)
    plane = logistic_plane(x, y)
    sds = np.sqrt(plane.second_moment - plane.mean**2)
    fitted = vicheck.fit(vicheck.from_numpyro(logistic, X=x, y=y), num_starts=1)
    response = fitted.linear_response()
    assert (fitted.sd / sds < 0.35).all()
    np.testing.assert_allclose(response.sd, sds, rtol=0.03)
    correlation = response.covariance.iloc[0, 1] / np.prod(response.sd)
    assert correlation == pytest.approx(plane.correlation, abs=0.01)


def test_a_model_on_the_host_has_the_same_response():
    native = schools_fit()
    on_host = replace(native, model=stan_model(0))
    of_host = on_host.linear_response(["mu", "tau", "theta[1]"])  # as Stan counts
    of_native = native.linear_response(["mu", "tau", "theta[0]"])
    assert of_host.status is ResponseStatus.OK
    np.testing.assert_allclose(of_host.sd, of_native.sd, rtol=1e-6)


def test_a_fit_that_is_no_optimum_has_none():
    response = moved(schools_fit(), 2.0).linear_response()
    assert response.status is ResponseStatus.NOT_AT_OPTIMUM
    assert response.sd.isna().all()
    assert response.coordinates.isna().all()
    assert response.covariance.isna().all(axis=None)
    with pytest.raises(ValueError, match="the gradient at the fit is not zero"):
        response.sample()


@pytest.mark.parametrize("dim", [2, 300])  # factored, and by conjugate gradients
def test_a_saddle_point_has_none(dim):
    """Between two modes in each pair of coordinates the gradient is zero, but nothing is best."""
    steepness, coupling = 0.01, 2.0

    def log_density(x):
        pairs = coupling * jnp.sum(x[0::2] * x[1::2])
        return pairs - jnp.sum(x**2) / 2.0 - steepness * jnp.sum(x**4)

    # The best variance of normals around zero is one over the mean of the second derivative.
    variance = (np.sqrt(1.0 + 48.0 * steepness) - 1.0) / (24.0 * steepness)
    with double_precision():
        q = MeanField(jnp.zeros(dim), jnp.full(dim, 0.5 * np.log(variance)))
    fitted = placed(vicheck.from_log_density(log_density, np.zeros(dim)), q)
    response = fitted.linear_response(["x[0]"])
    assert response.status is ResponseStatus.NOT_POSITIVE
    assert np.isnan(response.sd["x[0]"])


def test_a_density_that_is_not_finite_everywhere_has_none():
    with double_precision():
        q = MeanField(jnp.zeros(2), jnp.zeros(2))

    def log_density(x):  # its gradient is that of a normal
        return jnp.sum(0.0 * jnp.log(x) - x**2 / 2.0)

    response = placed(vicheck.from_log_density(log_density, np.ones(2)), q).linear_response()
    assert response.status is ResponseStatus.NOT_FINITE
    assert response.sd.isna().all()


@pytest.mark.parametrize("dim", [2, 300])
def test_truth_values_have_no_response_and_constants_no_spread(dim):
    model = vicheck.from_log_density(autoregression, np.zeros(dim))
    response = vicheck.fit(model, num_starts=1).linear_response(
        {
            "positive": lambda theta: theta["x"][0] > 0.1,
            "constant": lambda theta: 3.0 + 0.0 * theta["x"][0],
            "part": lambda theta: jnp.maximum(theta["x"][0], 0.0),
        }
    )
    assert np.isnan(response.sd["positive"])
    assert response.sd["constant"] == 0.0
    assert response.sd["part"] == pytest.approx(0.5, abs=0.1)


def test_a_factor_that_can_be_turned_is_no_optimum():
    response = schools_fit(family="low_rank", rank=3).linear_response()
    assert response.status is ResponseStatus.NOT_POSITIVE


@pytest.mark.slow
def test_vsbc_finds_mean_field_too_narrow_and_the_response_not():
    """Correlated regression: sds of mean field are 0.56 of the exact ones."""
    rng = np.random.default_rng(1)
    design = rng.normal(size=(40, 5)) + 1.5 * rng.normal(size=(40, 1))
    model = vicheck.from_numpyro(known_noise, X=design)

    def plain(data, seed):
        return vicheck.fit(model, data, seed=seed, num_starts=1)

    def corrected(data, seed):
        return plain(data, seed).linear_response().sample(seed=seed)

    narrow, calibrated = (
        vicheck.vsbc(model, fit=each, num_datasets=200, quantities=["beta"], progress=False).tests
        for each in (plain, corrected)
    )
    # By 95% intervals of the factor that sds lack, and by the test of coverage.
    assert (narrow["dispersion_low"] > 1.0).all()
    assert not narrow["covers"].any()
    assert (calibrated["dispersion_low"] < 1.0).all()
    assert (calibrated["dispersion_high"] > 1.0).all()
    assert calibrated["covers"].all()


def test_conjugate_gradients_say_when_they_have_not_arrived():
    matrix = np.diag(np.geomspace(1.0, 1e4, 50))
    right = np.ones((2, 50))
    right[1, 1:] = 0.0  # an eigenvector: one step
    solved = by_conjugate_gradients(lambda rows: rows @ matrix, right, 1e-6, 5)
    assert solved.status is ResponseStatus.NOT_SOLVED
    assert np.isnan(solved.x[0]).all()
    np.testing.assert_allclose(solved.x[1], right[1])
    whole = by_conjugate_gradients(lambda rows: rows @ matrix, right, 1e-9, 500)
    np.testing.assert_allclose(whole.x @ matrix, right, atol=1e-8)
    backwards = by_conjugate_gradients(lambda rows: -rows @ matrix, right, 1e-6, 5)
    assert backwards.status is ResponseStatus.NOT_POSITIVE
    assert np.isnan(backwards.x).all()


def test_draws_of_the_corrected_normal():
    model, covariance = gaussian(2)
    response = vicheck.fit(model, num_starts=1).linear_response()
    q = response.approximation()
    with double_precision():
        np.testing.assert_allclose(q.covariance(), covariance, rtol=1e-6)
    draws = response.sample(50_000, seed=3)["x"]
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.02)


def test_the_same_fit_gives_the_same_bits():
    first, second = (schools_fit().linear_response() for _ in range(2))
    assert (first.sd == second.sd).all()
    assert first.to_dict() == second.to_dict()
    assert repr(first) == "LinearResponse(OK, 18 quantities, 256 draws, 10240 evaluations)"


def test_bad_input():
    fitted = schools_fit()
    with pytest.raises(ArgumentError, match="num_draws must be even, got 7"):
        fitted.linear_response(num_draws=7)
    with pytest.raises(ArgumentError, match="num_draws must be an integer from 2 on, got 0"):
        fitted.linear_response(num_draws=0)
    with pytest.raises(ArgumentError, match="quantities has 'nu'"):
        fitted.linear_response(["nu"])
