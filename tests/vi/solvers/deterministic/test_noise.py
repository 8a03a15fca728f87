from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from vicheck.model import double_precision
from vicheck.vi.solvers.deterministic.noise import CHUNK, Noise, make_noise, standardised

HALF = CHUNK // 2


def base_noise(num_draws, dim, seed):
    """Return the normal numbers of all chunks, by SciPy."""
    noise = make_noise(num_draws, dim, seed)
    return special.ndtri(
        np.clip((np.asarray(noise.points) + noise.shift) % 1.0, 1e-12, 1.0 - 1e-12)
    )


def used(noise, num_draws):
    """Return the draws among the first chunks, with their negatives: shape (num_draws, dim)."""
    half = np.asarray(noise)[: num_draws // CHUNK].reshape(num_draws // 2, -1)
    return np.concatenate([half, -half])


@partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0}, static_argnums=2)
def _standardised(noise, num_chunks, pairs):
    return standardised(noise, num_chunks, pairs)


def standard(num_draws, dim, seed=0, capacity=None, pairs=True):
    """Return standardised draws, of which there is room for more."""
    with double_precision():
        noise = Noise(*map(jnp.asarray, make_noise(capacity or num_draws, dim, seed)))
        found = np.asarray(_standardised(noise, num_draws // CHUNK, pairs))
    assert found.dtype == np.float64
    return found


CASES = [(dim, n) for dim in (1, 2, 7, 40) for n in (32, 64, 1024)]


def test_normal_numbers_are_those_of_scipy():
    with double_precision():
        noise = make_noise(64, 5, 3)
        found = np.stack([noise.normal(chunk) for chunk in range(2)])
    np.testing.assert_allclose(found, base_noise(64, 5, 3), rtol=1e-12, atol=1e-14)


def test_chunks_that_are_not_used_are_zero():
    assert not standard(64, 5, capacity=256)[2:].any()


def test_several_seeds_give_what_each_gives_alone():
    together = make_noise(64, 5, [3, 4])
    for row, seed in enumerate((3, 4)):
        np.testing.assert_array_equal(together.shift[row], make_noise(64, 5, seed).shift)


@pytest.mark.parametrize(("dim", "num_draws"), CASES)
def test_moments_are_exact(dim, num_draws):
    noise = standard(num_draws, dim, capacity=1024)
    assert noise.shape == (1024 // CHUNK, HALF, dim)
    draws = used(noise, num_draws)
    np.testing.assert_allclose(draws.mean(axis=0), 0.0, atol=1e-14)
    moments = draws.T @ draws / num_draws
    np.testing.assert_allclose(np.diagonal(moments), 1.0, rtol=1e-11)
    if 4 * dim <= num_draws:  # enough draws: pairs do not correlate
        np.testing.assert_allclose(moments, np.eye(dim), atol=1e-11)


@settings(max_examples=30)
@given(st.integers(0, 5), st.integers(0, 2**31))
def test_moments_are_exact_for_every_seed_and_number_of_draws(log_chunks, seed):
    num_draws = CHUNK * 2**log_chunks
    draws = used(standard(num_draws, 8, seed, capacity=1024), num_draws)
    np.testing.assert_allclose(draws.T @ draws / num_draws, np.eye(8), atol=1e-10)


def test_without_pairs_there_are_unit_moments_only():
    draws = used(standard(2048, 300, pairs=False), 2048)
    assert np.abs(draws[:, 0] @ draws[:, 1:]).max() > 1.0
    np.testing.assert_allclose(np.square(draws).mean(axis=0), 1.0, rtol=1e-11)


@pytest.mark.parametrize("dim", [3, 1001])
def test_short_sets_begin_longer_ones(dim):
    short, long = base_noise(64, dim, 1), base_noise(512, dim, 1)
    assert short.shape == (2, HALF, dim)
    assert long.shape == (16, HALF, dim)
    np.testing.assert_array_equal(long[:2], short)


def test_room_for_more_draws_changes_nothing():
    tight, wide = standard(64, 5), standard(64, 5, capacity=1024)
    np.testing.assert_allclose(wide[:2], tight, rtol=1e-10, atol=1e-12)


def test_more_draws_move_those_there_are_only_a_little():
    few, more = (standard(n, 5, seed=1, capacity=512)[:1] for n in (256, 512))
    assert np.abs(more - few).max() < 0.3
    assert np.corrcoef(more.ravel(), few.ravel())[0, 1] > 0.995


@pytest.mark.parametrize("dim", [6, 1001])
def test_seeds_differ_and_repeat(dim):
    one, same, other = (base_noise(64, dim, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.isin(one, other).any()


def test_sets_of_different_seeds_are_independent():
    """Averages of odd functions over 200 seeds spread around zero, as do their products."""
    sums = np.array([base_noise(32, 2, seed).sum(axis=(0, 1)) for seed in range(200)])
    # 3 tests at 4 standard errors: a false alarm in 1 of 5000.
    errors = sums.std(axis=0, ddof=1) / np.sqrt(200)
    assert (np.abs(sums.mean(axis=0)) < 4.0 * errors).all()
    assert abs(np.corrcoef(sums.T)[0, 1]) < 4.0 / np.sqrt(200)


@pytest.mark.parametrize("dim", [1, 3, 1001])
def test_noise_is_normal(dim):
    draws = used(base_noise(1024, dim, 0), 1024)
    for column in draws.T[:3]:
        assert stats.kstest(column, "norm").pvalue > 0.01


@pytest.mark.parametrize("seed", range(3))
def test_a_smooth_average_is_closer_than_with_random_draws(seed):
    """Sobol's points integrate better: cos(x1) cos(x2) has the mean exp(-1)."""
    draws = [used(base_noise(512, 2, 20 * seed + i), 512) for i in range(20)]
    errors = np.cos(draws).prod(axis=2).mean(axis=1) - np.exp(-1.0)
    random = np.cos(np.random.default_rng(seed).normal(size=(20, 512, 2))).prod(axis=2)
    assert np.std(errors) < 0.3 * random.mean(axis=1).std()


def test_a_dimension_too_large_for_sobol():
    noise = base_noise(32, 20_000, 0)
    assert noise.shape == (1, HALF, 20_000)
    draws = used(standard(32, 20_000, pairs=False), 32)
    np.testing.assert_allclose(np.square(draws).mean(axis=0), 1.0, rtol=1e-11)


def test_no_noise_is_infinite():
    draws = base_noise(4096, 1000, 3)
    assert np.isfinite(draws).all()
    assert np.abs(draws).max() < 10.0
