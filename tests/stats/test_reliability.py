import mpmath
import numpy as np
import pytest

from vicheck.stats import reliability


@pytest.mark.parametrize(
    ("num_draws", "expected"), [(10, 0.0), (100, 0.5), (1000, 2 / 3), (2200, 0.7), (10**6, 0.7)]
)
def test_threshold(num_draws, expected):
    assert reliability.khat_threshold(num_draws) == pytest.approx(expected, abs=1e-3)


def test_threshold_and_min_draws_are_inverse():
    for num_draws in (50, 300, 2000):
        k = reliability.khat_threshold(num_draws)
        assert reliability.min_draws(k) == pytest.approx(num_draws)


def test_threshold_of_no_draws_is_an_error():
    with pytest.raises(ValueError, match="num_draws must be at least 1, got 0"):
        reliability.khat_threshold(0)
    assert reliability.khat_threshold(1) == -np.inf


def test_min_draws_of_odd_khats():
    np.testing.assert_array_equal(
        reliability.min_draws([-3.0, 0.0, 1.0, 7.0, np.nan]), [10, 10, np.inf, np.inf, np.nan]
    )
    assert reliability.min_draws(0.999) == np.inf


def test_the_example_of_posterior():
    """pareto_diags in the vignette of the R package posterior, for 4000 draws and khat 0.67."""
    assert reliability.min_draws(0.669) == pytest.approx(1051, abs=5)
    assert reliability.convergence_rate(0.669, 4000) == pytest.approx(0.64, abs=0.005)


def test_convergence_rate_follows_its_formula():
    def formula(k, size):
        return (2 * (k - 1) * size ** (2 * k + 1) + (1 - 2 * k) * size ** (2 * k) + size**2) / (
            (size - 1) * (size - size ** (2 * k))
        )

    for k in (0.1, 0.4, 0.6, 0.9):
        assert reliability.convergence_rate(k, 1000) == pytest.approx(max(0, formula(k, 1000)))


def test_convergence_rate_is_continuous_and_falls():
    k = np.linspace(-0.2, 1.2, 1401)
    rate = reliability.convergence_rate(k, 4000)
    assert (np.diff(rate) < 1e-9).all()
    assert np.abs(np.diff(rate)).max() < 0.02
    assert rate[0] == 1.0
    assert rate[-1] == 0.0


def test_convergence_rate_at_one_half_is_the_limit_from_both_sides():
    """The fraction is 0 / 0 there; next to it, in many digits, it says what it should be."""
    for size in (2, 10, 100, 1000, 10**6):
        at = reliability.convergence_rate(0.5, size)
        below, above = (rate_without_rounding(0.5 + step, size) for step in (-1e-12, 1e-12))
        assert above < below
        assert at == pytest.approx(below, abs=1e-9)
        assert at == pytest.approx(above, abs=1e-9)


def rate_without_rounding(k, size):
    with mpmath.workdps(60):
        k, size = mpmath.mpf(k), mpmath.mpf(size)
        power = size ** (2 * k)
        numerator = 2 * (k - 1) * power * size + (1 - 2 * k) * power + size**2
        return float(numerator / ((size - 1) * (size - power)))


def test_convergence_rate_of_undefined_khat():
    assert np.isnan(reliability.convergence_rate(np.nan, 1000))
    assert np.isnan(reliability.convergence_rate(0.3, 1))
