"""The Gaussian behind log densities, and the scale that they are densities on."""

import numpy as np
import pytest
from scipy import stats

import vicheck
from tests.gaussians import CORRELATED, FACTOR, LOC, constant_of, constrained, made_up
from vicheck.stats.constraint_search import Columns, is_on_constrained_scale, recover_from_columns
from vicheck.stats.gaussian_recovery import recover_gaussian


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("mean_known", [False, True])
def test_gaussian_is_recovered_from_densities_with_any_constant(full, mean_known):
    z, _, quadratic = made_up(CORRELATED if full else FACTOR)
    found = recover_gaussian(z, quadratic + 7.0, full=full, mean=LOC if mean_known else None)
    factor = CORRELATED if full else FACTOR
    assert found.exact
    np.testing.assert_allclose(found.mean, LOC, atol=1e-7)
    np.testing.assert_allclose(found.scales, np.sqrt(np.diag(factor @ factor.T)), rtol=1e-7)
    assert found.constant == pytest.approx(constant_of(factor) - 7.0, abs=1e-7)


def test_constant_is_as_good_as_its_stated_error():
    z, _, quadratic = made_up()
    misses = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        moved = z + rng.uniform(-1e-3, 1e-3, size=z.shape)
        found = recover_gaussian(moved, quadratic, full=False, mean=LOC, peak=0.0, z_rounding=1e-3)
        assert found.exact
        misses.append((found.constant - constant_of(FACTOR)) / found.constant_error)
    assert np.sqrt(np.mean(np.square(misses))) < 1.0


@pytest.mark.parametrize("full", [False, True])
def test_densities_of_no_gaussian_are_not_explained(full):
    z, log_p, _ = made_up()
    found = recover_gaussian(z, log_p, full=full, z_rounding=1e-6, log_q_rounding=1e-6)
    assert not found.exact
    assert "no Gaussian" in found.reason


def test_arguments_that_do_not_fit_are_refused():
    z, _, log_q = made_up()
    with pytest.raises(ValueError, match=r"z must have shape \(S, d\)"):
        recover_gaussian(z, log_q[1:], full=False)
    with pytest.raises(ValueError, match=r"mean must have shape \(5,\), got shape \(4,\)"):
        recover_gaussian(z, log_q, full=False, mean=LOC[:4])
    with pytest.raises(ValueError, match="peak goes with mean"):
        recover_gaussian(z, log_q, full=False, peak=0.0)


def test_constraints_are_told_apart():
    z, _, log_q = made_up()
    values = constrained(z)
    variables = [Columns(values[:, [i]], np.full((400, 1), 1e-9)) for i in range(5)]
    found = recover_from_columns(variables, log_q, full=False, log_q_rounding=1e-9)
    inf = np.inf
    assert found.intervals == (*[(-inf, inf)] * 3, (0.0, inf), (0.0, 1.0))
    np.testing.assert_allclose(found.gaussian.mean, LOC, atol=1e-6)


def test_free_parameter_that_happens_to_be_positive():
    eta = np.random.default_rng(5).normal(size=(200, 1))
    variables = [Columns(10.0 + eta, np.full((200, 1), 5e-5))]
    found = recover_from_columns(variables, -0.5 * eta[:, 0] ** 2, full=False, log_q_rounding=5e-6)
    assert found.intervals == ((-np.inf, np.inf),)
    assert found.gaussian.constant == pytest.approx(-np.log(2 * np.pi) / 2, abs=1e-4)


def test_constraint_that_the_digits_do_not_decide_is_left_open():
    eta = np.random.default_rng(5).normal(size=(200, 1))
    variables = [Columns(1e4 + eta, np.full((200, 1), 5e-4))]
    found = recover_from_columns(variables, -0.5 * eta[:, 0] ** 2, full=False, log_q_rounding=5e-6)
    assert found.gaussian is None
    assert "to tell which variables are constrained" in found.reason


@pytest.mark.parametrize("factor", [FACTOR, CORRELATED], ids=["independent", "correlated"])
def test_a_density_of_parameters_on_their_own_scale_is_recognised(factor):
    z, _, quadratic = made_up(factor, size=2000)
    values = constrained(z)
    log_jacobian = z[:, 3] + np.log(values[:, 4]) + np.log1p(-values[:, 4])
    assert is_on_constrained_scale(values, quadratic) == ()
    assert is_on_constrained_scale(values, quadratic - log_jacobian) == (3, 4)


def test_a_density_that_is_no_gaussian_is_left_alone():
    z, _, _ = made_up(size=2000)
    values = constrained(z)
    assert is_on_constrained_scale(values, stats.t(4).logpdf(z).sum(axis=1)) == ()
    assert is_on_constrained_scale(values, np.full(2000, np.nan)) == ()


def test_check_draws_says_so():
    z = np.random.default_rng(1).normal(size=(4000, 2))
    log_q = stats.norm.logpdf(z).sum(axis=1)
    draws = {"mu": z[:, 0], "tau": np.exp(z[:, 1])}
    right = vicheck.check_draws(draws, log_p=log_q, log_q=log_q)
    wrong = vicheck.check_draws(draws, log_p=log_q, log_q=log_q - z[:, 1])
    assert right.notes == ()
    assert wrong.notes[0].startswith("log_q is a density of tau as they are, not on the")
    assert wrong.notes[0] in str(wrong)
