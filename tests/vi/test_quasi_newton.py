from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vicheck.model import double_precision
from vicheck.vi import quasi_newton
from vicheck.vi.quasi_newton import minimise

# Without optimisation: that takes longer than the computation.
compiled = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


@pytest.fixture(autouse=True)
def _double():
    with double_precision():
        yield


@pytest.fixture(params=["dense", "limited"])
def memory(request, monkeypatch):
    """Keep the whole inverse Hessian, or the last pairs only."""
    if request.param == "limited":
        monkeypatch.setattr(quasi_newton, "_MAX_DENSE", 0)
    return request.param


def solve(function, x, *, tolerance=1e-8, max_evaluations=1000, longest=1e3, grad=None):
    x = jnp.asarray(x, jnp.float64)

    @compiled
    def run(x, tolerance, max_evaluations):
        value_and_grad = jax.value_and_grad(function)
        if grad is not None:
            value_and_grad = lambda x: (function(x), grad(x))  # noqa: E731
        return minimise(
            value_and_grad,
            x,
            tolerance=tolerance,
            max_evaluations=max_evaluations,
            longest=jnp.broadcast_to(jnp.asarray(longest, jnp.float64), x.shape),
        )

    return run(x, tolerance, max_evaluations)


def rosenbrock(x):
    return 100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2


def assert_consistent(end, function):
    """The value and gradient belong to the point."""
    value, gradient = jax.value_and_grad(function)(end.x)
    np.testing.assert_allclose(end.value, value, rtol=1e-6, atol=1e-300)
    np.testing.assert_allclose(end.gradient, gradient, rtol=1e-9, atol=1e-12)


def test_an_ill_conditioned_quadratic(memory):
    # SciPy's L-BFGS-B, with as many pairs, takes 484 evaluations for a condition of 1e4.
    exponent, most = {"dense": (6, 300), "limited": (4, 600)}[memory]
    scales = jnp.logspace(0, exponent, 20)
    centre = jnp.linspace(-3.0, 3.0, 20)

    def function(x):
        return 0.5 * jnp.sum(scales * (x - centre) ** 2)

    end = solve(function, np.zeros(20), tolerance=1e-6)
    assert not end.stalled
    assert np.abs(end.gradient).max() < 1e-6
    np.testing.assert_allclose(end.x, centre, atol=1e-6)
    assert end.num_evaluations < most
    assert_consistent(end, function)


@pytest.mark.usefixtures("memory")
def test_rosenbrock():
    end = solve(rosenbrock, [-1.2, 1.0])
    np.testing.assert_allclose(end.x, [1.0, 1.0], atol=1e-7)
    assert not end.stalled
    assert end.num_evaluations < 100
    assert_consistent(end, rosenbrock)


@pytest.mark.usefixtures("memory")
def test_rosenbrock_in_many_dimensions():
    def function(x):
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    end = solve(function, np.zeros(30))
    np.testing.assert_allclose(end.x, 1.0, atol=1e-6)
    assert not end.stalled


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[0] - jnp.log(x[0]),  # NaN for negative x
        lambda x: jnp.where(x[0] > 0.0, x[0] - jnp.log(jnp.abs(x[0])), jnp.inf),
        lambda x: jnp.where(x[0] > 0.0, x[0] - jnp.log(jnp.abs(x[0])), -jnp.inf),
    ],
    ids=["NaN", "inf", "-inf"],
)
def test_steps_back_from_where_the_function_is_not_finite(function):
    # The first step, against a slope of 75, leads far beyond zero.
    far = solve(lambda x: function(100.0 * x), [0.04], longest=30.0)
    np.testing.assert_allclose(far.x, [0.01], atol=1e-9)
    assert not far.stalled


def test_steps_back_from_a_gradient_that_is_not_finite():
    def function(x):
        return jnp.sum(jnp.where(x > 0.0, (x - 1.0) ** 2, -100.0))

    def grad(x):
        return jnp.where(x > 0.0, 2.0 * (x - 1.0), jnp.nan)

    end = solve(function, [8.0], grad=grad)
    np.testing.assert_allclose(end.x, [1.0], atol=1e-8)


@pytest.mark.usefixtures("memory")
def test_a_kink_is_reported_as_a_stall():
    end = solve(lambda x: jnp.sum(jnp.abs(x - 1.0 / 3.0)), [4.0, -7.0])
    assert end.stalled
    assert end.num_evaluations < 1000
    assert np.isfinite(end.value)


def test_a_wrong_gradient_is_reported_as_a_stall():
    end = solve(lambda x: jnp.sum(x**2), [1.0, 2.0], grad=lambda x: -2.0 * x)
    assert end.stalled
    np.testing.assert_array_equal(end.x, [1.0, 2.0])
    assert end.value == 5.0


def test_a_start_that_is_not_finite_is_a_stall():
    end = solve(lambda x: jnp.log(x[0]), [-1.0])
    assert end.stalled
    assert end.num_evaluations == 1
    assert not np.isfinite(end.value)


def test_a_start_at_the_optimum_takes_one_evaluation():
    end = solve(rosenbrock, [1.0, 1.0])
    assert end.num_evaluations == 1
    assert not end.stalled
    np.testing.assert_array_equal(end.x, [1.0, 1.0])


@pytest.mark.parametrize("most", [1, 2, 3, 10])
def test_no_more_evaluations_than_allowed(most):
    end = solve(rosenbrock, [-1.2, 1.0], max_evaluations=most)
    assert end.num_evaluations == most
    assert not end.stalled
    assert end.value <= rosenbrock(jnp.array([-1.2, 1.0]))


def test_the_count_is_that_of_real_evaluations():
    calls = []

    def counted(x):
        jax.debug.callback(lambda: calls.append(1))
        return rosenbrock(x), jax.grad(rosenbrock)(x)

    run = compiled(
        lambda x: minimise(
            counted, x, tolerance=1e-8, max_evaluations=1000, longest=jnp.full(2, 1e3)
        )
    )
    end = jax.block_until_ready(run(jnp.array([-1.2, 1.0])))
    jax.effects_barrier()
    assert len(calls) == int(end.num_evaluations)


def test_no_step_is_longer_than_allowed():
    points = []

    def function(x):
        jax.debug.callback(lambda x: points.append(np.asarray(x)), x)
        return 1e4 * jnp.sum((x - jnp.array([20.0, 0.0])) ** 2)

    longest = np.array([2.0, 0.1])
    end = solve(function, [0.0, 1.0], longest=longest)
    jax.effects_barrier()
    np.testing.assert_allclose(end.x, [20.0, 0.0], atol=1e-6)
    steps = np.abs(np.diff(points, axis=0))
    assert (steps <= longest * (1.0 + 1e-12)).all()
    # Some step was as long as allowed: the bound is the reason.
    assert (steps >= longest * (1.0 - 1e-12)).any()


def test_under_vmap_as_one_by_one():
    starts = jnp.asarray(np.random.default_rng(0).uniform(-2.0, 2.0, (6, 2)))

    def run(x):
        return minimise(
            jax.value_and_grad(rosenbrock),
            x,
            tolerance=1e-8,
            max_evaluations=300,
            longest=jnp.full(2, 10.0),
        )

    together = compiled(jax.vmap(run))(starts)
    one = compiled(run)
    alone = [one(start) for start in starts]
    np.testing.assert_allclose(together.x, [end.x for end in alone], atol=1e-6)
    np.testing.assert_array_equal(together.stalled, [end.stalled for end in alone])
    np.testing.assert_allclose(
        together.num_evaluations, [end.num_evaluations for end in alone], atol=8
    )
    assert len(np.unique(together.num_evaluations)) > 1


@pytest.mark.usefixtures("memory")
def test_a_nonconvex_start_descends():
    def function(x):
        return jnp.sum(x**4 / 4.0 - x**2 / 2.0)

    end = solve(function, [0.1, -0.2])
    np.testing.assert_allclose(np.abs(end.x), 1.0, atol=1e-7)
    assert end.value == pytest.approx(-0.5)


def test_large_offsets_do_not_stall():
    """Rounding of a large value must not look like ascent."""
    end = solve(lambda x: 1e6 + jnp.sum((x - 1.0) ** 2), [5.0, -3.0], tolerance=1e-4)
    assert not end.stalled
    np.testing.assert_allclose(end.x, 1.0, atol=1e-4)


@pytest.mark.usefixtures("memory")
def test_convex_quadratics():
    rng = np.random.default_rng(3)
    scales = jnp.asarray(np.exp(rng.uniform(-4.0, 4.0, (50, 3))))
    starts = jnp.asarray(rng.uniform(-10.0, 10.0, (50, 3)))

    def run(scales, start):
        return minimise(
            jax.value_and_grad(lambda x: 0.5 * jnp.sum(scales * x**2)),
            start,
            tolerance=1e-6,
            max_evaluations=500,
            longest=jnp.full(3, 100.0),
        )

    ends = compiled(jax.vmap(run))(scales, starts)
    assert not ends.stalled.any()
    assert np.abs(ends.gradient).max() < 1e-6
