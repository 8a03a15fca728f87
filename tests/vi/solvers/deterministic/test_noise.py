"""Fixed noise: normal, antithetic, with exact moments, and the same for the same seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from scipy.stats.qmc import Sobol

from vicheck.vi.solvers.deterministic.noise import FEWEST, make_noise, standardised

HALF = FEWEST // 2


def base_noise(num_draws, dim, seed):
    """Return half of the draws of one seed."""
    return make_noise(num_draws, dim, np.array([seed]))[0]


def both_halves(half):
    return np.concatenate([half, -half])


def standard(num_draws, dim, seed=0, pairs=True):
    """Return standardised draws of one seed, both halves."""
    found = standardised(make_noise(num_draws, dim, np.array([seed])), pairs)
    assert found.dtype == np.float64
    return both_halves(found[0])


CASES = [(dim, n) for dim in (1, 2, 7, 40) for n in (32, 64, 1024)]


def test_points_are_sobols_shifted_by_the_seed():
    """Undone by SciPy's distribution function, they are the same points but for a shift."""
    points = Sobol(5, rng=np.random.default_rng(0)).random(32)
    for seed in (3, 4):
        shifts = (special.ndtr(base_noise(64, 5, seed)) - points) % 1.0
        np.testing.assert_allclose(shifts, np.tile(shifts[0], (32, 1)), atol=1e-9)
        assert len(np.unique(shifts[0].round(6))) == 5


def test_several_seeds_give_what_each_gives_alone():
    together = make_noise(64, 5, np.array([3, 4]))
    assert together.shape == (2, 32, 5)
    for row, seed in zip(together, (3, 4), strict=True):
        np.testing.assert_array_equal(row, base_noise(64, 5, seed))
    for row, alone in zip(standardised(together), together, strict=True):
        np.testing.assert_allclose(row, standardised(alone[None])[0], rtol=1e-12)


def test_what_is_returned_may_be_changed():
    """The points behind it are kept, and have to stay as they are."""
    first = base_noise(64, 5, 0)
    copy = first.copy()
    first[:] = 0.0
    standardised(copy[None])
    np.testing.assert_array_equal(base_noise(64, 5, 0), copy)


@pytest.mark.parametrize(("dim", "num_draws"), CASES)
def test_moments_are_exact(dim, num_draws):
    draws = standard(num_draws, dim)
    assert draws.shape == (num_draws, dim)
    np.testing.assert_allclose(draws.mean(axis=0), 0.0, atol=1e-14)
    moments = draws.T @ draws / num_draws
    np.testing.assert_allclose(np.diagonal(moments), 1.0, rtol=1e-11)
    if 4 * dim <= num_draws:  # enough draws: pairs do not correlate
        np.testing.assert_allclose(moments, np.eye(dim), atol=1e-11)


@settings(max_examples=30)
@given(st.integers(0, 5), st.integers(0, 2**31))
def test_moments_are_exact_for_every_seed_and_number_of_draws(doublings, seed):
    num_draws = FEWEST * 2**doublings
    draws = standard(num_draws, 8, seed)
    np.testing.assert_allclose(draws.T @ draws / num_draws, np.eye(8), atol=1e-10)


def test_without_pairs_there_are_unit_moments_only():
    draws = standard(2048, 300, pairs=False)
    assert np.abs(draws[:, 0] @ draws[:, 1:]).max() > 1.0
    np.testing.assert_allclose(np.square(draws).mean(axis=0), 1.0, rtol=1e-11)


@pytest.mark.parametrize("dim", [3, 1001])
def test_short_sets_begin_longer_ones(dim):
    short, long = base_noise(64, dim, 1), base_noise(512, dim, 1)
    assert short.shape == (32, dim)
    assert long.shape == (256, dim)
    np.testing.assert_array_equal(long[:32], short)


@pytest.mark.parametrize(("dim", "first"), [(5, 32), (10, 64), (40, 256)])
def test_more_draws_leave_those_there_are_where_they_were(dim, first):
    """From as many on as make the moments of pairs exact."""
    few, more = (standard(n, dim, seed=1) for n in (first, 4 * first))
    np.testing.assert_array_equal(more[: first // 2], few[: first // 2])


def test_with_too_few_draws_for_pairs_each_half_has_unit_moments():
    few, more = (standard(n, 40, seed=1) for n in (64, 128))
    np.testing.assert_array_equal(more[:32], few[:32])
    halves = more[:64].reshape(2, 32, 40)
    np.testing.assert_allclose(np.square(halves).mean(axis=1), 1.0, rtol=1e-11)


@pytest.mark.parametrize("dim", [6, 1001])
def test_seeds_differ_and_repeat(dim):
    one, same, other = (base_noise(64, dim, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.isin(one, other).any()


def test_sets_of_different_seeds_are_independent():
    """Averages of odd functions over 200 seeds spread around zero, as do their products."""
    sums = make_noise(32, 2, np.arange(200)).sum(axis=1)
    # 3 tests at 4 standard errors: a false alarm in 1 of 5000.
    errors = sums.std(axis=0, ddof=1) / np.sqrt(200)
    assert (np.abs(sums.mean(axis=0)) < 4.0 * errors).all()
    assert abs(np.corrcoef(sums.T)[0, 1]) < 4.0 / np.sqrt(200)


@pytest.mark.parametrize("dim", [1, 3, 1001])
def test_noise_is_normal(dim):
    draws = both_halves(base_noise(1024, dim, 0))
    for column in draws.T[:3]:
        assert stats.kstest(column, "norm").pvalue > 0.01


@pytest.mark.parametrize("seed", range(3))
def test_a_smooth_average_is_closer_than_with_random_draws(seed):
    """Sobol's points integrate better: cos(x1) cos(x2) has the mean exp(-1)."""
    halves = make_noise(512, 2, 20 * seed + np.arange(20))
    draws = np.concatenate([halves, -halves], axis=1)
    errors = np.cos(draws).prod(axis=2).mean(axis=1) - np.exp(-1.0)
    random = np.cos(np.random.default_rng(seed).normal(size=(20, 512, 2))).prod(axis=2)
    assert np.std(errors) < 0.3 * random.mean(axis=1).std()


def test_a_dimension_too_large_for_sobol():
    assert base_noise(32, 20_000, 0).shape == (HALF, 20_000)
    draws = standard(32, 20_000, pairs=False)
    np.testing.assert_allclose(np.square(draws).mean(axis=0), 1.0, rtol=1e-11)


def test_no_noise_is_infinite():
    draws = base_noise(4096, 1000, 3)
    assert np.isfinite(draws).all()
    assert np.abs(draws).max() < 10.0
