"""The coordinates by which widths of others change are found, and axes for these others."""

import numpy as np
import pytest

from vicheck.stats.drivers import axes_after, find_drivers

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


def test_a_driver_is_the_first_axis_and_the_root_is_one_of_the_covariance():
    x = draws()
    lower = np.tril(np.random.default_rng(1).normal(size=(DIM, DIM)), -1) + np.eye(DIM)
    covariance = lower @ lower.T
    z = MEAN + x @ lower.T
    gradients = np.linalg.solve(lower.T, funnel(x, 0, np.array([2, 3])).T).T
    root = axes_after(np.array([0]), z, gradients, MEAN, covariance)
    np.testing.assert_allclose(root @ root.T, covariance, atol=1e-12)
    # The driver moves along the first axis alone.
    np.testing.assert_allclose(root[0, 1:], 0.0, atol=1e-12)


def test_axes_stay_those_of_the_coordinates_where_widths_of_these_change():
    x = draws()
    root = axes_after(
        np.array([2]), x, funnel(x, 2, np.array([0, 1, 4])), np.zeros(DIM), np.eye(DIM)
    )
    np.testing.assert_array_equal(np.sort(np.abs(root), axis=0)[-1], 1.0)


def test_the_other_axes_lie_where_widths_change():
    """Widths of sum and difference of two coordinates change, in opposite directions."""
    x = draws()
    turn = np.eye(DIM)
    turn[1:3, 1:3] = np.array([[1.0, 1.0], [-1.0, 1.0]]) / 2**0.5
    y = x @ turn
    slopes = -y.copy()
    for axis, rate in ((1, 0.3), (2, -0.3)):
        shrunk = np.exp(-2.0 * rate * y[:, 0])
        slopes[:, axis] = -y[:, axis] * shrunk
    root = axes_after(np.array([0]), x, slopes @ turn.T, np.zeros(DIM), np.eye(DIM))
    # All other axes are alike, so that only these two are determined, as first and last.
    for axis in (root[:, 1], root[:, -1]):
        assert np.abs(axis @ turn[:, 1:3]).max() > 0.99


def test_what_changes_a_driver_is_none_itself():
    """A scale times a vector: the scale's own curvature changes with each of the vector."""
    x = draws()
    slopes = -x.copy()
    slopes[:, 0] += 0.15 * (np.square(x[:, 1:]) - 1.0).sum(axis=1) + 0.3 * x[:, 0] * x[:, 1:].sum(1)
    slopes[:, 1:] += 0.3 * x[:, :1] * x[:, 1:] + 0.15 * (np.square(x[:, :1]) - 1.0)
    assert list(find_drivers(x, slopes, np.zeros(DIM), np.eye(DIM))) == [0]


def test_axes_are_not_disturbed_by_what_else_gradients_depend_on():
    x = draws(1024)
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(DIM - 1, DIM - 1)))[0]
    y = x[:, 1:] @ turn
    slopes = -x.copy()
    slopes[:, 1:] += (0.1 * np.arange(-2, 3) * x[:, :1] * y) @ turn.T
    slopes[:, 1:] += 0.5 * (np.square(x[:, :1]) - 1.0)
    root = axes_after(np.array([0]), x, slopes, np.zeros(DIM), np.eye(DIM))
    np.testing.assert_allclose(np.abs(root[1:, 1:].T @ turn), np.eye(DIM - 1), atol=0.01)
