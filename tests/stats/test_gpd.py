import mpmath
import numpy as np
import pytest

from tests.stats.exact import exact_fit
from vicheck.stats.gpd import fit_gpd, grid_size, log_quantiles, quartile_index


def sorted_log_sample(rng, k, size):
    return np.sort(log_quantiles(rng.uniform(size=size), k, 0.0))


@pytest.mark.parametrize("k", [-0.5, 0.0, 0.3, 0.7, 1.5, 20.0, 200.0])
def test_fit_agrees_with_sixty_digits(rng, k):
    log_x = sorted_log_sample(rng, k, 30)
    fit = fit_gpd(log_x)
    with mpmath.workdps(60 if k < 20 else 1500):
        x = [mpmath.exp(mpmath.mpf(float(value))) for value in log_x]
        expected_k, expected_log_sigma = exact_fit(x)
    assert fit.k == pytest.approx(expected_k, rel=1e-11)
    assert fit.log_sigma == pytest.approx(expected_log_sigma, rel=1e-11, abs=1e-11)


def test_exceedances_spanning_ten_thousand_nats_have_a_finite_khat():
    fit = fit_gpd(np.linspace(-10_000.0, 0.0, 95))
    assert np.isfinite(fit.k)
    assert fit.k > 100
    assert np.isfinite(fit.log_sigma)


@pytest.mark.parametrize("shift", [-1e5, -300.0, 1e5])
def test_shape_does_not_depend_on_the_scale(rng, shift):
    log_x = sorted_log_sample(rng, 0.5, 200)
    assert fit_gpd(log_x + shift).k == pytest.approx(fit_gpd(log_x).k, abs=1e-9)


def test_grid_weights_are_a_distribution(rng):
    fit = fit_gpd(sorted_log_sample(rng, 0.4, 100))
    assert fit.weights.sum() == pytest.approx(1.0)
    assert fit.k_grid.shape == fit.weights.shape == (grid_size(100),)


def test_theta_of_zero_is_the_exponential_limit():
    # x_N / x_* chosen so that one grid point is exactly zero: theta_j = 1 / x_N - s_j / 3.
    size = 20
    step = np.sqrt(grid_size(size) / 10.5) - 1.0
    log_x = np.linspace(0.0, 1.0, size)
    log_x = log_x - log_x[quartile_index(size)]
    log_x = log_x * (np.log(3.0 / step) / log_x[-1])
    fit = fit_gpd(log_x)
    assert np.isfinite(fit.k)
    assert np.abs(fit.k_grid).min() < 1e-12


@pytest.mark.parametrize("k", [-2.0, -0.4, 0.0, 1e-15, 0.6, 3.0])
def test_quantiles_are_those_of_scipy(k):
    from scipy.stats import genpareto

    u = np.array([0.001, 0.2, 0.5, 0.9, 0.999])
    expected = np.log(genpareto.ppf(u, k, scale=2.5))
    np.testing.assert_allclose(log_quantiles(u, k, np.log(2.5)), expected, rtol=1e-10, atol=1e-10)


def test_quantiles_of_a_huge_shape_do_not_overflow():
    assert np.isfinite(log_quantiles(np.array([0.5, 0.999]), 1e4, 0.0)).all()


def test_rows_are_fitted_as_if_alone(rng):
    """Whatever their neighbours are: a wide tail, an exponential one, one with zeros."""
    rows = [sorted_log_sample(rng, k, 60) for k in (-0.5, 0.5, 60.0)]
    zeros = sorted_log_sample(rng, 0.3, 60)
    zeros[:5] = -np.inf
    rows = np.stack([*rows, zeros])
    with np.errstate(divide="ignore"):
        together = fit_gpd(rows)
        alone = [fit_gpd(row) for row in rows]
    for name in together._fields:
        np.testing.assert_array_equal(getattr(together, name), [getattr(f, name) for f in alone])
