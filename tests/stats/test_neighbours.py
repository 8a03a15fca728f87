import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import qmc

from vicheck.judging.cutoffs import DEPENDENT
from vicheck.stats.neighbours import likeness_of_neighbours


def autoregression(rho, size, seed):
    noise = np.random.default_rng(seed).normal(size=size + 10_000)
    return lfilter([np.sqrt(1.0 - rho**2)], [1.0, -rho], noise)[10_000:]


@pytest.mark.parametrize("size", [256, 1000, 10_000])
def test_independent_draws_of_any_kind_are_not_alike(size):
    """None of 600; the probability of one is below 1e-6 each."""
    rng = np.random.default_rng(size)
    for _ in range(100):
        for series in (
            rng.normal(size=size),
            rng.standard_cauchy(size=size),
            rng.exponential(size=size),
            1.0 * (rng.uniform(size=size) < 0.5),
            1.0 * (rng.uniform(size=size) < 0.01),
            rng.poisson(2.0, size=size),
        ):
            likeness = likeness_of_neighbours(series)
            assert np.isnan(likeness) or likeness < DEPENDENT


@pytest.mark.parametrize("rho", [0.8, 0.9, 0.99, 0.999])
def test_chains_are_alike(rho):
    for seed in range(5):
        assert likeness_of_neighbours(autoregression(rho, 4000, seed)) > DEPENDENT


def test_repeated_draws_are_alike():
    x = np.random.default_rng(1).normal(size=1000)
    assert likeness_of_neighbours(np.repeat(x, 10)) > DEPENDENT
    assert likeness_of_neighbours(np.repeat(x, 8)) == np.inf


def test_points_that_are_spread_evenly_are_not_alike():
    for column in qmc.Sobol(5, seed=1).random(4096).T:
        assert likeness_of_neighbours(column) < 1.0
    z = np.random.default_rng(1).normal(size=2000)
    antithetic = np.stack([z, -z], axis=1).ravel()
    assert likeness_of_neighbours(antithetic) < DEPENDENT
    assert likeness_of_neighbours(antithetic**2) < DEPENDENT


def test_draws_of_one_component_after_the_other_are_not_alike():
    x = np.random.default_rng(1).normal(size=4000)
    assert likeness_of_neighbours(x + 20.0 * np.repeat(np.arange(4), 1000)) < DEPENDENT


def test_few_or_equal_draws_tell_nothing():
    assert np.isnan(likeness_of_neighbours(np.arange(255.0)))
    assert np.isnan(likeness_of_neighbours(np.zeros(1000)))
