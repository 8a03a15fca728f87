"""Whether intervals cover as they claim, against closed forms and by simulation.

Statistical tests have fixed seeds; each column of probabilities is one run.
"""

import numpy as np
import pytest
from scipy.stats import norm

from vicheck.stats.coverage import coverage, covers_as_claimed, detectable_stretch
from vicheck.stats.symmetry import symmetry_test


def stretched(num_datasets, num_runs, narrow=1.0, seed=1):
    """Return probabilities of a normal q whose sd is too small by a factor."""
    z = np.random.default_rng(seed).normal(size=(num_datasets, num_runs))
    return norm.cdf(narrow * z)


@pytest.mark.parametrize("claimed", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("narrow", [0.5, 1.0, 2.0])
def test_coverage_of_a_normal_q_is_the_closed_form(claimed, narrow):
    z = norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    exact = 2.0 * norm.cdf(norm.ppf(0.5 + 0.5 * claimed) / narrow) - 1.0
    assert coverage(norm.cdf(narrow * z), claimed) == pytest.approx(exact, abs=2e-5)


def test_coverage_is_one_number_for_each_quantity():
    p = np.array([[0.01, 0.5], [0.3, 0.05], [0.96, 0.95]])
    np.testing.assert_allclose(coverage(p, 0.9), [1 / 3, 1.0])  # the ends of an interval belong
    assert coverage(p[:, 0], 0.9) == pytest.approx(1 / 3)


@pytest.mark.parametrize(("num_datasets", "num_runs"), [(20, 4000), (100, 4000), (1000, 1000)])
def test_exact_intervals_are_rejected_at_most_at_the_level(num_datasets, num_runs):
    """Within four standard errors of 5% and not far below; without tolerance the test is exact."""
    rejected = 1.0 - covers_as_claimed(stretched(num_datasets, num_runs)).mean()
    error = np.sqrt(0.05 * 0.95 / num_runs)
    assert 0.025 < rejected < 0.05 + 4 * error


@pytest.mark.parametrize("num_datasets", [100, 1000, 10_000])
@pytest.mark.parametrize("narrow", [1 / 1.05, 1.0, 1.05])
def test_what_is_tolerated_is_rejected_at_most_at_the_level(num_datasets, narrow):
    """However many datasets there are: 400 runs, four standard errors."""
    p = stretched(num_datasets, 400, narrow, seed=num_datasets)
    assert 1.0 - covers_as_claimed(p, stretch=1.05).mean() < 0.05 + 4 * 0.011


@pytest.mark.parametrize("narrow", [1 / 1.05, 1.05])
def test_without_tolerance_many_datasets_reject_what_makes_no_difference(narrow):
    assert not covers_as_claimed(stretched(20_000, 20, narrow)).any()


@pytest.mark.parametrize("num_datasets", [20, 100, 1000])
@pytest.mark.parametrize("num_quantities", [1, 20])
def test_a_factor_that_is_called_detectable_is(num_datasets, num_quantities):
    """With probability 0.8 or more, but not almost always: 400 runs, four standard errors."""
    level = 0.05 / num_quantities
    factor = detectable_stretch(num_datasets, level, stretch=1.05)
    p = stretched(num_datasets, 400, factor, seed=7)
    found = 1.0 - covers_as_claimed(p, level, stretch=1.05).mean()
    assert 0.8 - 4 * 0.02 < found < 0.999


def test_what_is_detectable_falls_with_datasets_and_rises_with_quantities():
    assert detectable_stretch(100) > detectable_stretch(1000) > detectable_stretch(10_000) > 1.0
    assert detectable_stretch(100, 0.001) > detectable_stretch(100)
    assert detectable_stretch(1000, stretch=1.05) > detectable_stretch(1000)
    assert detectable_stretch(2) == np.inf


@pytest.mark.parametrize(
    ("name", "p"),
    [
        ("infinitely wide", np.full(100, 0.5)),
        ("always missed", np.tile([0.0, 1.0], 50)),
        ("on a grid of quarters", np.tile([0.25, 0.75], 50)),
    ],
)
def test_degenerate_probabilities_do_not_cover(name, p):
    assert not covers_as_claimed(p, stretch=1.05)


def test_symmetry_and_coverage_together_are_uniformity():
    """Each sees what the other cannot: a shape that leans, and one that does not."""
    u = (np.arange(2000) + 0.5) / 2000
    rng = np.random.default_rng(1)
    # |2p - 1| stays uniform, and its sign depends on it: the left tail is light, the right heavy.
    distance = rng.permutation(u)
    leaning = 0.5 + 0.5 * distance * np.where(rng.random(2000) < 0.3 + 0.4 * distance, 1, -1)
    assert covers_as_claimed(leaning)
    assert symmetry_test(leaning).p_value < 1e-3
    assert not covers_as_claimed(norm.cdf(1.5 * norm.ppf(u)))
    assert symmetry_test(norm.cdf(1.5 * norm.ppf(u))).p_value > 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: covers_as_claimed([0.5], stretch=0.9), "stretch must be at least 1, got 0.9"),
        (lambda: covers_as_claimed([0.5], stretch=np.nan), "stretch must be at least 1, got nan"),
        (lambda: covers_as_claimed([0.5], 1.0), "level must lie between 0 and 1, got 1"),
        (lambda: coverage([0.5], 1.5), "claimed must lie between 0 and 1, got 1.5"),
        (lambda: covers_as_claimed([0.5, np.nan]), "must not hold NaN"),
        (lambda: detectable_stretch(0), "num_datasets must be at least 1, got 0"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
