"""A normal given a few coordinates: its map and back, its density, its draws and its moments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vicheck.model import double_precision
from vicheck.stats.t_mixtures import single_t
from vicheck.vi.families.conditional import Conditional, as_numbers, mean_and_root
from vicheck.vi.interpolation import Interpolation

DIM, DRIVERS = 5, np.array([3, 1])
LOC = np.array([1.0, -2.0])
SCALE = np.array([[1.5, 0.0], [0.4, 0.7]])
RNG = np.random.default_rng(8)
POINTS = RNG.normal(size=(12, 2))
MEANS = 0.3 * RNG.normal(size=(12, 3))
ROOTS = np.tril(0.05 * RNG.normal(size=(12, 3, 3)), -1)
ROOTS += RNG.uniform(1.0, 1.1, (12, 3, 1)) * np.eye(3)


def t(dim, df):
    sides = RNG.uniform(0.5, 2.0, size=(2, dim))
    return single_t(np.zeros(dim), 1.2 * np.eye(dim), df, *sides)


@pytest.fixture(scope="module")
def member():
    others = Interpolation.through(POINTS, as_numbers(MEANS, ROOTS))
    with double_precision():
        q = Conditional.of(DRIVERS, LOC, SCALE, others, t(2, 5.0), t(3, 30.0))
        return jax.tree.map(jnp.asarray, q)


def test_means_and_roots_are_read_as_they_were_written():
    for xp in (np, jnp):
        with double_precision():
            means, roots, log_dets = mean_and_root(as_numbers(MEANS, ROOTS), 3, xp)
        np.testing.assert_array_equal(means, MEANS)
        np.testing.assert_allclose(roots, ROOTS, rtol=1e-13)
        np.testing.assert_allclose(log_dets, np.linalg.slogdet(ROOTS)[1], rtol=1e-12)


def test_given_the_drivers_the_others_have_the_mean_and_precision_that_belong_to_them(member):
    place = 4
    with double_precision():
        u = jnp.asarray(np.concatenate([POINTS[place], np.zeros(3)]))
        middle, _ = member.mapped(u)
        slopes = np.asarray(jax.jacfwd(lambda rest: member.mapped(u.at[2:].set(rest))[0])(u[2:]))
    np.testing.assert_allclose(np.asarray(middle)[DRIVERS], LOC + SCALE @ POINTS[place], rtol=1e-12)
    others = np.setdiff1d(np.arange(DIM), DRIVERS)
    np.testing.assert_allclose(np.asarray(middle)[others], MEANS[place], rtol=1e-8)
    np.testing.assert_array_equal(slopes[DRIVERS], 0.0)
    covariance = slopes[others] @ slopes[others].T
    expected = np.linalg.inv(ROOTS[place] @ ROOTS[place].T)
    np.testing.assert_allclose(covariance, expected, rtol=1e-6)


def test_its_density_is_that_of_its_noise_by_the_change_of_volume(member):
    with double_precision():
        u = jnp.asarray([0.3, -0.7, 1.9, -2.5, 0.1])
        z, log_det = member.mapped(u)
        slopes = np.asarray(jax.jacfwd(lambda u: member.mapped(u)[0])(u))
        log_noise = member.first.log_prob(u[:2]) + member.rest.log_prob(u[2:])
        assert float(log_det) == pytest.approx(np.linalg.slogdet(slopes)[1], rel=1e-10)
        assert float(member.log_prob(z)) == pytest.approx(float(log_noise - log_det), rel=1e-9)


def test_draws_come_with_the_density_that_they_have(member):
    with double_precision():
        noise = member.draw_noise(np.random.default_rng(2), 20)
        assert noise.shape == (20, member.noise_dim)
        z, log_q = jax.vmap(member.transform_and_log_prob)(noise)
        np.testing.assert_allclose(jax.vmap(member.log_prob)(z), log_q, rtol=1e-7)
        np.testing.assert_allclose(jax.vmap(member.transform)(noise), z, rtol=1e-12)
        z, log_q = member.sample_and_log_prob(jax.random.key(1), 20)
        np.testing.assert_allclose(jax.vmap(member.log_prob)(z), log_q, rtol=1e-7)


def test_other_noise_leaves_the_map_as_it_is(member):
    with double_precision():
        other = member.over(t(2, 10.0), t(3, 100.0))
        u = jnp.ones(DIM)
        np.testing.assert_array_equal(other.mapped(u)[0], member.mapped(u)[0])
    assert other.first.dfs[0] == 10.0


def test_moments_are_those_of_normal_noise(member):
    with double_precision():
        noise = np.random.default_rng(4).standard_normal((2**16, DIM))
        z = np.asarray(jax.vmap(member.mapped)(noise)[0])
        away = (np.asarray(member.mean) - z.mean(axis=0)) / z.std(axis=0)
        np.testing.assert_allclose(away, 0.0, atol=0.05)
        np.testing.assert_allclose(member.sd, z.std(axis=0), rtol=0.1)
        np.testing.assert_allclose(np.diagonal(member.covariance()), member.sd**2, rtol=1e-3)
