"""The bent normal: its draws and its density belong together, and it is what it says."""

import jax
import numpy as np
import pytest

import vicheck
from vicheck.model import double_precision
from vicheck.vi.curvature import Curvature
from vicheck.vi.families.bent import Bent

DIM = 4


def member(seed=0, size=0.3):
    rng = np.random.default_rng(seed)
    root = np.tril(rng.normal(size=(DIM, DIM)), -1) + np.diag([1.0, 2.0, 0.5, 1.0])
    slopes = size * rng.normal(size=(2, DIM, DIM))
    return Bent(rng.normal(size=DIM), root, *slopes, rng.normal(size=DIM), np.full(DIM, -2.0))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_density_is_that_of_the_draws(seed):
    """By the change of variables with the whole Jacobian, which JAX derives from the draw."""
    q = member(seed)
    noise = np.random.default_rng(seed).normal(size=(20, DIM))
    with double_precision():
        z, log_q = jax.vmap(q.transform_and_log_prob)(noise)
        jacobian = jax.vmap(jax.jacfwd(q.transform))(noise)
        log_det = np.linalg.slogdet(np.asarray(jacobian))[1]
        again = jax.vmap(q.log_prob)(z)
    normal = -0.5 * (noise**2).sum(axis=1) - 0.5 * DIM * np.log(2 * np.pi)
    np.testing.assert_allclose(log_q, normal - log_det, rtol=1e-9)
    np.testing.assert_allclose(again, log_q, rtol=1e-7)


def test_the_slope_of_the_density_is_right():
    """The noise of a draw is found by bisection, which has no derivative of its own."""
    q = member()
    z = np.random.default_rng(5).normal(size=DIM)
    with double_precision():
        slope = np.asarray(jax.grad(q.log_prob)(z))
        steps = 1e-5 * np.eye(DIM)
        both = [[float(q.log_prob(z + sign * step)) for sign in (1, -1)] for step in steps]
    np.testing.assert_allclose(slope, [(up - down) / 2e-5 for up, down in both], rtol=1e-4)


def test_it_begins_as_a_normal_with_slightly_heavy_tails():
    with double_precision():
        q = Bent.start(np.arange(3.0), Curvature(np.ones(3), np.ones(3)))
        np.testing.assert_allclose(q.transform(np.zeros(3)), np.arange(3.0))
        far = np.asarray(q.transform(np.full(3, 3.0))) - np.arange(3.0)
    assert (far > 3.0).all()
    assert (far < 4.0).all()


@pytest.mark.slow
def test_a_posterior_of_the_family_is_recovered():
    q = member(3, size=0.1)
    model = vicheck.from_log_density(q.log_prob, np.zeros(DIM))
    fit = vicheck.fit(model, family="bent")
    checked = vicheck.check(fit, num_draws=20_000, chains=False)
    assert abs(fit.elbo) < 0.05  # the density is normalised
    assert checked.khat < 0.5
