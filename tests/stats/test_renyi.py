"""Renyi variational inference: against divergences of normals, which are known in closed form."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal, norm

from vicheck.paper.tailored import renyi_of_normals
from vicheck.stats.renyi import (
    LEAST_ORDER,
    NORMAL_DF,
    fit_renyi,
    log_mean_power,
    order_for,
    renyi_objective,
    renyi_step,
)
from vicheck.stats.split_t import split_t
from vicheck.stats.t_mixtures import single_t

COVARIANCE = 0.5 + 0.5 * np.eye(4)


def log_density(z):
    return multivariate_normal(np.zeros(4), COVARIANCE).logpdf(z)


def normal(sd, dim=4):
    return single_t(np.zeros(dim), sd * np.eye(dim), NORMAL_DF)


def test_divergences_of_normals_are_those_of_quadrature():
    x = np.linspace(-30.0, 30.0, 200_001)
    p, q = norm.pdf(x), norm.pdf(x, scale=1.3)
    for alpha in (0.5, 2.0):
        integral = np.trapezoid(p**alpha * q ** (1.0 - alpha), x)
        exact = np.log(integral) / (alpha - 1.0)
        assert renyi_of_normals(alpha, np.eye(1), 1.3) == pytest.approx(exact, abs=1e-9)
    kl = np.trapezoid(p * (norm.logpdf(x) - norm.logpdf(x, scale=1.3)), x)
    assert renyi_of_normals(1.0, np.eye(1), 1.3) == pytest.approx(kl, abs=1e-9)
    assert renyi_of_normals(2.0, np.eye(1), 0.5) == np.inf


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5])
def test_the_objective_is_the_divergence(alpha, smooth):
    z = normal(1.5).draw(np.random.default_rng(1), 100_000)
    found = renyi_objective(log_density(z) - normal(1.5).log_density(z) + 7.0, alpha, smooth=smooth)
    exact = renyi_of_normals(alpha, COVARIANCE, 1.5)
    assert found.value == pytest.approx(exact, abs=0.02)  # the error is about 0.004
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.is_finite


def test_a_divergence_that_is_infinite_is_seen_by_khat():
    z = normal(0.7).draw(np.random.default_rng(1), 20_000)
    assert renyi_of_normals(2.0, COVARIANCE, 0.7) == np.inf
    assert not renyi_objective(log_density(z) - normal(0.7).log_density(z), 2.0).is_finite


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_the_fit_is_the_normal_of_least_divergence(alpha):
    """By raw weights, which have no bias of their own; smoothed ones draw it in by some percent."""
    best = minimize_scalar(
        lambda sd: renyi_of_normals(alpha, COVARIANCE, sd), bounds=(0.5, 3.0), method="bounded"
    )
    rng = np.random.default_rng(2)
    found = fit_renyi(log_density, normal(0.8), alpha, rng=rng, diagonal=True, smooth=False)
    np.testing.assert_allclose(np.diag(found.q.roots[0]), best.x, rtol=0.15)
    np.testing.assert_allclose(found.q.locs[0], 0.0, atol=0.15)
    smoothed = fit_renyi(log_density, normal(0.8), alpha, rng=rng, diagonal=True)
    np.testing.assert_allclose(np.diag(smoothed.q.roots[0]), best.x, rtol=0.15)


def test_a_full_normal_finds_a_normal():
    rng = np.random.default_rng(3)
    found = fit_renyi(log_density, normal(0.8), 1.0, rng=rng)
    np.testing.assert_allclose(found.q.roots[0] @ found.q.roots[0].T, COVARIANCE, atol=0.05)


def test_a_t_finds_a_t():
    target = single_t(np.array([1.0, -2.0]), np.array([[2.0, 0.0], [1.0, 0.5]]), 5.0)
    start = single_t(np.zeros(2), np.eye(2), 5.0)
    found = fit_renyi(target.log_density, start, 1.0, rng=np.random.default_rng(4))
    np.testing.assert_allclose(found.q.locs, target.locs, atol=0.1)
    np.testing.assert_allclose(
        found.q.roots[0] @ found.q.roots[0].T, target.roots[0] @ target.roots[0].T, rtol=0.1
    )


def test_the_order_goes_with_khat():
    assert order_for(0.25) == 2.0
    assert order_for(1.0) == 0.5
    assert order_for(-0.3, most=3.0) == 3.0
    assert order_for(100.0) == order_for(np.nan) == LEAST_ORDER
    found = fit_renyi(
        log_density, normal(0.6), None, rng=np.random.default_rng(5), diagonal=True, num_steps=20
    )
    assert 0.3 < found.alpha < 2.0
    assert found.alpha * np.median(found.khats[10:]) < 1.0


def test_draws_of_one_proposal_estimate_the_powers_of_another():
    rng = np.random.default_rng(6)
    z = normal(2.0).draw(rng, 200_000)
    log_p, log_b = log_density(z), normal(2.0).log_density(z)
    found = log_mean_power(log_p, normal(1.5).log_density(z), log_b, 2.0)
    assert found == pytest.approx(renyi_of_normals(2.0, COVARIANCE, 1.5), abs=0.05)


def test_part_of_a_step_goes_part_of_the_way():
    rng = np.random.default_rng(7)
    q = normal(1.0, 2)
    z = q.draw(rng, 10_000)
    weights = np.exp(z[:, 0])
    weights /= weights.sum()
    whole, half = (renyi_step(q, z, weights, part=part) for part in (1.0, 0.5))
    np.testing.assert_allclose(half.locs, 0.5 * whole.locs)
    np.testing.assert_allclose(whole.locs[0], weights @ z, rtol=1e-4)
    kept = renyi_step(q, z, weights, diagonal=True).roots[0]
    np.testing.assert_array_equal(kept, np.diag(np.diagonal(kept)))


def test_an_order_that_is_not_positive_is_an_error():
    with pytest.raises(ValueError, match="alpha must be positive, got 0"):
        renyi_objective(np.zeros(100), 0)


def test_a_split_normal_has_the_scales_of_the_density():
    def skewed(z):
        return -0.5 * np.square(z / np.where(z > 0.0, 2.0, 0.8)).sum(axis=1)

    found = split_t(skewed, normal(1.0, 2))
    np.testing.assert_allclose(found.ups[0], 2.0)
    np.testing.assert_allclose(found.downs[0], 0.8)
