"""The test of convergence: sized right, and able to reject."""

import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.model import double_precision
from vicheck.vi.families.full_rank import FullRank
from vicheck.vi.families.low_rank import LowRank
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.gradient_test import gradient_test


@pytest.fixture(scope="module")
def normal():
    return vicheck.from_log_density(lambda x: -0.5 * jnp.sum(x**2), np.zeros(3))


def run(model, q, **options):
    with double_precision():
        return gradient_test(model, q, **options)


def test_where_q_equals_p_the_gradient_is_exactly_zero(normal):
    for q in (
        MeanField(np.zeros(3), np.zeros(3)),
        FullRank(np.zeros(3), np.eye(3)),
        LowRank(np.zeros(3), np.zeros(3), np.zeros((3, 1))),
    ):
        result = run(normal, q)
        assert result.size == pytest.approx(0.0, abs=1e-12)
        assert result.p_value == 1.0


@pytest.mark.parametrize(("shift", "rejected"), [(0.05, False), (0.5, True)])
def test_the_size_is_the_distance_from_the_optimum(normal, shift, rejected):
    result = run(normal, MeanField(np.array([0.0, shift, 0.0]), np.zeros(3)))
    assert result.size == pytest.approx(shift, abs=1e-9)  # antithetic draws leave no noise here
    assert result.worst == "x[1]"
    assert (result.p_value < 0.01) == rejected


def test_a_wrong_scale_is_named(normal):
    result = run(normal, MeanField(np.zeros(3), np.array([0.0, 0.0, 0.7])))
    assert result.worst == "the scale of x[2]"
    assert result.p_value < 0.01


@pytest.mark.slow
def test_optima_are_rejected_as_rarely_as_promised():
    """An optimum with noisy gradients: of 100 tests at 5% at most 10 may reject (p = 0.011)."""
    model = vicheck.from_log_density(lambda x: -jnp.sum(jnp.cosh(x)), np.zeros(4))
    fit = vicheck.fit(model, num_draws=4096, sampling_tolerance=1.0)
    p_values = [run(model, fit.q, seed=seed, tolerance=0.01).p_value for seed in range(100)]
    assert np.mean(np.array(p_values) < 0.05) <= 0.1


def test_a_gradient_that_is_not_finite_is_no_verdict():
    model = vicheck.from_log_density(lambda x: jnp.sum(jnp.sqrt(x) - x), np.zeros(2))
    assert np.isnan(run(model, MeanField(np.zeros(2), np.zeros(2))).p_value)
