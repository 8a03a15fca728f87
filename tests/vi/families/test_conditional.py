"""A normal given a few coordinates: its map and back, its density, its draws and its moments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vicheck.model import double_precision
from vicheck.stats.t_mixtures import single_t
from vicheck.vi.families.conditional import Conditional, Shape

DIM, DRIVERS = 5, 2
LOC = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
ROOT = np.random.default_rng(8).normal(size=(DIM, DIM)) + 2.0 * np.eye(DIM)


def t(dim, df):
    return single_t(np.zeros(dim), 1.2 * np.eye(dim), df)


def member(shape):
    with double_precision():
        q = Conditional.around(LOC, ROOT, shape, t(DRIVERS, 5.0), t(DIM - DRIVERS, 30.0))
        return jax.tree.map(jnp.asarray, q)


@pytest.fixture(scope="module")
def bent():
    rng = np.random.default_rng(3)
    return member(
        Shape(*(0.2 * rng.standard_normal(each.shape) for each in Shape.nothing(DIM, DRIVERS)))
    )


def test_without_a_shape_it_is_the_noise_moved_and_turned():
    u = np.random.default_rng(1).standard_normal(DIM)
    with double_precision():
        z, log_det = member(Shape.nothing(DIM, DRIVERS)).mapped(jnp.asarray(u))
    np.testing.assert_allclose(z, LOC + ROOT @ u, rtol=1e-12)
    assert float(log_det) == pytest.approx(np.linalg.slogdet(ROOT)[1], rel=1e-12)


def test_its_density_is_that_of_its_noise_by_the_change_of_volume(bent):
    with double_precision():
        u = jnp.asarray([0.3, -0.7, 1.9, -2.5, 0.1])
        z, log_det = bent.mapped(u)
        slopes = np.asarray(jax.jacfwd(lambda u: bent.mapped(u)[0])(u))
        log_noise = bent.first.log_prob(u[:DRIVERS]) + bent.rest.log_prob(u[DRIVERS:])
        assert abs(float(log_det) - np.linalg.slogdet(ROOT)[1]) > 0.01
        assert float(log_det) == pytest.approx(np.linalg.slogdet(slopes)[1], rel=1e-10)
        assert float(bent.log_prob(z)) == pytest.approx(float(log_noise - log_det), rel=1e-9)


def test_the_way_back_ends_where_it_began(bent):
    with double_precision():
        u = jnp.asarray([4.0, -9.0, 6.0, -6.0, 0.2])
        w, grown = bent.shape.bent(u)
        back, grown_back = bent.shape.straightened(w)
    np.testing.assert_allclose(back, u, rtol=1e-9)
    assert float(grown) == pytest.approx(float(grown_back), rel=1e-9)


def test_others_are_independent_given_the_drivers_and_these_do_not_follow_others(bent):
    with double_precision():
        slopes = np.asarray(jax.jacfwd(lambda u: bent.shape.bent(u)[0])(jnp.ones(DIM)))
    others = slopes[DRIVERS:, DRIVERS:]
    np.testing.assert_array_equal(others, np.diag(np.diagonal(others)))
    np.testing.assert_array_equal(slopes[:DRIVERS, DRIVERS:], 0.0)
    assert slopes[0, 1] == 0.0
    assert np.abs(slopes[DRIVERS:, :DRIVERS]).min() > 0.0


def test_draws_come_with_the_density_that_they_have(bent):
    with double_precision():
        noise = bent.draw_noise(np.random.default_rng(2), 20)
        assert noise.shape == (20, bent.noise_dim)
        z, log_q = jax.vmap(bent.transform_and_log_prob)(noise)
        np.testing.assert_allclose(jax.vmap(bent.log_prob)(z), log_q, rtol=1e-8)
        np.testing.assert_allclose(jax.vmap(bent.transform)(noise), z, rtol=1e-12)
        z, log_q = bent.sample_and_log_prob(jax.random.key(1), 20)
        np.testing.assert_allclose(jax.vmap(bent.log_prob)(z), log_q, rtol=1e-8)


def test_moments_are_those_of_draws(bent):
    with double_precision():
        noise = bent.draw_noise(np.random.default_rng(4), 2**16)
        z = np.asarray(jax.vmap(bent.transform)(noise))
        np.testing.assert_allclose(bent.mean, z.mean(axis=0), atol=0.05 * z.std(axis=0).max())
        np.testing.assert_allclose(bent.sd, z.std(axis=0), rtol=0.1)
        np.testing.assert_allclose(np.diagonal(bent.covariance()), z.var(axis=0), rtol=0.2)
