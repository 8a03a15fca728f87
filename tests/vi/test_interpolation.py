"""Functions through values at scattered points, against SciPy's splines and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline, RBFInterpolator

from vicheck.model import double_precision
from vicheck.vi.interpolation import Interpolation

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_values_are_met_and_linear_functions_are_exact_also_outside(dim):
    points = RNG.normal(size=(12 + 6 * dim, dim))
    values = np.stack([np.sin(points.sum(axis=1)), 1.0 + points @ np.arange(1.0, dim + 1)], axis=1)
    found = Interpolation.through(points, values)
    np.testing.assert_allclose(found.at(points), values, atol=1e-9)
    far = 1.9 * found.reach * np.linspace(-1.0, 1.0, 50)[:, None] * np.ones(dim) / dim**0.5
    np.testing.assert_allclose(found.at(far)[:, 1], 1.0 + far @ np.arange(1.0, dim + 1), atol=1e-8)


def test_in_one_dimension_it_is_the_natural_cubic_spline():
    points = np.sort(RNG.normal(size=9))
    spline = CubicSpline(points, np.exp(points), bc_type="natural")
    x = np.linspace(points[0], points[-1], 40)
    found = Interpolation.through(points[:, None], np.exp(points)[:, None]).at(x[:, None])
    np.testing.assert_allclose(found[:, 0], spline(x), rtol=1e-9)


def test_in_more_dimensions_it_is_that_of_scipy():
    points, x = RNG.normal(size=(30, 3)), RNG.normal(size=(20, 3))
    values = np.cos(points)
    theirs = RBFInterpolator(points, values, kernel="cubic", degree=1)(x)
    np.testing.assert_allclose(Interpolation.through(points, values).at(x), theirs, rtol=1e-7)


def test_beyond_the_points_it_goes_on_linearly_and_very_far_out_no_more():
    points = np.linspace(-2.0, 2.0, 9)[:, None]
    found = Interpolation.through(points, points**3)
    outside = found.at(np.array([[2.5], [3.0], [3.5]]))[:, 0]
    assert outside[2] - outside[1] == pytest.approx(outside[1] - outside[0])
    assert outside[1] > outside[0]
    assert found.at(np.array([[1e3]])) == pytest.approx(found.at(np.array([[4.0]])))


def test_it_is_the_same_in_jax_with_finite_slopes_everywhere():
    points = RNG.normal(size=(15, 2))
    found = Interpolation.through(points, np.sin(points))
    with double_precision():
        x = jnp.asarray(points[0])
        np.testing.assert_allclose(found.at(x), found.at(points[0]), rtol=1e-12)
        moved = jax.tree.map(jnp.asarray, found)
        np.testing.assert_allclose(moved.at(x), found.at(points[0]), rtol=1e-12)
        assert np.isfinite(jax.jacfwd(moved.at)(x)).all()


@pytest.mark.parametrize(
    "points", [np.zeros((0, 1)), np.ones((2, 2)), np.array([[1.0], [1.0], [2.0]])]
)
def test_points_that_do_not_determine_it_are_refused(points):
    with pytest.raises(np.linalg.LinAlgError):
        Interpolation.through(points, np.zeros((len(points), 1)))
