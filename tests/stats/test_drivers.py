"""The coordinates by which widths of others change are found."""

import numpy as np
import pytest

from vicheck.stats.drivers import find_drivers

DIM = 6
MEAN = np.arange(DIM) / 10.0


def draws(count=4096):
    half = np.random.default_rng(4).standard_normal((count // 2, DIM))
    return np.concatenate([half, -half])


def funnel(x, driver, others, rate=0.4):
    """Gradients where the log widths of others grow with a driver, and the rest are normal."""
    gradients = -x.copy()
    shrunk = np.exp(-2.0 * rate * x[:, driver])
    gradients[:, others] = -x[:, others] * shrunk[:, None]
    gradients[:, driver] += rate * (np.square(x[:, others]) * shrunk[:, None] - 1.0).sum(axis=1)
    return gradients


@pytest.mark.parametrize("driver", [0, 3, 5])
def test_the_driver_of_a_funnel_is_found_wherever_it_stands(driver):
    x = draws()
    others = np.setdiff1d(np.arange(DIM), [driver, (driver + 1) % DIM])
    found = find_drivers(MEAN + x, funnel(x, driver, others), MEAN, np.eye(DIM))
    assert list(found) == [driver]


def test_units_do_not_matter():
    x, units = draws(), 10.0 ** np.arange(-3, 3)
    gradients = funnel(x, 4, np.array([0, 1, 2]))
    found = find_drivers(MEAN + x * units, gradients / units, MEAN, np.diag(units**2))
    assert list(found) == [4]


def test_a_normal_has_no_drivers():
    x = draws()
    assert len(find_drivers(MEAN + x, -x, MEAN, np.eye(DIM))) == 0


def test_steps_that_change_the_curvature_along_their_scale_alone_are_no_drivers():
    """A walk whose steps are multiplied by the first coordinate: given that one it is normal."""
    x = draws()
    scale, steps = 1.0 + 0.3 * x[:, [0]], x[:, 1:]
    residuals = scale * steps - 0.5
    gradients = -x.copy()
    gradients[:, 0] -= 0.3 * (residuals * steps).sum(axis=1)
    gradients[:, 1:] -= residuals * scale
    precision = np.diag([1.5, *[2.0] * (DIM - 1)])
    found = find_drivers(x, gradients, np.zeros(DIM), np.linalg.inv(precision))
    assert found[0] == 0
    assert len(found) == 1
