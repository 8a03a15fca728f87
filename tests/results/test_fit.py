"""`Fit`: what it says about its approximation."""

import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.results.fit import Fit, Solution
from vicheck.results.status import FitStatus
from vicheck.vi.families.full_rank import FullRank
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.families.mixture import Mixture

LOC, FACTOR = np.array([1.0, -2.0]), np.array([[2.0, 0.0], [0.6, 0.8]])


def fit_of(q, status=FitStatus.CONVERGED, elbo=-1.5):
    model = vicheck.from_log_density(lambda x: -jnp.sum(x**2), np.zeros(2))
    return Fit(model, "full_rank", "deterministic", 0, Solution(q, status, elbo, 10), 0.1)


def test_closed_forms_are_exact():
    fit = fit_of(FullRank(LOC, FACTOR))
    np.testing.assert_array_equal(fit.mean, LOC)
    np.testing.assert_allclose(fit.sd, [2.0, 1.0], rtol=1e-15)
    np.testing.assert_allclose(fit.covariance, FACTOR @ FACTOR.T, rtol=1e-15)


def test_without_closed_forms_moments_are_estimated_from_draws():
    members = (MeanField(np.array([-3.0, 0.0]), np.zeros(2)), MeanField(np.zeros(2), np.zeros(2)))
    fit = fit_of(Mixture(members, np.array([0.25, 0.75])))
    # 16,384 draws: errors of 1% of an sd; five of them are allowed.
    sds = np.sqrt([1.0 + 9.0 * 0.25 * 0.75, 1.0])
    np.testing.assert_allclose((fit.mean - [-0.75, 0.0]) / sds, 0.0, atol=0.05)
    np.testing.assert_allclose(fit.sd, sds, rtol=0.05)
    np.testing.assert_allclose(np.diagonal(fit.covariance), fit.sd**2, rtol=1e-12)
    np.testing.assert_array_equal(fit.mean, fit.mean)
    assert fit.mean.dtype == fit.sd.dtype == fit.covariance.dtype == np.float64
    assert jnp.ones(1).dtype == jnp.float32  # the caller's precision is left alone


def test_draws_have_the_names_of_the_model():
    fit = fit_of(FullRank(LOC, FACTOR))
    draws = fit.sample(2000, seed=1)
    assert {name: value.shape for name, value in draws.items()} == {"x": (2000, 2)}
    # Five standard errors.
    np.testing.assert_allclose(draws["x"].mean(axis=0), LOC, atol=5 * 2.0 / np.sqrt(2000))
    np.testing.assert_array_equal(draws["x"], fit.sample(2000, seed=1)["x"])


@pytest.mark.parametrize("status", FitStatus)
def test_only_one_status_means_converged(status):
    assert fit_of(FullRank(LOC, FACTOR), status).converged == (status.name == "CONVERGED")


def test_printed():
    assert repr(fit_of(FullRank(LOC, FACTOR))) == (
        "Fit(full_rank, 2 parameters, deterministic: CONVERGED, ELBO -1.50)"
    )
    lost = fit_of(FullRank(LOC, FACTOR), FitStatus.AT_INFINITY, np.nan)
    assert repr(lost) == "Fit(full_rank, 2 parameters, deterministic: AT_INFINITY)"
