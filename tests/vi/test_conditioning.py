"""Normals of most coordinates given a few, where both are known in closed form."""

import jax.numpy as jnp
import numpy as np

import vicheck
from vicheck.model import double_precision
from vicheck.vi.conditioning import Normals, normals_given
from vicheck.vi.density import Density

Y = np.array([2.0, -1.0, 0.5])
SIGMA = np.array([1.0, 2.0, 0.5])


def hierarchy(x):
    """x[1] is the log of the sd of the others around zero; each has an observation."""
    others = x[jnp.array([0, 2, 3])]
    prior = -0.5 * jnp.square(others * jnp.exp(-x[1])).sum() - 3.0 * x[1]
    return prior - 0.5 * jnp.square((Y - others) / SIGMA).sum() - 0.5 * x[1] ** 2


def found_at(log_density, drivers, dim=4, which=1, means=None):
    model = vicheck.from_log_density(log_density, np.zeros(dim))
    with double_precision():
        density = Density(model.program, model.data, {})
        drivers, size = np.asarray(drivers)[:, None], dim - 1
        means = np.zeros((len(drivers), size)) if means is None else means
        guesses = means, np.tile(np.eye(size), (len(drivers), 1, 1))
        return normals_given(density, np.array([which]), drivers, *guesses)


def test_means_precisions_and_masses_are_exact_where_the_others_are_normal():
    log_sds = np.array([-12.0, -6.0, -1.0, 0.0, 2.0])
    normals, found = found_at(hierarchy, log_sds)
    assert found.all()
    prior = np.exp(-2.0 * log_sds)[:, None]
    precision = prior + SIGMA**-2.0
    np.testing.assert_allclose(normals.means, Y * SIGMA**-2.0 / precision, rtol=0.02, atol=1e-7)
    squares = normals.roots @ normals.roots.swapaxes(1, 2)
    expected = np.einsum("ni,ij->nij", precision, np.eye(3))
    scale = np.sqrt(precision[:, :, None] * precision[:, None, :])
    np.testing.assert_allclose(squares / scale, expected / scale, atol=1e-5)
    # The others integrated out, the data are normal with variance sd^2 + sigma^2.
    variance = np.exp(2.0 * log_sds)[:, None] + SIGMA**2
    exact = -0.5 * (np.log(variance) + Y**2 / variance).sum(axis=1) - 0.5 * log_sds**2
    shift = normals.log_masses - exact
    np.testing.assert_allclose(shift, shift[0], atol=1e-3)


def test_where_the_others_have_no_top_or_no_density_nothing_is_found():
    def saddle_or_none(x):
        curvature = jnp.where(x[1] > 0.0, 1.0, -1.0)
        height = -0.5 * curvature * (x[0] ** 2 + x[2] ** 2 + x[3] ** 2)
        return jnp.where(x[1] > 5.0, jnp.nan, height)

    normals, found = found_at(saddle_or_none, [-1.0, 1.0, 9.0])
    assert found.tolist() == [False, True, False]
    assert normals.drivers.tolist() == [[1.0]]


def test_a_guess_that_is_far_off_is_mended():
    far = np.full((2, 3), 40.0)
    normals, found = found_at(hierarchy, [-3.0, 1.0], means=far)
    assert found.all()
    near, _ = found_at(hierarchy, [-3.0, 1.0])
    np.testing.assert_allclose(normals.means, near.means, atol=0.02)
    np.testing.assert_allclose(normals.log_masses, near.log_masses, atol=1e-3)


def test_more_of_them_stand_beside_the_first():
    one = Normals(np.zeros((1, 1)), np.zeros((1, 2)), np.eye(2)[None], np.zeros(1))
    both = one.beside(one)
    assert [len(each) for each in both] == [2, 2, 2, 2]
    assert both.roots.shape == (2, 2, 2)
