"""Flows of flowjax as a family: their density, their draws, and what training makes of them."""

import pickle
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.adapters.flowjax import Flow, _Plan, trained_flow
from vicheck.model import double_precision
from vicheck.rescuing.proposals import t_around
from vicheck.vi.families.students import Students

DIM = 3
LOC, ROOT = np.array([1.0, -2.0, 0.5]), np.array([[2.0, 0, 0], [0.5, 0.3, 0], [-1.0, 0.1, 1.5]])


def base(df=12.0):
    unit = t_around(np.zeros(DIM), np.eye(DIM), df)
    return Students.made_of(**vars(unit))


@pytest.fixture(scope="module")
def at_first():
    plan = _Plan(DIM, 5, version("flowjax"))
    with double_precision():
        return Flow(jnp.asarray(LOC), jnp.asarray(ROOT), plan.first_weights(), base(), plan)


@pytest.fixture(scope="module")
def bent(at_first):
    """With weights that are not zero, so that it bends space."""
    rng = np.random.default_rng(3)
    with double_precision():
        weights = [each + 0.3 * rng.standard_normal(each.shape) for each in at_first.weights]
        return Flow(at_first.loc, at_first.root, weights, at_first.base, at_first.plan)


def test_it_begins_as_the_normal_it_was_given(at_first):
    u = np.random.default_rng(1).standard_normal((5, DIM))
    with double_precision():
        z, log_det = map(np.asarray, jax.vmap(at_first.mapped)(u))
    np.testing.assert_allclose(log_det, np.log(2.0 * 0.3 * 1.5), rtol=1e-12)
    # Layers change the order of coordinates, which leaves lengths as they are.
    back = np.linalg.solve(ROOT, (z - LOC).T).T
    np.testing.assert_allclose(np.sort(back), np.sort(u), atol=1e-12)


def test_its_density_is_that_of_its_noise_by_the_change_of_volume(bent):
    u = np.array([0.3, -0.7, 1.9])
    with double_precision():
        z, log_det = bent.mapped(jnp.asarray(u))
        slopes = jax.jacfwd(lambda u: bent.mapped(u)[0])(jnp.asarray(u))
        expected = np.linalg.slogdet(np.asarray(slopes))[1]
        log_base = bent.base.log_prob(jnp.asarray(u))
        assert z.dtype == np.float64
        assert abs(float(log_det) - np.log(2.0 * 0.3 * 1.5)) > 0.01
        assert float(log_det) == pytest.approx(expected, rel=1e-10)
        assert float(bent.log_prob(z)) == pytest.approx(float(log_base) - expected, rel=1e-10)


def test_draws_come_with_the_density_that_they_have(bent):
    with double_precision():
        noise = bent.draw_noise(np.random.default_rng(2), 20)
        z, log_q = jax.vmap(bent.transform_and_log_prob)(noise)
        np.testing.assert_allclose(jax.vmap(bent.log_prob)(z), log_q, rtol=1e-9)
        np.testing.assert_allclose(jax.vmap(bent.transform)(noise), z, rtol=1e-12)
        z, log_q = bent.sample_and_log_prob(jax.random.key(1), 20)
        np.testing.assert_allclose(jax.vmap(bent.log_prob)(z), log_q, rtol=1e-9)


def test_moments_are_those_of_draws(bent):
    with double_precision():
        noise = bent.draw_noise(np.random.default_rng(4), 2**16)
        z = np.asarray(jax.vmap(bent.transform)(noise))
        np.testing.assert_allclose(bent.mean, z.mean(axis=0), atol=0.05 * z.std(axis=0).max())
        np.testing.assert_allclose(bent.sd, z.std(axis=0), rtol=0.05)
        np.testing.assert_allclose(np.diagonal(bent.covariance()), z.var(axis=0), rtol=0.1)


def test_it_goes_to_another_process_and_back(bent):
    again = pickle.loads(pickle.dumps(jax.tree.map(np.asarray, bent)))
    with double_precision():
        z = np.zeros(DIM)
        assert float(again.log_prob(z)) == float(bent.log_prob(z))


@pytest.mark.slow
def test_training_bends_it_to_a_funnel():
    def log_density(x):
        return -0.5 * (x[0] ** 2 + (x[1:] ** 2).sum() * jnp.exp(-1.2 * x[0])) - 0.6 * x[0] * 2

    model = vicheck.from_log_density(log_density, np.zeros(DIM))
    fit = vicheck.fit(model, family="full_rank")
    rescued = vicheck.rescue(fit, remedies=["flow"], num_draws=20_000)
    before, after = rescued.trail["khat_after"].iloc[[0, 1]]
    assert before > 0.6
    assert after < before - 0.02
    assert rescued.remedies == ("flow",)
    # x[0] is normal with mean 0 and sd 1; an sd of the others may be refused: their tails are heavy
    known = rescued.moments.loc["x[0]"]
    assert known["source"] == "psis"
    assert known["mean"] == pytest.approx(0.0, abs=0.05)
    assert known["sd"] == pytest.approx(1.0, rel=0.05)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits():
    model = vicheck.from_log_density(lambda x: -0.5 * x @ x, np.zeros(2))
    unit = Students.made_of(**vars(t_around(np.zeros(2), np.eye(2))))
    one, other = (trained_flow(model, np.zeros(2), np.eye(2), unit, 3) for _ in range(2))
    for mine, others in zip(one.weights, other.weights, strict=True):
        np.testing.assert_array_equal(mine, others)
