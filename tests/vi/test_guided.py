"""Steps by curvature that functions tell: how it is made, damped and used."""

import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.model import double_precision
from vicheck.vi.density import Density
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.guided import (
    DAMPING,
    RAISED,
    Bowl,
    bowl,
    changed_damping,
    growth_from,
    guided,
    solved,
)
from vicheck.vi.quasi_newton import minimise
from vicheck.vi.solvers.deterministic.noise import make_noise, standardised
from vicheck.vi.solvers.deterministic.objective import Objective


@pytest.fixture(autouse=True)
def _double():
    with double_precision():
        yield


def spread(dim, condition, rng):
    """Return a precision matrix in random directions."""
    turn, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    return turn * np.geomspace(1.0, condition, dim) @ turn.T


def objective_of(log_density, dim, *, num_draws=32, seed=0, loc=0.0, sd=1.0):
    """Return the objective of one mean-field fit around ``loc``, in units of ``sd``."""
    model = vicheck.from_log_density(log_density, np.zeros(dim))
    density = Density(model.program, model.data, {})
    half = standardised(make_noise(num_draws, dim, np.array([seed])), True, 1)
    scales = np.full((1, dim), sd)
    chart = MeanField(np.full((1, dim), loc), np.log(scales)).chart(scales)
    return Objective(density, np.zeros(1, np.intp), chart, half, None)


def descend(objective, dim, *, tolerance=1e-6, max_evaluations=200):
    longest = np.where(np.arange(2 * dim) < dim, 10.0, 1.0)
    return minimise(
        objective.with_curvature,
        np.zeros((1, 2 * dim)),
        tolerance=tolerance,
        max_evaluations=max_evaluations,
        longest=longest,
        memory=guided(1, dim),
    )


@pytest.mark.parametrize("dim", [1, 3, 16])
def test_the_hessian_of_a_gaussian_is_told_exactly(dim):
    rng = np.random.default_rng(dim)
    precision, sd = spread(dim, 100.0, rng), 0.3
    objective = objective_of(lambda z: -0.5 * z @ precision @ z, dim, loc=2.0, sd=sd)
    _, _, told = objective.with_curvature(np.zeros((1, 2 * dim)), np.zeros(1, np.intp))
    np.testing.assert_allclose(told.hessian[0], precision * sd**2, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(told.scale, 1.0)
    # Some steps away the units are those of the scales there.
    steps = np.concatenate([rng.normal(size=dim), rng.normal(size=dim)])[None]
    _, _, told = objective.with_curvature(steps, np.zeros(1, np.intp))
    growth = np.exp(steps[0, dim:] / np.sqrt(2.0))
    expected = precision * sd**2 * growth * growth[:, None]
    np.testing.assert_allclose(told.hessian[0], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(told.scale[0], growth)


def test_elsewhere_it_is_the_hessian_averaged_over_q():
    """Of -exp(z) it is E exp(z) = exp(mu + sd^2 / 2) for a normal z; draws are few."""
    loc, sd = 0.2, 0.5
    objective = objective_of(lambda z: -jnp.exp(z).sum(), 2, num_draws=1024, loc=loc, sd=sd)
    _, _, told = objective.with_curvature(np.zeros((1, 4)), np.zeros(1, np.intp))
    np.testing.assert_allclose(
        np.diagonal(told.hessian[0]) / sd**2, np.exp(loc + sd**2 / 2), rtol=0.02
    )
    assert abs(told.hessian[0, 0, 1]) < 1e-2


def test_value_and_gradient_are_those_without_the_curvature():
    objective = objective_of(lambda z: -jnp.cosh(z).sum(), 3)
    steps, which = np.full((1, 6), 0.3), np.zeros(1, np.intp)
    for one, other in zip(
        objective(steps, which), objective.with_curvature(steps, which)[:2], strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_blocks_of_draws_tell_the_same(monkeypatch):
    from vicheck.vi.solvers.deterministic import objective as module

    steps, which = np.full((1, 6), 0.3), np.zeros(1, np.intp)
    whole = objective_of(lambda z: -jnp.cosh(z).sum(), 3).with_curvature(steps, which)[2]
    monkeypatch.setattr(module, "_TOGETHER", 6 * 5)
    parts = objective_of(lambda z: -jnp.cosh(z).sum(), 3).with_curvature(steps, which)[2]
    np.testing.assert_allclose(parts.hessian, whole.hessian, rtol=1e-12)


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
def test_a_gaussian_is_found_in_few_evaluations(condition):
    dim, rng = 10, np.random.default_rng(0)
    precision, mean = spread(dim, condition, rng), rng.normal(size=dim)
    objective = objective_of(lambda z: -0.5 * (z - mean) @ precision @ (z - mean), dim)
    end = descend(objective, dim)
    found = objective.chart.members(end.x)
    np.testing.assert_allclose(found.log_scale[0], -0.5 * np.log(np.diagonal(precision)), atol=1e-6)
    deviation = found.loc[0] - mean
    assert deviation @ precision @ deviation < 1e-10
    assert end.num_evaluations[0] < 50


def funnel(z):
    return -0.5 * z[0] ** 2 - 0.5 * (z[1:] ** 2).sum() * jnp.exp(-z[0]) - 0.5 * 9 * z[0]


def test_the_optimum_is_that_of_minimising_without_being_told():
    objective = objective_of(funnel, 10, num_draws=64)
    told = descend(objective, 10)
    plain = minimise(
        objective_of(funnel, 10, num_draws=64),
        np.zeros((1, 20)),
        tolerance=1e-7,
        max_evaluations=2000,
        longest=np.ones(20),
    )
    np.testing.assert_allclose(told.x, plain.x, atol=1e-5)
    assert told.num_evaluations[0] < plain.num_evaluations[0]


def test_the_size_of_a_gradient_is_the_distance_in_posterior_sds():
    """For a Gaussian, that of the mean from the optimum, whatever the correlations."""
    dim, rng = 4, np.random.default_rng(1)
    precision = spread(dim, 1e4, rng)
    objective = objective_of(lambda z: -0.5 * z @ precision @ z, dim)
    scales = -np.log(np.diagonal(precision)) / np.sqrt(2.0)
    shift = rng.normal(size=dim)
    steps = np.concatenate([shift, scales])[None]
    _, gradient, told = objective.with_curvature(steps, np.zeros(1, np.intp))
    memory = guided(1, dim)
    memory.look(told, np.ones(1, bool))
    np.testing.assert_allclose(memory.size(gradient), np.sqrt(shift @ precision @ shift))
    # Rough where it is too large anyway, and never above what it is.
    rough = memory.size(gradient, np.full(1, 1e-3))
    assert 1e-3 < rough[0] <= memory.size(gradient)[0]


def test_a_step_finds_the_best_scale_of_a_quadratic_density():
    ratio = np.array([1e-2, 0.5, 1.0, 1.00001, 4.0, 1e4])
    slope = (ratio - 1.0) / np.sqrt(2.0)  # of minus the ELBO by log scale times root 2
    step = -slope / growth_from(ratio, np)
    np.testing.assert_allclose(ratio * np.exp(np.sqrt(2.0) * step), 1.0, rtol=1e-4)
    assert (growth_from(np.array([-5.0, 0.0]), np) > 0.0).all()


def test_curvature_that_is_not_finite_is_taken_for_round():
    told = bowl(np.array([[[np.nan, 0.0], [0.0, 1.0]], [[2.0, 1.0], [1.0, 3.0]]]), np.ones((2, 2)))
    np.testing.assert_array_equal(told.hessian[0], np.eye(2))
    np.testing.assert_array_equal(told.hessian[1], [[2.0, 1.0], [1.0, 3.0]])


@pytest.mark.parametrize("eigenvalues", [(1.0, 2.0, 5.0), (1e-6, 1.0, 1.0)])
def test_positive_matrices_are_inverted_as_they_are(eigenvalues):
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    matrix = turn * np.array(eigenvalues) @ turn.T
    vector = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(
        solved(matrix[None], vector[None])[0], np.linalg.solve(matrix, vector), rtol=1e-6
    )


@pytest.mark.parametrize(
    "matrix",
    [
        [[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, -3.0]],
        [[-1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 2.0]],
        [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]],
    ],
)
def test_the_inverse_is_positive_whatever_the_matrix(matrix):
    inverse = solved(np.array([matrix] * 3), np.eye(3)).T
    np.testing.assert_allclose(inverse, inverse.T, atol=1e-9)
    assert np.linalg.eigvalsh(inverse).min() > 0.0
    # A good neighbour in the batch is inverted as it is.
    good = np.diag([1.0, 2.0, 4.0])
    pair = solved(np.array([good, matrix]), np.ones((2, 3)))
    np.testing.assert_allclose(pair[0], [1.0, 0.5, 0.25], rtol=1e-12)


def test_a_pivot_that_is_raised_is_raised_enough():
    np.testing.assert_allclose(solved(np.array([[[-1e-3]]]), np.ones((1, 1))), 1.0 / RAISED)
    np.testing.assert_allclose(solved(np.array([[[-8.0]]]), np.ones((1, 1))), 1.0 / 8.0)


def test_damping_falls_with_gains_that_were_foretold_and_rises_with_failures():
    def after(ratio, *, failed=False, whole=True, before=0.01):
        return float(changed_damping(before, ratio, failed, whole, np))

    assert after(1.0) == pytest.approx(0.001)
    assert after(1.0, whole=False) == 0.01
    assert after(0.5) == 0.01
    assert after(3.0) == 0.01
    assert after(0.1) == pytest.approx(0.04)
    assert after(np.nan, failed=True, whole=False) == pytest.approx(0.04)
    assert after(-1.0, failed=True, before=DAMPING) == DAMPING
    assert after(-1.0, failed=True, before=0.0) > 0.0


def test_steps_reach_far_but_scales_do_not_grow_by_orders_of_magnitude():
    memory = guided(1, 1)
    memory.look(Bowl(np.ones((1, 1, 1)), np.ones((1, 1)), np.full((1, 1), 0.5)), np.ones(1, bool))
    longest = np.array([10.0, 1.0])
    far = np.array([1000.0])
    # Shifts are measured in the scale now, half a unit.
    np.testing.assert_allclose(memory.excess(np.array([[50.0, 0.0]]), longest, far), 0.01)
    np.testing.assert_allclose(memory.excess(np.array([[0.0, 8.0]]), longest, far), 2.0)
    np.testing.assert_allclose(memory.excess(np.array([[0.0, 8.0]]), longest, np.ones(1)), 8.0)


def test_problems_are_taken_out_and_put_back():
    memory = guided(3, 2)
    rng = np.random.default_rng(0)
    told = Bowl(rng.normal(size=(3, 2, 2)), rng.random((3, 2)), rng.random((3, 2)))
    memory.look(told, np.ones(3, bool))
    some = memory.take(np.array([0, 2]))
    some.look(told.take(np.array([1, 1])), np.array([False, True]))
    memory.put(np.array([0, 2]), some)
    np.testing.assert_array_equal(memory.bowl.hessian[0], told.hessian[0])
    np.testing.assert_array_equal(memory.bowl.hessian[2], told.hessian[1])
