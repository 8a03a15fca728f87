"""The objective: minus the ELBO on fixed draws, its gradient, and what exact moments would give."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.model import double_precision
from vicheck.vi.density import Density
from vicheck.vi.families.abilities import entropy_of
from vicheck.vi.families.full_rank import FullRank
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.solvers.deterministic.objective import Objective

FITS, DIM, PAIRS = 3, 2, 4
RNG = np.random.default_rng(5)
LOC, LOG_SCALE = RNG.normal(size=(FITS, DIM)), RNG.normal(size=(FITS, DIM))
SCALE_TRIL = np.tril(RNG.normal(size=(FITS, DIM, DIM)), -1) + np.eye(DIM)
HALF = RNG.normal(size=(FITS, PAIRS, DIM))
UNITS = np.exp(RNG.normal(size=(FITS, DIM)))
SHIFTS = np.array([0.0, 1.0, -2.0])
MEMBERS = {"mean_field": MeanField(LOC, LOG_SCALE), "full_rank": FullRank(LOC, SCALE_TRIL)}


@pytest.fixture(autouse=True)
def _double():
    with double_precision():
        yield


def log_density(z, data):
    return -jnp.log(jnp.cosh(z - data["shift"])).sum() - 0.3 * z[0] * z[1] - 0.2 * z @ z


def quadratic(z, data):
    return -0.5 * (z - data["shift"]) @ jnp.array([[2.0, 0.8], [0.8, 1.5]]) @ (z - data["shift"])


def density_of(function):
    program = vicheck.from_log_density(function, np.zeros(DIM), data={"shift": 0.0}).program
    return Density(program, {}, {"shift": SHIFTS}, FITS)


def by_jax(name, steps, function=log_density):
    """Return minus the ELBO and its gradient."""

    def of_one(step, q, units, half, shift):
        member = q.displaced(step, units)
        noise = jnp.concatenate([half, -half])
        draws = jax.vmap(member.transform)(noise)
        log_p = jax.vmap(lambda z: function(z, {"shift": shift}))(draws)
        return -log_p.mean() - entropy_of(member, noise)

    both = jax.jit(jax.vmap(jax.value_and_grad(of_one)))
    return map(np.asarray, both(steps, MEMBERS[name], UNITS, HALF, SHIFTS))


def steps_of(name):
    one = jax.tree.map(lambda leaf: leaf[0], MEMBERS[name])
    return 0.3 * np.random.default_rng(1).normal(size=(FITS, one.step_dim))


@pytest.mark.parametrize("name", MEMBERS)
def test_values_and_gradients_are_those_of_jax(name):
    density, steps = density_of(log_density), steps_of(name)
    objective = Objective(density, np.arange(FITS), MEMBERS[name].chart(UNITS), HALF, None)
    for found, exact in zip(objective(steps, np.arange(FITS)), by_jax(name, steps), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-10, atol=1e-11)
    np.testing.assert_array_equal(density.num_evaluations, 2 * PAIRS)


@pytest.mark.parametrize("name", MEMBERS)
def test_some_of_the_fits(name):
    density, steps, which = density_of(log_density), steps_of(name), np.array([2, 0])
    objective = Objective(density, np.arange(FITS), MEMBERS[name].chart(UNITS), HALF, None)
    for found, exact in zip(objective(steps[which], which), by_jax(name, steps), strict=True):
        np.testing.assert_allclose(found, exact[which], rtol=1e-10, atol=1e-11)
    assert density.num_evaluations.tolist() == [2 * PAIRS, 0, 2 * PAIRS]


def test_fits_that_are_some_lanes_of_the_density():
    """The fits of a round need not be all there are: the second lane has ended."""
    lanes = np.array([0, 2])
    density, steps = density_of(log_density), steps_of("mean_field")
    chart = MEMBERS["mean_field"].chart(UNITS).take(lanes)
    objective = Objective(density, lanes, chart, HALF[lanes], None)
    exact = list(by_jax("mean_field", steps))
    for which in (np.array([0, 1]), np.array([1])):
        for found, part in zip(objective(steps[lanes[which]], which), exact, strict=True):
            np.testing.assert_allclose(found, part[lanes[which]], rtol=1e-10, atol=1e-11)


def test_with_the_hessian_a_quadratic_has_its_exact_elbo_on_any_draws():
    hessian = np.tile([[2.0, 0.8], [0.8, 1.5]], (FITS, 1, 1))
    steps = np.zeros((FITS, 2 * DIM))
    chart = MEMBERS["mean_field"].chart(UNITS)
    objective = Objective(density_of(quadratic), np.arange(FITS), chart, HALF, hessian)
    value, gradient = objective(steps, np.arange(FITS))
    shift, scale = LOC - SHIFTS[:, None], np.exp(LOG_SCALE)
    expected = 0.5 * np.einsum("li,lij,lj->l", shift, hessian, shift)
    expected += 0.5 * (np.diagonal(hessian[0]) * scale**2).sum(axis=1)
    expected -= LOG_SCALE.sum(axis=1) + 0.5 * DIM * (1.0 + np.log(2.0 * np.pi))
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    growth = (np.diagonal(hessian[0]) * scale**2 - 1.0) / np.sqrt(2.0)
    np.testing.assert_allclose(gradient[:, DIM:], growth, rtol=1e-10, atol=1e-10)
    # Without it the draws, whose moments are not exact, give something else.
    plain, _ = Objective(density_of(quadratic), np.arange(FITS), chart, HALF, None)(
        steps, np.arange(FITS)
    )
    assert np.abs(plain - expected).min() > 0.01


def test_of_some_fits_each_has_its_own_hessian_and_moments():
    hessian = np.array([np.eye(2), [[2.0, 0.8], [0.8, 1.5]], 3.0 * np.eye(2)])
    steps, which = steps_of("mean_field"), np.array([1])
    chart = MEMBERS["mean_field"].chart(UNITS)
    objective = Objective(density_of(quadratic), np.arange(FITS), chart, HALF, hessian)
    together = objective(steps, np.arange(FITS))
    alone = objective(steps[which], which)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other[which], rtol=1e-12)


def test_a_density_that_is_not_finite_has_an_objective_that_is_not():
    objective = Objective(
        density_of(lambda z, data: jnp.log(z[0] - 1e3) + data["shift"]),
        np.arange(FITS),
        MEMBERS["mean_field"].chart(UNITS),
        HALF,
        None,
    )
    value, _ = objective(np.zeros((FITS, 2 * DIM)), np.arange(FITS))
    assert not np.isfinite(value).any()
