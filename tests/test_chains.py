"""Chains themselves: they leave their target alone, move towards it, and survive bad densities."""

import numpy as np
import pytest

from tests.vi.families.test_families import FAMILIES
from vicheck.chains import (
    FEWEST_CHAINS,
    FEWEST_GRADIENTS,
    Roots,
    plan_chains,
    resampled,
    roots_of_draws,
    roots_of_q,
    run_chains,
)
from vicheck.model import double_precision

MEAN = np.array([1.0, -2.0, 0.5])
ROOT = np.array([[1.0, 0.0, 0.0], [0.8, 0.5, 0.0], [-0.3, 0.2, 2.0]])
PRECISION = np.linalg.inv(ROOT @ ROOT.T)


def gaussian(z):
    away = (z - MEAN) @ PRECISION
    return -0.5 * ((z - MEAN) * away).sum(axis=1), -away


def unit(dim=3):
    return Roots(np.ones(dim), np.empty((dim, 0)))


def identity(z):
    return z


def run(evaluate, starts, roots, num_gradients=128, seed=0, **options):
    rng = np.random.default_rng((seed, 1))
    return run_chains(evaluate, identity, starts, roots, num_gradients, rng, **options)


def test_chains_end_at_the_target_wherever_they_begin():
    """Means and covariance of 4096 ends, each to four standard errors."""
    rng = np.random.default_rng(1)
    for scale, shift in ((0.1, 0.0), (5.0, 0.0), (1.0, 3.0)):
        starts = MEAN + shift + scale * rng.standard_normal((4096, 3))
        ends = run(gaussian, starts, Roots(np.empty(0), ROOT))
        covariance = ROOT @ ROOT.T
        sd = np.sqrt(np.diagonal(covariance))
        assert (np.abs(ends.values.mean(axis=0) - MEAN) < 4 * sd / 64).all()
        assert np.abs(np.cov(ends.values.T) - covariance).max() < 4 * 4.13 * np.sqrt(2) / 64
        assert 0.6 < ends.acceptance < 0.9
        assert ends.num_gradients == 128


@pytest.mark.parametrize("roots", [unit(), Roots(np.empty(0), ROOT), Roots(np.full(3, 9.0), ROOT)])
def test_preconditioning_changes_the_way_and_not_the_target(roots):
    starts = MEAN + np.random.default_rng(2).standard_normal((4096, 3)) @ ROOT.T
    ends = run(gaussian, starts, roots)
    sd = np.sqrt(np.diagonal(ROOT @ ROOT.T))
    assert (np.abs(ends.averages.mean(axis=0) - MEAN) < 4 * sd / 64).all()
    np.testing.assert_allclose(ends.values.std(axis=0), sd, rtol=4 / np.sqrt(2 * 4096))


def test_the_target_may_have_bounds_that_only_the_density_knows():
    """Exponential on x > 0, NaN below: no chain ever leaves, and the mean is 1."""

    def exponential(z):
        x = z[:, 0]
        inside = x > 0.0
        return np.where(inside, -x, np.nan), np.where(inside[:, None], -1.0, np.nan)

    starts = np.random.default_rng(3).exponential(size=(4096, 1))
    starts[::8] *= -1.0
    ends = run(exponential, starts, unit(1))
    assert len(ends.kept) == 4096 * 7 // 8
    assert (starts[ends.kept] > 0.0).all()
    assert (ends.values > 0.0).all()
    assert ends.values.mean() == pytest.approx(1.0, abs=4 / np.sqrt(len(ends.kept)))


@pytest.mark.parametrize("bad", ["value", "gradient"])
def test_without_a_finite_start_there_are_no_chains(bad):
    def nowhere(z):
        value, gradient = gaussian(z)
        return (value * np.nan, gradient) if bad == "value" else (value, gradient * np.inf)

    ends = run(nowhere, np.zeros((50, 3)), unit())
    assert len(ends.kept) == 0
    assert ends.values.shape == ends.averages.shape == (0, 3)
    assert np.isnan(ends.acceptance)


def test_the_density_is_asked_for_finite_points_only():
    def steep(z):
        assert np.isfinite(z).all()
        return -(np.square(z).sum(axis=1) ** 8), -1e300 * z

    ends = run(steep, np.random.default_rng(4).normal(size=(64, 3)), unit())
    assert np.isfinite(ends.values).all()


def test_step_sizes_are_found_over_many_scales():
    for scale in (1e-3, 1.0, 1e3):

        def scaled(z, scale=scale):
            return -0.5 * np.square(z / scale).sum(axis=1), -z / scale**2

        ends = run(scaled, scale * np.random.default_rng(5).normal(size=(512, 3)), unit())
        assert 0.6 < ends.acceptance < 0.9
        assert 0.5 < ends.step_size / scale < 3.0


def test_few_pilots_find_about_the_same_step_size():
    starts = MEAN + np.random.default_rng(6).standard_normal((512, 3)) @ ROOT.T
    few, all_ = (run(gaussian, starts, unit(), num_pilots=number) for number in (32, None))
    assert few.step_size == pytest.approx(all_.step_size, rel=0.25)


def test_the_same_seed_gives_the_same_bits():
    starts = np.random.default_rng(7).standard_normal((64, 3))
    one, two, other = (run(gaussian, starts, unit(), seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.values, two.values)
    assert np.array_equal(one.averages, two.averages)
    assert not np.array_equal(one.values, other.values)


def test_averages_are_over_the_last_quarter_of_the_steps():
    seen = []

    def look(z):
        seen.append(z)
        return z

    rng = np.random.default_rng(8)
    ends = run_chains(gaussian, look, np.zeros((16, 3)), unit(), 64, rng)
    assert len(seen) == max(1, ends.num_steps // 4)
    np.testing.assert_allclose(ends.averages, np.mean(seen, axis=0), rtol=1e-12)
    assert np.array_equal(ends.values, seen[-1])


def test_chains_that_would_take_too_long_are_not_run():
    asked = []

    def counted(z):
        asked.append(len(z))
        return gaussian(z)

    starts = np.zeros((2048, 3))
    assert run(counted, starts, unit(), num_pilots=32, most_seconds=0.0) is None
    assert sum(asked) < 4096  # the starts, and the pilots


@pytest.mark.parametrize("name", FAMILIES)
def test_roots_are_those_of_the_covariance_of_q(name):
    with double_precision():
        q = FAMILIES[name](7, np.random.default_rng(1))
        roots, covariance = roots_of_q(q), np.asarray(q.covariance())
    one_by_one = roots.moves(np.eye(roots.num_momenta))
    np.testing.assert_allclose(one_by_one.T @ one_by_one, covariance, rtol=1e-10, atol=1e-12)
    # Forces are the transpose of moves.
    np.testing.assert_allclose(roots.forces(np.eye(q.dim)), one_by_one.T, rtol=1e-12)


def test_roots_of_draws():
    z = np.random.default_rng(9).standard_normal((20_000, 3)) @ ROOT.T
    z[5] = np.inf
    dense = roots_of_draws(z)
    np.testing.assert_allclose(dense.factor @ dense.factor.T, ROOT @ ROOT.T, atol=0.15)
    few = roots_of_draws(z[:20])
    assert few.factor.shape == (3, 0)
    np.testing.assert_allclose(few.diagonal, np.delete(z[:20], 5, axis=0).std(axis=0))
    still = roots_of_draws(np.zeros((100, 2)))
    assert (np.append(still.diagonal, still.factor[still.factor > 0]) >= 0).all()


def test_resampling_takes_each_draw_as_often_as_its_weight_asks_for():
    rng = np.random.default_rng(10)
    weights = rng.lognormal(size=1000)
    weights[3] = 0.0
    weights /= weights.sum()
    counts = [np.bincount(resampled(weights, 300, rng), minlength=1000) for _ in range(400)]
    assert (np.abs(np.array(counts) - 300 * weights) < 1.0).all()
    np.testing.assert_allclose(np.mean(counts, axis=0), 300 * weights, atol=0.1)
    assert not np.array(counts)[:, 3].any()


def test_plans_grow_with_what_the_check_has_cost_and_shrink_with_the_model():
    assert plan_chains(30, 1000) == (1024, 128, True)
    plans = [plan_chains(numbers, 100_000) for numbers in (10**4, 10**5, 10**6, 10**9)]
    costs = [plan.num_chains * plan.num_gradients for plan in plans]
    assert costs == sorted(costs, reverse=True)
    assert all(plan.is_affordable for plan in plans)
    dear = plan_chains(10**9, 1000)
    assert dear == (FEWEST_CHAINS, FEWEST_GRADIENTS, False)
