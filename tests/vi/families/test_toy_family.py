"""A family written in ten lines goes all the way: fit, check, calibration, report."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.scipy.stats import norm

import vicheck
from vicheck.model import double_precision
from vicheck.vi.families.abilities import HasEntropy, HasMarginals, HasMoments, HasRoots
from vicheck.vi.families.family import Family
from vicheck.vi.families.mixture import Mixture
from vicheck.vi.families.registry import family_names, register, unregister
from vicheck.vi.gradient_test import gradient_test

SKEW = 0.2


class SinhNormal(Family):
    centre: jax.Array
    log_scale: jax.Array
    dim = property(lambda self: self.centre.shape[-1])

    def transform(self, noise):
        return self.centre + jnp.exp(self.log_scale) * jnp.sinh(noise / 2 + SKEW)

    def log_prob(self, z):
        scaled = (z - self.centre) / jnp.exp(self.log_scale)
        slope = self.log_scale + jnp.log(jnp.sqrt(1 + scaled**2) / 2)
        return jnp.sum(norm.logpdf(2 * (jnp.arcsinh(scaled) - SKEW)) - slope)

    @classmethod
    def start(cls, z, curvature, shrink=1.0):
        return cls(z, jnp.log(2 * shrink / jnp.sqrt(curvature.precisions)))


CENTRE, LOG_SCALE = np.array([1.0, -300.0, 0.02]), np.array([0.0, 3.0, -5.0])


@pytest.fixture(scope="module", autouse=True)
def registered():
    register("sinh_normal", SinhNormal, summary="skewed, with heavier tails", richer=("full_rank",))
    yield
    unregister("sinh_normal")


@pytest.fixture(scope="module")
def own_posterior():
    """A posterior that the family holds, in very different units."""
    member = SinhNormal(CENTRE, LOG_SCALE)
    return vicheck.from_log_density(member.log_prob, np.zeros(3))


@pytest.fixture(scope="module")
def fit(own_posterior):
    return vicheck.fit(own_posterior, family="sinh_normal")


def location_and_scale(num_points, y=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(mu, sigma).expand([num_points]), obs=y)


def test_it_has_no_abilities():
    assert not issubclass(SinhNormal, HasEntropy | HasMarginals | HasMoments | HasRoots)


def test_the_deterministic_solver_finds_a_posterior_that_the_family_holds(fit):
    assert fit.converged
    scale = np.exp(LOG_SCALE)
    # The entropy is estimated from the solver's own draws, doubled until their error is 0.05 sd.
    np.testing.assert_allclose((fit.q.centre - CENTRE) / scale, 0.0, atol=0.05)
    np.testing.assert_allclose(fit.q.log_scale, LOG_SCALE, atol=0.05)
    assert fit.elbo == pytest.approx(0.0, abs=1e-3)
    assert fit.solution.others == ()


def test_moments_are_those_of_the_draws(fit):
    # Of sinh(e / 2 + SKEW), e standard normal.
    mean = np.exp(1 / 8) * np.sinh(SKEW)
    variance = 0.5 * (np.exp(0.5) * np.cosh(2 * SKEW) - 1) - mean**2
    scale = np.exp(LOG_SCALE)
    np.testing.assert_allclose((fit.mean - CENTRE) / scale, mean, atol=0.02)
    np.testing.assert_allclose(fit.sd / scale, np.sqrt(variance), rtol=0.03)
    correlation = fit.covariance / np.outer(fit.sd, fit.sd)
    np.testing.assert_allclose(correlation, np.eye(3), atol=0.04)  # 5 standard errors
    np.testing.assert_allclose(np.diag(correlation), 1.0, rtol=1e-9)
    assert np.array_equal(fit.mean, fit.mean)


def test_the_check_is_good_and_can_be_reported(fit, tmp_path):
    checked = vicheck.check(fit, num_draws=5000)
    assert checked.khat < 0.5
    assert checked.verdict.level == "good"
    assert checked.convergence.gradient.size < 0.1
    page = checked.report(tmp_path / "check.html").read_text()
    assert "sinh_normal" in page


def test_a_parameter_of_the_family_is_named_where_the_gradient_is_large(own_posterior):
    with double_precision():
        off = SinhNormal(jnp.asarray(CENTRE), jnp.asarray(LOG_SCALE + np.array([0, 1, 0])))
        test = gradient_test(own_posterior, off)
    assert test.worst == "q's log_scale[1]"
    assert test.p_value < 1e-6


def test_steps_are_measured_in_sds():
    with double_precision():
        units = np.asarray(SinhNormal(jnp.asarray(CENTRE), jnp.asarray(LOG_SCALE)).units())
    # A shift by one sd, and a factor: within the error of 64 draws of a skewed distribution.
    np.testing.assert_allclose(units[:3] / np.exp(LOG_SCALE), 0.6, atol=0.15)
    np.testing.assert_allclose(units[3:], 1.0, atol=0.3)


def test_the_stochastic_solver_fits_it():
    model = vicheck.from_log_density(lambda x: -0.5 * jnp.sum(x**2), np.zeros(2))
    best = vicheck.fit(model, family="sinh_normal")
    found = vicheck.fit(model, family="sinh_normal", solver="stochastic", num_steps=2000)
    assert found.converged
    np.testing.assert_allclose(found.q.centre, best.q.centre, atol=0.1)
    np.testing.assert_allclose(found.q.log_scale, best.q.log_scale, atol=0.1)


def test_stans_algorithm_does_not_know_it(own_posterior):
    with pytest.raises(ValueError, match="must be mean_field or full_rank for Stan, got 'sinh"):
        vicheck.fit(own_posterior, family="sinh_normal", solver="stan_advi")


def test_other_modes_are_found_and_fitted():
    two = SinhNormal(np.zeros(1), np.zeros(1)), SinhNormal(np.full(1, 5.0), np.zeros(1))

    def log_density(x):
        return jnp.logaddexp(jnp.log(0.4) + two[0].log_prob(x), jnp.log(0.6) + two[1].log_prob(x))

    model = vicheck.from_log_density(log_density, np.zeros(1))
    fit = vicheck.fit(model, family="sinh_normal")
    assert fit.converged
    assert fit.elbo == pytest.approx(np.log(0.6), abs=0.01)
    assert fit.q.centre[0] == pytest.approx(5.0, abs=0.05)
    (other,) = fit.solution.others
    assert other.elbo == pytest.approx(np.log(0.4), abs=0.01)
    assert other.q.centre[0] == pytest.approx(0.0, abs=0.05)


def test_calibration(tmp_path):
    model = vicheck.from_numpyro(location_and_scale, 8)
    calibration = vicheck.vsbc(model, num_datasets=100, family="sinh_normal")
    assert list(calibration.probabilities["quantity"].values) == ["mu", "sigma", "log_likelihood"]
    probabilities = calibration.probabilities.to_numpy()
    # Ranked among draws: no probability is exactly 0 or 1.
    assert ((probabilities > 0.0) & (probabilities < 1.0)).all()
    assert set(calibration.status.values) == {"CONVERGED"}
    assert np.median(calibration.khat) < 0.7
    # Of 100 values that should be uniform, between 25 and 75 lie below 1/2, but for 1 in 10^6.
    assert 25 <= np.sum(probabilities[:, 0] < 0.5) <= 75
    page = calibration.report(tmp_path / "calibration.html").read_text()
    assert "sinh_normal" in page


ERRORS = {
    "taken": (("mean_field", SinhNormal), ValueError, "there is a family called 'mean_field'"),
    "no class": (("toy", SinhNormal(CENTRE, LOG_SCALE)), TypeError, "a class derived from Family"),
    "no start": (("toy", Mixture), TypeError, "Mixture has no class method `start`"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_cannot_be_registered(case):
    arguments, error, message = ERRORS[case]
    with pytest.raises(error, match=message):
        register(*arguments)


class NotSummed(SinhNormal):
    def log_prob(self, z):
        return norm.logpdf(z)


class TooLong(SinhNormal):
    def transform(self, noise):
        return jnp.append(super().transform(noise), 0.0)


SHAPES = {
    "log_prob": (NotSummed, r"a log_prob that returns shape \(\), got \(3,\): sum over the coord"),
    "transform": (TooLong, r"a transform that returns shape \(3,\), got \(4,\)$"),
}


@pytest.mark.parametrize("solver", ["deterministic", "stochastic"])
@pytest.mark.parametrize("method", SHAPES)
def test_a_method_that_returns_another_shape_is_named(method, solver, own_posterior):
    family, message = SHAPES[method]
    register("wrong", family)
    try:
        with pytest.raises(ValueError, match=f"family='wrong' must have {message}"):
            vicheck.fit(own_posterior, family="wrong", solver=solver)
    finally:
        unregister("wrong")


def test_registering_again_changes_nothing():
    before = family_names()
    register("sinh_normal", SinhNormal, summary="skewed, with heavier tails", richer=("full_rank",))
    assert family_names() == before == (*before[:4], "sinh_normal")


def test_vichecks_own_families_stay():
    with pytest.raises(ValueError, match="'low_rank' is vicheck's own"):
        unregister("low_rank")
