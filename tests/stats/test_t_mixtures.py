"""Mixtures of t on arrays: against SciPy, against their own draws, and fitted to weighted draws."""

import numpy as np
import pytest
from scipy import stats

from vicheck.stats.t_mixtures import (
    TMixture,
    fit_t_mixture,
    matched_t,
    single_t,
    weighted_moments,
)


def some_mixture(dim=3, seed=1):
    rng = np.random.default_rng(seed)
    return TMixture(
        locs=4.0 * rng.normal(size=(2, dim)),
        roots=0.3 * rng.normal(size=(2, dim, dim)) + np.eye(dim),
        dfs=np.array([6.0, 20.0]),
        parts=np.array([0.3, 0.7]),
        ups=np.ones((2, dim)),
        downs=np.ones((2, dim)),
    )


def test_the_density_is_that_of_scipy():
    mixture = some_mixture()
    z = mixture.draw(np.random.default_rng(2), 50)
    expected = sum(
        part * stats.multivariate_t(loc, root @ root.T, df).pdf(z)
        for part, loc, root, df in zip(
            mixture.parts, mixture.locs, mixture.roots, mixture.dfs, strict=True
        )
    )
    np.testing.assert_allclose(mixture.log_density(z), np.log(expected), rtol=1e-10)


@pytest.mark.parametrize("up", [0.5, 3.0])
def test_a_split_t_has_a_density_of_integral_one_and_draws_on_both_sides(up):
    split = single_t(np.array([1.0]), np.array([[2.0]]), 8.0, up=np.array([up]))
    middles = np.arange(-400.0, 402.0, 0.002)[:, None] + 0.001  # the density jumps at 1
    assert np.exp(split.log_density(middles)).sum() * 0.002 == pytest.approx(1.0, abs=1e-5)
    z = split.draw(np.random.default_rng(3), 100_000)[:, 0]
    assert np.mean(z > 1.0) == pytest.approx(0.5, abs=0.01)
    assert np.median(z[z > 1.0] - 1.0) == pytest.approx(up * np.median(1.0 - z[z < 1.0]), rel=0.03)


def test_matching_takes_mean_and_covariance_over():
    mixture = some_mixture()
    rng = np.random.default_rng(4)
    z = mixture.draw(rng, 20_000)
    weights = rng.random(20_000)
    weights /= weights.sum()
    mean, covariance = weighted_moments(z, weights)
    matched = matched_t(z, weights, 7.0, np.eye(3))
    np.testing.assert_allclose(matched.locs[0], mean)
    np.testing.assert_allclose(
        matched.roots[0] @ matched.roots[0].T * 7.0 / 5.0, covariance, rtol=0.01, atol=0.01
    )


def test_parts_are_found_in_weighted_draws():
    target = some_mixture()
    rng = np.random.default_rng(5)
    wide = single_t(np.zeros(3), 6.0 * np.eye(3), 5.0)
    z = wide.draw(rng, 20_000)
    log_weights = target.log_density(z) - wide.log_density(z)
    weights = np.exp(log_weights - log_weights.max())
    found = fit_t_mixture(z, weights / weights.sum(), 2, 10.0, rng)
    fresh = target.draw(rng, 20_000)
    assert np.mean(target.log_density(fresh) - found.log_density(fresh)) < 0.1
    np.testing.assert_allclose(np.sort(found.parts), [0.3, 0.7], atol=0.05)


def test_a_mixture_of_two_shares_out_its_parts():
    one, other = some_mixture(), single_t(np.zeros(3), np.eye(3), 5.0)
    both = one.beside(other, 0.25)
    np.testing.assert_allclose(both.parts, [0.225, 0.525, 0.25])
    z = both.draw(np.random.default_rng(6), 10)
    expected = np.log(0.75 * np.exp(one.log_density(z)) + 0.25 * np.exp(other.log_density(z)))
    np.testing.assert_allclose(both.log_density(z), expected)
