"""Which scale a Gaussian log density is on."""

import numpy as np
import pytest
from scipy import stats

import vicheck
from tests.gaussians import CORRELATED, FACTOR, constrained, made_up
from vicheck.stats.density_scale import columns_on_their_own_scale


@pytest.mark.parametrize("factor", [FACTOR, CORRELATED], ids=["independent", "correlated"])
def test_a_density_of_parameters_on_their_own_scale_is_recognised(factor):
    z, _, quadratic = made_up(factor, size=2000)
    values = constrained(z)
    log_jacobian = z[:, 3] + np.log(values[:, 4]) + np.log1p(-values[:, 4])
    assert columns_on_their_own_scale(values, quadratic) == ()
    assert columns_on_their_own_scale(values, quadratic - log_jacobian) == (3, 4)
    assert columns_on_their_own_scale(values, quadratic - log_jacobian + 500.0) == (3, 4)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (0.0, np.inf), (-np.inf, 0.0)])
def test_every_kind_of_bound_is_tried(low, high):
    z = np.random.default_rng(3).normal(size=2000)
    if np.isinf(high):
        x, log_jacobian = np.exp(z), z
    elif np.isinf(low):
        x, log_jacobian = -np.exp(z), z
    else:
        x = low + (high - low) / (1.0 + np.exp(-z))
        log_jacobian = np.log((x - low) * (high - x))
    log_q = stats.norm.logpdf(z)
    assert columns_on_their_own_scale(x[:, None], log_q) == ()
    assert columns_on_their_own_scale(x[:, None], log_q - log_jacobian) == (0,)


def test_free_parameters_are_never_named():
    z, _, quadratic = made_up(size=2000)
    assert columns_on_their_own_scale(z[:, :3], quadratic) == ()
    assert columns_on_their_own_scale(z[:, :3], -(z[:, :3] ** 2).sum(axis=1)) == ()


def test_a_density_that_is_not_gaussian_is_left_alone():
    z, _, _ = made_up(size=2000)
    values = constrained(z)
    assert columns_on_their_own_scale(values, stats.t(4).logpdf(z).sum(axis=1)) == ()
    assert columns_on_their_own_scale(values, np.full(2000, np.nan)) == ()
    assert columns_on_their_own_scale(values, +(z**2).sum(axis=1)) == ()  # grows outwards


def test_constant_columns_and_too_few_draws_decide_nothing():
    z, _, quadratic = made_up(size=2000)
    values = constrained(z)
    log_jacobian = z[:, 3] + np.log(values[:, 4]) + np.log1p(-values[:, 4])
    few = slice(15)
    assert columns_on_their_own_scale(values[few], (quadratic - log_jacobian)[few]) == ()
    values[:, 0] = 1.5
    assert columns_on_their_own_scale(values, quadratic - log_jacobian) == ()


def test_check_draws_says_so():
    z = np.random.default_rng(1).normal(size=(4000, 2))
    log_q = stats.norm.logpdf(z).sum(axis=1)
    draws = {"mu": z[:, 0], "tau": np.exp(z[:, 1])}
    right = vicheck.check_draws(draws, log_p=log_q, log_q=log_q)
    wrong = vicheck.check_draws(draws, log_p=log_q, log_q=log_q - z[:, 1])
    assert right.notes == ()
    assert wrong.notes[0].startswith("log_q is a density of tau as they are, not on the")
    assert wrong.notes[0] in str(wrong)
