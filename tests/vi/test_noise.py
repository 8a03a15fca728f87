import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from vicheck.vi.noise import CHUNK, BaseNoise


def used(buffer, num_draws):
    """Return the draws that a buffer holds, shape (num_draws, dim)."""
    return buffer[: num_draws // CHUNK].reshape(num_draws, -1)


CASES = [(dim, n) for dim in (1, 2, 7, 40) for n in (32, 64, 256, 1024)]


@pytest.mark.parametrize(("dim", "num_draws"), CASES)
def test_moments_are_exact(dim, num_draws):
    buffer = BaseNoise(dim, 0).chunks(num_draws)
    assert buffer.dtype == np.float64
    assert buffer.shape[1:] == (CHUNK, dim)
    draws = used(buffer, num_draws)
    np.testing.assert_allclose(draws.mean(axis=0), 0.0, atol=1e-14)
    moments = draws.T @ draws / num_draws
    np.testing.assert_allclose(np.diagonal(moments), 1.0, rtol=1e-12)
    if 4 * dim <= num_draws:  # enough draws: pairs do not correlate
        np.testing.assert_allclose(moments, np.eye(dim), atol=1e-12)


@settings(max_examples=30)
@given(st.integers(1, 30), st.integers(5, 9), st.integers(0, 2**32 - 1))
def test_moments_are_exact_for_every_seed(dim, log_draws, seed):
    draws = used(BaseNoise(dim, seed).chunks(2**log_draws), 2**log_draws)
    np.testing.assert_allclose(draws.mean(axis=0), 0.0, atol=1e-13)
    np.testing.assert_allclose(np.square(draws).mean(axis=0), 1.0, rtol=1e-10)


def test_draws_are_antithetic_within_each_chunk():
    buffer = BaseNoise(3, 0).chunks(128)
    half = CHUNK // 2
    np.testing.assert_array_equal(buffer[:4, half:], -buffer[:4, :half])
    assert buffer[:4].any(axis=(1, 2)).all()
    assert not buffer[4:].any()


def test_growing_keeps_the_rows_there_are():
    noise = BaseNoise(5, 1)
    noise.chunks(64)
    first = noise._half.copy()
    noise.chunks(512)
    assert noise._half.shape == (256, 5)
    np.testing.assert_array_equal(noise._half[:32], first)
    # And asking for fewer gives the same as before.
    np.testing.assert_array_equal(noise.chunks(64), BaseNoise(5, 1).chunks(64))


def test_growing_moves_draws_only_a_little():
    noise = BaseNoise(5, 1)
    before, after = (used(noise.chunks(n), n)[:16] for n in (256, 512))
    assert np.abs(after - before).max() < 0.2
    assert np.corrcoef(after.ravel(), before.ravel())[0, 1] > 0.999


def test_growing_in_steps_is_growing_at_once():
    slow, fast = BaseNoise(4, 2), BaseNoise(4, 2)
    for num_draws in (32, 64, 128, 256):
        stepwise = slow.chunks(num_draws)
    np.testing.assert_allclose(stepwise, fast.chunks(256), rtol=1e-13)


def test_the_buffer_keeps_its_shape_while_draws_are_doubled():
    noise = BaseNoise(10, 0)
    shapes = {noise.chunks(n).shape for n in (32, 64, 128, 256, 512)}
    assert len(shapes) == 1


def test_seeds_differ_and_repeat():
    one, same, other = (BaseNoise(6, seed).chunks(64) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.isin(one[:2], other[:2]).any()


@pytest.mark.parametrize("dim", [1, 3, 1001])
def test_noise_is_normal(dim):
    draws = used(BaseNoise(dim, 0).chunks(1024), 1024)
    for column in draws.T[:3]:
        assert stats.kstest(column, "norm").pvalue > 0.01


def test_a_smooth_average_is_closer_than_with_random_draws():
    """Sobol's points integrate better: cos(x1) cos(x2) has the mean exp(-1)."""
    errors = []
    for seed in range(20):
        draws = used(BaseNoise(2, seed).chunks(512), 512)
        errors.append(np.cos(draws).prod(axis=1).mean() - np.exp(-1.0))
    random = np.cos(np.random.default_rng(0).normal(size=(20, 512, 2))).prod(axis=2).mean(axis=1)
    assert np.std(errors) < 0.2 * np.std(random)


def test_a_dimension_too_large_for_sobol():
    noise = BaseNoise(20_000, 0)
    assert noise._sobol is None
    draws = used(noise.chunks(32), 32)
    assert draws.shape == (32, 20_000)
    np.testing.assert_allclose(np.square(draws).mean(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(draws[16:], -draws[:16])


def test_no_noise_is_infinite():
    draws = used(BaseNoise(1000, 3).chunks(4096), 4096)
    assert np.isfinite(draws).all()
    assert np.abs(draws).max() < 10.0
