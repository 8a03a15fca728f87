"""Errors of the differences between weighted and plain estimates, against repetitions."""

import numpy as np
import pytest

from vicheck.stats.differences import differences, differences_by_numpy
from vicheck.stats.estimates import expectation, plain_log_weights
from vicheck.stats.psis import psis


def drawn(seed, size=2000):
    """Draws of N(0, 1), weighted to N(0.2, 1.1^2) in the first of two coordinates."""
    h = np.random.default_rng(seed).normal(size=(size, 2))
    log_ratios = -(((h[:, 0] - 0.2) / 1.1) ** 2) / 2 + h[:, 0] ** 2 / 2
    return h, psis(log_ratios).log_weights


def test_differences_are_those_of_the_estimates():
    h, log_weights = drawn(1)
    plain, weighted = expectation(h, plain_log_weights(len(h))), expectation(h, log_weights)
    for column, found in enumerate(differences(h, log_weights)):
        moved = weighted.mean[column] - plain.mean[column]
        assert found.shift == pytest.approx(moved / weighted.sd[column], rel=1e-2)
        grown = np.log(weighted.sd[column] / plain.sd[column])
        assert found.growth == pytest.approx(grown, abs=1e-3)


def test_errors_are_the_standard_deviations_over_repetitions():
    found = np.array([list(differences(*drawn(seed))) for seed in range(400)])
    sd = found.std(axis=0)
    # A standard deviation over 400 repetitions is known to 4%.
    np.testing.assert_allclose(found[:, :, 1].mean(axis=0), sd[:, 0], rtol=0.15)
    np.testing.assert_allclose(found[:, :, 3].mean(axis=0), sd[:, 2], rtol=0.15)
    # The second coordinate has nothing to do with the weights: one of N(0, 1) has this error.
    assert found[:, 1, 1].mean() < 1.0 / np.sqrt(2000)


def test_equal_weights_leave_nothing_to_know():
    h = np.random.default_rng(1).normal(size=(500, 3))
    found = np.array(list(differences(h, plain_log_weights(500))))
    assert np.abs(found).max() < 1e-12


def test_a_constant_does_not_differ_and_weightless_draws_do_not_count():
    h = np.column_stack([np.full(4, 2.0), [1.0, 2.0, 3.0, np.inf]])
    log_weights = np.log([0.25, 0.5, 0.25, 1e-323])
    log_weights[3] = -np.inf
    constant, other = differences(h, log_weights)
    assert constant == (0.0, 0.0, 0.0, 0.0)
    assert np.isnan(other.shift_error)  # the plain mean is infinite


@pytest.mark.parametrize("shape", [(5000, 3), (100, 700)], ids=["long", "wide"])
def test_compiled_code_finds_what_numpy_does(shape):
    rng = np.random.default_rng(3)
    h = rng.standard_t(4, size=shape) * 10.0 ** rng.integers(-3, 4, shape[1])
    h[:, 1] = 7.0
    log_weights = psis(0.2 * np.tanh(h[:, 0])).log_weights.copy()
    log_weights[:5] = -np.inf
    weights = np.exp(log_weights)
    weights /= weights.sum()
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    h[0, 2] = np.inf  # without weight: only the plain estimates are undefined
    with np.errstate(all="ignore"):
        plainly = differences_by_numpy(h, weights)
    found = np.array(differences(h, log_weights))
    np.testing.assert_allclose(found, plainly, rtol=1e-9, atol=1e-12)
    assert not found[1].any()
    assert np.isnan(found[2, 1])
