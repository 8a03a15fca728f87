"""Calibration probabilities from draws, and what they say about bias and spread.

Statistical tests have fixed seeds and allow four standard errors: each would fail by chance for
one seed in 16,000.
"""

import numpy as np
import pytest
from scipy import stats

from vicheck.stats.calibration import (
    bias,
    dispersion,
    mean_bias,
    mean_with_interval,
    randomised_probability,
    symmetric_kl_terms,
)


def assert_share(hits, expected):
    error = np.sqrt(expected * (1 - expected) / hits.size)
    assert abs(hits.mean() - expected) < 4 * error


# ---- probabilities from draws ----


@pytest.mark.parametrize("values", [2, 5, None])
@pytest.mark.parametrize("num_draws", [1, 3, 20])
def test_exchangeable_draws_give_a_uniform_probability(num_draws, values):
    rng = np.random.default_rng(num_draws)
    shape = (num_draws + 1, 40_000)
    sample = rng.normal(size=shape) if values is None else rng.integers(values, size=shape)
    p = randomised_probability(sample[1:], sample[0], rng)
    for at in (0.01, 0.1, 0.25, 0.5, 0.77, 0.9, 0.99):
        assert_share(p <= at, at)


def test_probability_is_small_when_q_sits_too_high(rng):
    draws = 2.0 + rng.normal(size=(100, 500))
    assert np.median(randomised_probability(draws, rng.normal(size=500), rng)) < 0.1


def test_probability_lies_in_the_cell_of_its_rank(rng):
    draws = np.array([1.0, 2.0, 2.0, 3.0, np.inf])
    for truth, low, high in [(0, 0, 1), (1.5, 1, 2), (2, 1, 4), (9, 4, 5), (np.inf, 4, 6)]:
        for _ in range(50):
            assert low / 6 < randomised_probability(draws, truth, rng) <= high / 6


class Extreme(np.random.Generator):
    """Uniform numbers at one end of what a generator returns."""

    def __init__(self, value):
        super().__init__(np.random.PCG64(0))
        self.value = value

    def random(self, size=None):
        return np.full(size, self.value)


@pytest.mark.parametrize("value", [0.0, 1.0 - 2.0**-53])
def test_probability_is_never_zero_or_one(value):
    p = randomised_probability(np.zeros((9, 3)), np.array([-1.0, 0.0, 1.0]), Extreme(value))
    assert np.all((p > 0.0) & (p < 1.0))


def test_nan_stays_where_it_is(rng):
    draws, truth = rng.normal(size=(10, 4)), rng.normal(size=4)
    draws[3, 1], truth[2] = np.nan, np.nan
    p = randomised_probability(draws, truth, rng)
    assert np.isnan(p).tolist() == [False, True, True, False]


def test_shapes_of_probabilities(rng):
    draws = rng.normal(size=(7, 2, 3))
    assert randomised_probability(draws, np.zeros((2, 3)), rng).shape == (2, 3)
    assert isinstance(randomised_probability(draws[:, 0, 0], 0.0, rng), float)
    for bad in (np.zeros(3), np.zeros((3, 2)), 0.0):
        with pytest.raises(ValueError, match=r"draws must have shape \(S, \.\.\.\)"):
            randomised_probability(draws, bad, rng)
    with pytest.raises(ValueError, match=r"S at least 1, got \(0,\)"):
        randomised_probability([], 0.0, rng)


# ---- bias ----


def test_bias_is_the_median_error_in_sds(rng):
    truth = rng.normal(size=501)
    mean, sd = truth + rng.normal(0.3, 1.0, 501), rng.uniform(0.5, 2.0, 501)
    p = stats.norm.cdf((truth - mean) / sd)
    found = bias(p)
    assert found.sds == pytest.approx(np.median((mean - truth) / sd))
    assert found.sds > 0.0  # q too high
    assert found.median == np.median(p)
    assert found.low < found.sds < found.high


@pytest.mark.slow
@pytest.mark.parametrize("num", [6, 25, 100, 1000])
def test_interval_of_bias_covers(num):
    rng = np.random.default_rng(num)
    found = bias(stats.norm.cdf(2 * rng.normal(size=(num, 20_000)) - 0.4))
    rank = next(r for r in range(1, num) if stats.binom.cdf(r, num, 0.5) > 0.025)
    exact = 1 - 2 * stats.binom.cdf(rank - 1, num, 0.5)
    assert exact >= 0.95
    assert_share((found.low <= 0.4) & (found.high >= 0.4), exact)


def test_interval_of_bias_is_infinite_for_too_few_datasets():
    found = bias([0.2, 0.4, 0.6, 0.7, 0.8])  # 2 / 2^5 is above 5%
    assert (found.low, found.high) == (-np.inf, np.inf)
    found = bias([0.2, 0.4, 0.6, 0.7, 0.8], level=0.9)
    assert found.low == pytest.approx(-stats.norm.ppf(0.8))
    assert found.high == pytest.approx(-stats.norm.ppf(0.2))


def test_bias_beyond_all_draws_is_infinite():
    assert bias(np.zeros(20)) == (0.0, np.inf, np.inf, np.inf)
    assert bias(np.ones(20)) == (1.0, -np.inf, -np.inf, -np.inf)


@pytest.mark.parametrize("shift", [-0.4, 0.0, 0.7])
def test_mean_bias_of_a_shifted_q_is_its_shift(rng, shift):
    p = stats.norm.cdf(rng.normal(size=40_000), shift)
    assert mean_bias(p).mean == pytest.approx(shift, abs=4 / np.sqrt(40_000))


@pytest.mark.parametrize("shape", [2.0, 5.0, 50.0])
def test_mean_bias_of_a_normal_q_with_the_mean_of_a_skewed_posterior_is_zero(rng, shape):
    """The median of a gamma posterior lies below its mean; q's median does not."""
    p = stats.norm.cdf(rng.gamma(shape, size=40_000), shape, np.sqrt(shape))
    assert abs(mean_bias(p).mean) < 4 / np.sqrt(40_000)
    median = (shape - stats.gamma(shape).median()) / np.sqrt(shape)
    assert bias(p).sds == pytest.approx(median, abs=4 * 1.3 / np.sqrt(40_000))


def test_the_interval_of_the_mean_bias_holds_the_shift_in_95_percent(rng):
    """A normal q that is a third of an sd too high, 400 times 60 datasets."""
    found = mean_bias(stats.norm.cdf(rng.normal(-0.33, 1.0, (60, 400))))
    held = np.mean((found.low < 0.33) & (found.high > 0.33))
    assert held == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 400))
    alone = mean_bias([0.5])
    assert (alone.low, alone.high) == (-np.inf, np.inf)


def test_mean_bias_is_finite_where_p_is_zero_or_one():
    assert mean_bias([0.0, 0.0]).mean == pytest.approx(8.2, abs=0.1)
    assert mean_bias([0.0, 1.0, 0.5]).mean == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(np.array(mean_bias(np.full((3, 2), 0.5))), 0.0)


# ---- dispersion ----


@pytest.mark.parametrize("needed", [0.5, 1.0, 2.0])
def test_dispersion_is_the_factor_needed(needed):
    rng = np.random.default_rng(5)
    found = dispersion(stats.norm.cdf(needed * rng.normal(size=100_001)))
    assert found.factor == pytest.approx(needed, rel=0.02)
    assert found.low < needed < found.high
    assert (found.p_value < 1e-6) == (needed != 1.0)


def test_dispersion_by_the_definition(rng):
    p = rng.random((101, 30))
    found = dispersion(p)
    expected = np.median(np.abs(stats.norm.ppf(p)), axis=0) / stats.norm.ppf(0.75)
    np.testing.assert_allclose(found.factor, expected, rtol=1e-10)
    for j in range(30):
        outside = int(np.sum(np.abs(2 * p[:, j] - 1) > 0.5))
        assert found.p_value[j] == pytest.approx(stats.binomtest(outside, 101).pvalue)


@pytest.mark.parametrize("num", [7, 100])
def test_interval_of_dispersion_covers_and_agrees_with_its_test(num):
    rng = np.random.default_rng(num)
    found = dispersion(rng.random((num, 20_000)))
    rank = next(r for r in range(1, num) if stats.binom.cdf(r, num, 0.5) > 0.025)
    missed = 2 * stats.binom.cdf(rank - 1, num, 0.5)
    covers = (found.low <= 1.0) & (found.high >= 1.0)
    assert_share(covers, 1 - missed)
    assert np.array_equal(covers, found.p_value > 0.05)


def test_dispersion_at_its_limits():
    found = dispersion(np.full(30, 0.5))
    assert found[:3] == (0.0, 0.0, 0.0)
    assert found.p_value == pytest.approx(2.0**-29)
    found = dispersion(np.repeat([0.0, 1.0], 15))
    assert found[:3] == (np.inf, np.inf, np.inf)
    assert dispersion([0.2, 0.8]).low == 0.0  # too few for an interval
    assert dispersion([0.2, 0.8]).high == np.inf
    assert dispersion(np.repeat([0.25, 0.75], 10)).p_value == 1.0


def test_columns_are_independent_and_scalars_come_back(rng):
    p = rng.random((40, 6)).astype(np.float32)
    for function in (bias, dispersion):
        together = function(p)
        for j in range(6):
            alone = function(p[:, j])
            assert [field[j] for field in together] == list(alone)
            assert all(isinstance(field, float) for field in alone)


@pytest.mark.parametrize("function", [bias, dispersion])
def test_wrong_probabilities_are_named(function):
    with pytest.raises(ValueError, match=r"NaN, got it in 1 of 3 datasets, the first at row 1"):
        function([0.1, np.nan, 0.3])
    with pytest.raises(ValueError, match=r"between 0 and 1, got values from -0.1 to 0.3"):
        function([-0.1, 0.3])
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 95"):
        function([0.1, 0.3], level=95)
    with pytest.raises(TypeError, match="real numbers, got dtype bool"):
        function([True, False])


def test_input_is_not_changed(rng):
    p = rng.random((30, 2))
    before = p.copy()
    bias(p), dispersion(p)
    assert np.array_equal(p, before)


# ---- means and the symmetric KL divergence ----


def test_mean_and_interval_are_those_of_a_t_test(rng):
    values = rng.normal(size=(12, 3)) + 1.0
    mean, low, high = mean_with_interval(values, level=0.9)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.9)
    np.testing.assert_allclose(mean, values.mean(axis=0))
    np.testing.assert_allclose(low, expected.low)
    np.testing.assert_allclose(high, expected.high)


def test_mean_of_values_that_are_not_finite():
    values = np.array(
        [[1.0, 2.0, 3.0], [np.nan, 2.0, 3.0], [np.inf, 2.0, 3.0], [-np.inf, np.inf, 1.0]]
    ).T
    mean, low, high = mean_with_interval(values)
    np.testing.assert_array_equal(mean, [2.0, np.nan, np.inf, np.nan])
    assert np.isfinite([low[0], high[0]]).all()
    assert np.isnan([low[1:], high[1:]]).all()
    assert all(type(each) is float for each in mean_with_interval([1.0, np.inf]))


def test_a_single_value_has_no_interval():
    mean, low, high = mean_with_interval([3.0])
    assert mean == 3.0
    assert np.isnan([low, high]).all()


def test_wrong_values_are_named():
    with pytest.raises(ValueError, match=r"values must have shape \(M,\) or \(M, Q\)"):
        mean_with_interval([])
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 1"):
        mean_with_interval([1.0, 2.0], level=1)


def conjugate_normal_terms(rng, num_datasets, num_draws, shift, scale):
    """Simulate theta ~ N(0, 1), y ~ N(theta, 1); the posterior is N(y / 2, 1 / 2).

    q is N(y / 2 + shift, scale^2). Returns the terms, and p of theta.
    """
    theta = rng.normal(size=num_datasets)
    y = theta + rng.normal(size=num_datasets)
    draws = y[:, None] / 2 + shift + scale * rng.normal(size=(num_datasets, num_draws))

    def log_ratio(at, y):
        log_p = stats.norm.logpdf(at) + stats.norm.logpdf(y, at)
        return log_p - stats.norm.logpdf(at, y / 2 + shift, scale)

    terms = symmetric_kl_terms(log_ratio(theta, y), log_ratio(draws, y[:, None]))
    return terms, stats.norm.cdf(theta, y / 2 + shift, scale)


@pytest.mark.parametrize(("shift", "scale"), [(0.3, 0.5), (0.0, 1.0), (-0.2, 0.8)])
def test_symmetric_kl_of_a_wrong_q(shift, scale):
    """The closed form lies in the interval as often as the level says."""
    rng = np.random.default_rng(11)
    var = 0.5
    exact = 0.5 * ((scale**2 + shift**2) / var + (var + shift**2) / scale**2) - 1.0
    covered = []
    for _ in range(200):
        terms, _ = conjugate_normal_terms(rng, 300, 10, shift, scale)
        _, low, high = mean_with_interval(terms)
        covered.append(low <= exact <= high)
    # Skewed terms cost the t interval a percent or two of its coverage.
    assert 0.95 - 4 * np.sqrt(0.95 * 0.05 / 200) - 0.02 < np.mean(covered) <= 1.0
    mean, low, high = mean_with_interval(conjugate_normal_terms(rng, 40_000, 10, shift, scale)[0])
    assert high - low < 0.2 * mean
    assert abs(mean - exact) < 4 * (high - low) / (2 * 1.96)


def test_exact_posterior_has_no_symmetric_kl_bias_or_misfit(rng):
    terms, p = conjugate_normal_terms(rng, 2000, 5, 0.0, np.sqrt(0.5))
    np.testing.assert_allclose(terms, 0.0, atol=1e-12)
    assert bias(p).low < 0.0 < bias(p).high
    assert dispersion(p).low < 1.0 < dispersion(p).high


def test_bias_and_dispersion_of_a_wrong_q(rng):
    _, p = conjugate_normal_terms(rng, 4000, 1, 0.3, 0.5)
    found = bias(p)
    assert found.low < 0.3 / 0.5 < found.high
    _, p = conjugate_normal_terms(rng, 4000, 1, 0.0, 0.5)
    found = dispersion(p)
    assert found.low < np.sqrt(0.5) / 0.5 < found.high


def test_terms_where_densities_vanish():
    # q misses the truth, p vanishes at a draw, neither.
    terms = symmetric_kl_terms([np.inf, 0.0, 0.0], [[0.0, 0.0], [-np.inf, 0.0], [1.0, 2.0]])
    assert terms.tolist() == [np.inf, np.inf, -1.5]
    assert mean_with_interval(terms).mean == np.inf
    assert np.isnan(symmetric_kl_terms([-np.inf], [[-np.inf]])).all()


def test_wrong_shapes_of_log_ratios_are_named():
    with pytest.raises(ValueError, match=r"\(M,\) and log_ratios_draws \(M, S\), got \(2,\) and"):
        symmetric_kl_terms([1.0, 2.0], [[1.0, 2.0]])
