import numpy as np
import pytest

from vicheck.stats.resolution import resolution_of


@pytest.mark.parametrize(
    ("offset", "kind", "expected"),
    [
        (-1e8, np.float32, 8.0),
        (-1e6, np.float32, 0.0625),
        (-900.0, np.float32, 2.0**-14),
        (-1e8, np.float64, 2.0**-26),
        (-1e13, np.float64, 2.0**-9),
        (-1e15, np.float64, 0.125),
    ],
)
def test_it_is_the_spacing_of_the_numbers_at_their_size(offset, kind, expected):
    x = (offset + np.random.default_rng(1).normal(size=1000) * 20.0).astype(kind)
    assert resolution_of(x) == pytest.approx(expected)


@pytest.mark.parametrize(("decimals", "expected"), [(-1, 10.0), (0, 1.0), (1, 0.1), (3, 0.001)])
def test_rounded_decimals_are_seen(decimals, expected):
    x = np.round(np.random.default_rng(1).normal(size=2000) * 30.0 - 123_456.0, decimals)
    assert resolution_of(x) == pytest.approx(expected)


def test_six_digits_of_a_large_density_are_coarse():
    """As Stan's CSV files have them by default."""
    x = np.random.default_rng(1).normal(size=2000) - 234_567.0
    assert resolution_of(np.array([float(f"{each:.6g}") for each in x])) == 1.0


def test_a_single_number_that_is_not_rounded_tells():
    x = np.round(np.random.default_rng(1).normal(size=2000) - 1000.0, 1)
    x[1777] += 0.0123456789
    assert resolution_of(x) < 1e-9


@pytest.mark.parametrize(
    "x",
    [
        np.zeros(100),
        np.full(100, -123_456.0),
        np.array([-np.inf, -np.inf]),
        np.array([]),
        np.array([3.0]),
    ],
)
def test_constants_have_no_resolution(x):
    assert resolution_of(x) == 0.0


def test_small_whole_numbers_are_not_rounded_densities():
    """Two levels of a density, or a count: exact as they stand."""
    assert resolution_of(np.array([0.0, -1.0] * 50)) < 1e-3
    assert resolution_of(np.arange(20.0)) < 2e-3


def test_what_is_not_finite_does_not_count():
    x = np.random.default_rng(1).normal(size=100) - 1e3
    x[:3] = np.nan, -np.inf, np.inf
    assert 0.0 < resolution_of(x) < 1e-12
