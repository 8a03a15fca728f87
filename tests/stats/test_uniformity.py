"""Simultaneous bands for the ECDF.

Statistical tests have fixed seeds and allow four standard errors: each would fail by chance for
one seed in 16,000.
"""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from vicheck.stats.uniformity import band_coverage, simultaneous_band, uniformity_test

# arviz 0.23.4, for M = K: 1 - arviz.stats.ecdf_utils._optimize_simultaneous_ecdf_band_probability(
#     M, z, z, prob=0.95) with z = np.arange(1, M + 1) / M. Importing arviz takes seconds.
GAMMA_OF_ARVIZ = {50: 0.006374924, 250: 0.002466487, 1000: 0.001519044}


def assert_share(hits, expected):
    error = np.sqrt(expected * (1 - expected) / hits.size)
    assert abs(hits.mean() - expected) < 4 * error


def coverage_by_binomials(lower, upper, num):
    """Return the coverage of counts between bounds by conditional binomials, point by point."""
    points = len(lower)
    chance = np.zeros(num + 1)
    chance[0] = 1.0
    counts = np.arange(num + 1)
    for i, (a, b) in enumerate(pairwise(np.arange(points + 1) / points)):
        step = stats.binom.pmf(
            counts[None, :] - counts[:, None], (num - counts)[:, None], (b - a) / (1 - a)
        )
        chance = chance @ step
        chance[(counts < lower[i]) | (counts > upper[i])] = 0.0
    return chance.sum()


@pytest.mark.parametrize(("num", "points"), [(10, 10), (30, 7), (60, 60), (40, 90)])
@pytest.mark.parametrize("gamma", [0.001, 0.02, 0.3])
def test_coverage_by_another_recursion(num, points, gamma):
    z = np.arange(1, points + 1) / points
    lower = stats.binom.ppf(gamma / 2, num, z)
    upper = num - np.append(lower[-2::-1], 0)
    expected = coverage_by_binomials(lower, upper, num)
    assert band_coverage(gamma, num, points) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("num", [50, 250, 1000])
def test_coverage_by_simulation(num):
    found = uniformity_test(np.random.default_rng(num).random((num, 8000)))
    band = simultaneous_band(num)
    coverage = band_coverage(band.gamma, num)
    assert 0.95 <= coverage < 0.952
    assert_share(found.inside, coverage)


@pytest.mark.parametrize("num", GAMMA_OF_ARVIZ)
def test_band_agrees_with_arviz(num):
    band = simultaneous_band(num)
    theirs = GAMMA_OF_ARVIZ[num]
    # It minimises |coverage - 0.95|, which has steps; both bands are as good.
    assert band.gamma == pytest.approx(theirs, rel=0.01)
    assert band_coverage(theirs, num) == pytest.approx(0.95, abs=0.002)
    low, high = stats.binom.interval(1 - theirs, num, band.points)
    assert np.all(np.abs(band.lower - low / num) < 1.01 / num)
    assert np.all(np.abs(band.upper - high / num) < 1.01 / num)


@pytest.mark.parametrize(("num", "points", "level"), [(20, 20, 0.9), (100, 30, 0.99), (7, 3, 0.5)])
def test_band_is_the_narrowest_that_keeps_its_level(num, points, level):
    band = simultaneous_band(num, level, points)
    assert band_coverage(band.gamma, num, points) >= level
    assert band_coverage(min(1.0, band.gamma * 1.0001), num, points) < level


def test_shape_of_the_band():
    band = simultaneous_band(200, num_points=50)
    assert band.points.shape == band.lower.shape == band.upper.shape == (50,)
    assert band.lower[-1] == band.upper[-1] == 1.0
    assert np.all(band.lower[:-1] < band.points[:-1])
    assert np.all(band.upper[:-1] > band.points[:-1])
    np.testing.assert_allclose(band.upper[:-1], 1.0 - band.lower[-2::-1])
    wider = simultaneous_band(200, 0.99, num_points=50)
    assert np.all((wider.lower <= band.lower) & (wider.upper >= band.upper))
    assert simultaneous_band(5000).points.size == 1000


def test_inside_means_inside_the_band(rng):
    for num, points in ((40, 40), (300, 25)):
        p = rng.beta(1.2, 1.0, (num, 400))
        band = simultaneous_band(num, num_points=points)
        found = uniformity_test(p, num_points=points)
        ecdf = (p[:, :, None] <= band.points).mean(axis=0)
        within = np.all((ecdf >= band.lower - 1e-9) & (ecdf <= band.upper + 1e-9), axis=1)
        assert 0 < within.sum() < 400
        assert np.array_equal(found.inside, within)
        at = np.rint(found.point * points).astype(int) - 1
        np.testing.assert_allclose(
            found.excursion, ecdf[np.arange(400), at] - band.points[at], atol=1e-12
        )


@pytest.mark.parametrize("num", [10, 50, 250])
def test_p_values_are_uniform_as_far_as_they_can_be(num):
    """Pr(p value <= level) is at most the level, and for many datasets equal to it."""
    p_values = uniformity_test(np.random.default_rng(num).random((num, 20_000))).p_value
    for level in (0.01, 0.05, 0.2, 0.5):
        share, error = np.mean(p_values <= level), np.sqrt(level * (1 - level) / 20_000)
        assert share < level + 4 * error
        if num > 10:
            assert share > 0.9 * level - 4 * error


@pytest.mark.parametrize(("num", "precision"), [(10, 1e-9), (50, 1e-9), (250, 0.05), (600, 0.05)])
def test_p_value_is_the_probability_of_the_statistic(rng, num, precision):
    found = uniformity_test(rng.random((num, 30)) ** 1.1)
    for statistic, p_value in zip(found.statistic, found.p_value, strict=True):
        above = min(1.0, statistic * (1 + 1e-9))
        assert p_value == pytest.approx(1 - band_coverage(above, num), rel=precision)


@pytest.mark.parametrize("level", [0.01, 0.05, 0.3])
def test_p_value_and_band_agree(rng, level):
    found = uniformity_test(rng.random((120, 3000)), level)
    assert np.array_equal(found.inside, found.p_value > level)


def test_departures_are_found(rng):
    shapes = {"high": (2.0, 1.0), "low": (1.0, 2.0), "u": (0.6, 0.6), "hump": (2.0, 2.0)}
    found = {name: uniformity_test(rng.beta(*shape, (300, 200))) for name, shape in shapes.items()}
    for test in found.values():
        assert np.mean(test.inside) < 0.02
    assert np.all(found["low"].excursion > 0.0)  # too many small p: q too high
    assert np.all(found["high"].excursion < 0.0)
    symmetric = found["u"]
    assert np.mean(np.sign(symmetric.excursion) == np.sign(0.5 - symmetric.point)) > 0.99


def test_limits_of_the_p_value():
    found = uniformity_test(np.zeros(200))
    assert not found.inside
    assert found.p_value == pytest.approx(1e-10)
    assert found.excursion == pytest.approx(1 - found.point)
    assert uniformity_test(np.ones(200)).p_value == pytest.approx(1e-10)
    even = uniformity_test((np.arange(200) + 0.5) / 200)
    assert even.inside
    assert even.p_value > 0.99


@pytest.mark.parametrize("num", [1, 2, 3])
def test_very_few_datasets(num):
    band = simultaneous_band(num)
    assert band_coverage(band.gamma, num) >= 0.95
    found = uniformity_test(np.full(num, 0.3))
    assert found.inside
    assert found.p_value > 0.05


def test_p_on_the_grid_counts_as_at_most(rng):
    p = rng.integers(1, 26, (50, 20)) / 25
    found = uniformity_test(p, num_points=25)
    shifted = uniformity_test(p - 1e-6, num_points=25)
    assert np.array_equal(found.statistic, shifted.statistic)


def test_columns_are_independent_and_scalars_come_back(rng):
    p = rng.random((60, 5))
    together = uniformity_test(p)
    for j in range(5):
        alone = uniformity_test(p[:, j])
        assert [field[j] for field in together] == pytest.approx(list(alone), rel=1e-12)
        assert [type(field) for field in alone] == [bool, float, float, float, float]


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="NaN, got it in 1 of 2 datasets, the first at row 0"):
        uniformity_test([np.nan, 0.5])
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 5"):
        uniformity_test([0.1, 0.5], level=5)
    with pytest.raises(ValueError, match="num_points must be at least 2, got 1"):
        simultaneous_band(10, num_points=1)
    with pytest.raises(ValueError, match="num_datasets must be at least 1, got 0"):
        simultaneous_band(0)
    with pytest.raises(ValueError, match=r"gamma must lie in \(0, 1\], got 0"):
        band_coverage(0.0, 10)


@pytest.mark.parametrize("points", [200, None])
def test_there_is_a_band_for_every_number_of_datasets(points):
    """Near gamma = 1 rounding leaves some odd numbers no count inside."""
    for num in [*range(1, 60), *range(195, 260, 1), 297, 333, 499, 1005]:
        band = simultaneous_band(num, 0.95, points if points is None else min(points, max(2, num)))
        assert (band.lower <= band.upper).all()
