"""Minimising many functions at a time: each as if it were alone."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vicheck.model import double_precision
from vicheck.vi import quasi_newton
from vicheck.vi.quasi_newton import Minimum, minimise, no_memory

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


def rows_of(function, grad=None):
    """Return a function of rows; the arrays it returns are JAX's, which are read-only."""
    each = jax.value_and_grad(function) if grad is None else lambda x: (function(x), grad(x))
    code = compiled(lambda rows: jax.lax.map(each, rows))
    return lambda rows: tuple(np.asarray(part) for part in code(rows))


def solve_all(function, x, *, tolerance=1e-8, max_evaluations=1000, longest=1e3, memory=None):
    """Minimise a function of rows, or of rows and the numbers of their problems."""
    x = np.asarray(x, np.float64)
    return minimise(
        function,
        x,
        tolerance=tolerance,
        max_evaluations=max_evaluations,
        longest=np.broadcast_to(longest, x.shape[1:]).astype(float),
        memory=memory,
    )


def solve(function, x, *, grad=None, **options):
    """Minimise a function of one point."""
    rows = rows_of(function, grad)
    end = solve_all(lambda at, which: rows(at), np.asarray(x, np.float64)[None], **options)
    return Minimum(*(part[0] for part in end[:-1]), end.memory)


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
    rows, calls = rows_of(rosenbrock), []

    def counted(x, which):
        calls.append(which)
        return rows(x)

    end = solve_all(counted, [[-1.2, 1.0]])
    assert len(calls) == int(end.num_evaluations[0])


def test_a_step_is_at_most_twice_as_long_as_the_last_and_the_first_as_long_as_allowed():
    rows, points = rows_of(lambda x: 1e4 * jnp.sum((x - jnp.array([20.0, 0.0])) ** 2)), []

    def function(x, which):
        points.append(x[0])
        return rows(x)

    longest = np.array([2.0, 0.1])
    end = solve_all(function, [[0.0, 1.0]], longest=longest)
    np.testing.assert_allclose(end.x, [[20.0, 0.0]], atol=1e-6)
    lengths = (np.abs(np.diff(points, axis=0)) / longest).max(axis=1)
    # The bound is the reason for the first.
    np.testing.assert_allclose(lengths[0], 1.0)
    assert (lengths[1:] <= 2.0 * np.maximum(lengths[:-1], 1.0) * (1.0 + 1e-12)).all()


@pytest.mark.usefixtures("memory")
def test_what_is_a_million_steps_away_is_reached_in_a_few_dozen():
    rows = rows_of(lambda x: jnp.sum((x - jnp.array([1e6, -1e6])) ** 2))
    end = solve_all(lambda x, _: rows(x), [[0.0, 0.0]], longest=np.ones(2))
    np.testing.assert_allclose(end.x, [[1e6, -1e6]], rtol=1e-6)
    assert int(end.num_evaluations[0]) < 60


STARTS = np.random.default_rng(0).uniform(-2.0, 2.0, (6, 2))


@pytest.mark.usefixtures("memory")
def test_several_at_once_are_as_each_alone():
    rows = rows_of(rosenbrock)
    together = solve_all(lambda x, which: rows(x), STARTS, max_evaluations=300)
    for i, start in enumerate(STARTS):
        alone = solve_all(lambda x, which: rows(x), start[None], max_evaluations=300)
        np.testing.assert_allclose(together.x[i], alone.x[0], atol=1e-7)
        assert together.stalled[i] == alone.stalled[0]
        # Where sums of several rows are added up in another order, the path differs a little.
        assert together.num_evaluations[i] == pytest.approx(alone.num_evaluations[0], abs=8)
    assert len(np.unique(together.num_evaluations)) > 1
    assert not together.stalled.any()


def test_problems_that_have_ended_are_not_evaluated_again():
    rows, asked = rows_of(rosenbrock), []

    def function(x, which):
        assert len(x) == len(which)
        asked.append(which.copy())
        return rows(x)

    starts = np.concatenate([STARTS, [[1.0, 1.0]]])
    end = solve_all(function, starts)
    counts = np.bincount(np.concatenate(asked), minlength=len(starts))
    np.testing.assert_array_equal(counts, end.num_evaluations)
    assert counts[-1] == 1
    sizes = [len(which) for which in asked]
    assert sizes == sorted(sizes, reverse=True)
    for which in asked:
        np.testing.assert_array_equal(which, np.sort(which))


def test_each_problem_has_its_number_and_its_tolerance():
    centres = np.array([[1.0, 2.0], [-3.0, 0.5], [10.0, 10.0]])

    def function(x, which):
        shift = x - centres[which]
        return np.cosh(shift).sum(axis=1), np.sinh(shift)

    tolerance = np.array([1e-10, 1e-1, 1e-4])
    end = solve_all(function, np.zeros((3, 2)), tolerance=tolerance, longest=1.0)
    np.testing.assert_allclose(end.x[0], centres[0], atol=1e-9)
    largest = np.abs(end.gradient).max(axis=1)
    assert (largest < tolerance).all()
    assert largest[1] > 1e-10  # it could stop earlier


def test_one_start_that_is_not_finite_does_not_harm_the_others():
    rows = rows_of(lambda x: x[0] - jnp.log(x[0]))
    end = solve_all(lambda x, which: rows(x), [[0.5], [-1.0], [4.0]])
    np.testing.assert_array_equal(end.stalled, [False, True, False])
    np.testing.assert_allclose(end.x[[0, 2]], 1.0, atol=1e-6)
    assert end.x[1] == -1.0
    assert end.num_evaluations[1] == 1
    assert not np.isfinite(end.value[1])


def test_what_is_given_and_returned_is_not_written_to():
    start = np.array([[-1.2, 1.0], [1.0, 1.0]])
    start.flags.writeable = False
    seen = []

    def function(x, which):
        x.flags.writeable = False
        value = 100.0 * (x[:, 1] - x[:, 0] ** 2) ** 2 + (1.0 - x[:, 0]) ** 2
        slope = np.stack(
            [
                -400.0 * x[:, 0] * (x[:, 1] - x[:, 0] ** 2) - 2.0 * (1.0 - x[:, 0]),
                200.0 * (x[:, 1] - x[:, 0] ** 2),
            ],
            axis=1,
        )
        for array in (value, slope):
            array.flags.writeable = False
        seen.append((slope, slope.copy()))
        return value, slope

    end = solve_all(function, np.repeat(start, 2, axis=0))
    np.testing.assert_allclose(end.x, 1.0, atol=1e-6)
    for slope, copy in seen:
        np.testing.assert_array_equal(slope, copy)


def test_above_256_entries_some_pairs_are_kept():
    size = 300
    scales = np.logspace(0.0, 2.0, size)

    def function(x, which):
        return 0.5 * (scales * (x - 1.0) ** 2).sum(axis=1), scales * (x - 1.0)

    end = solve_all(function, np.zeros((2, size)), tolerance=1e-6)
    np.testing.assert_allclose(end.x, 1.0, atol=1e-5)
    assert not end.stalled.any()
    held = sum(array.size for array in vars(end.memory).values())
    assert held < 2 * size * 50  # no matrices
    assert type(no_memory(1, 256)) is not type(no_memory(1, 257))


def quadratics(x, which, shift=0.0):
    scales = np.array([[1.0, 30.0, 1e3], [5.0, 1e4, 0.1]])[which]
    centred = x - shift
    return 0.5 * (scales * centred**2).sum(axis=1), scales * centred


@pytest.mark.usefixtures("memory")
def test_what_was_learnt_saves_work_on_nearly_the_same_functions():
    first = solve_all(quadratics, np.full((2, 3), 3.0), tolerance=1e-6)
    assert (first.memory.num_pairs > 0).all()
    nearby = partial(quadratics, shift=0.5)
    anew = solve_all(nearby, first.x, tolerance=1e-6)
    again = solve_all(nearby, first.x, tolerance=1e-6, memory=first.memory)
    assert again.memory is first.memory
    assert (again.num_evaluations < anew.num_evaluations).all()
    np.testing.assert_allclose(again.x, 0.5, atol=1e-4)


@pytest.mark.usefixtures("memory")
def test_what_is_forgotten_is_learnt_anew():
    """Of one problem; the other goes on with what it knows."""
    known = solve_all(quadratics, np.full((2, 3), 3.0), tolerance=1e-6).memory
    known.forget(np.array([True, False]))
    assert known.num_pairs[0] == 0 < known.num_pairs[1]
    gradient = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    np.testing.assert_allclose(known.direction(gradient)[0], -gradient[0])
    nearby = partial(quadratics, shift=0.5)
    anew = solve_all(nearby, np.zeros((2, 3)), tolerance=1e-6)
    again = solve_all(nearby, np.zeros((2, 3)), tolerance=1e-6, memory=known)
    assert again.num_evaluations[0] == anew.num_evaluations[0]
    assert again.num_evaluations[1] < anew.num_evaluations[1]


@pytest.mark.usefixtures("memory")
def test_memory_of_some_problems_is_taken_and_put_back():
    known = solve_all(quadratics, np.full((2, 3), 3.0), tolerance=1e-6).memory
    gradient = np.array([[1.0, -2.0, 3.0], [2.0, 0.5, -1.0]])
    before = known.direction(gradient)
    one = known.take(np.array([1]))
    np.testing.assert_array_equal(one.direction(gradient[1:]), before[1:])
    one.forget(np.array([True]))
    np.testing.assert_array_equal(known.direction(gradient), before)  # it was a copy
    known.put(np.array([1]), one)
    after = known.direction(gradient)
    np.testing.assert_array_equal(after[0], before[0])
    np.testing.assert_allclose(after[1], -gradient[1])


def test_the_inverse_hessian_of_a_quadratic_is_learnt():
    """Two steps of a quadratic in two dimensions say all there is to know."""
    hessian = np.array([[3.0, 1.0], [1.0, 2.0]])
    known = no_memory(1, 2)
    for step in np.array([[[1.0, 0.3]], [[-0.2, 1.0]], [[0.5, 0.7]]]):
        known.learn(step, step @ hessian)
    np.testing.assert_allclose(known.direction(step @ hessian), -step, rtol=1e-12)
    assert known.num_pairs == 3


def test_a_step_without_curvature_teaches_nothing():
    known = no_memory(2, 2)
    steps = np.array([[1.0, 0.0], [1.0, 1.0]])
    known.learn(steps, np.array([[-1.0, 0.0], [2.0, 2.0]]))
    assert known.num_pairs.tolist() == [0, 1]
    np.testing.assert_array_equal(known.direction(steps)[0], -steps[0])


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
    scales = np.exp(rng.uniform(-4.0, 4.0, (50, 3)))

    def function(x, which):
        return 0.5 * (scales[which] * x**2).sum(axis=1), scales[which] * x

    ends = solve_all(function, rng.uniform(-10.0, 10.0, (50, 3)), tolerance=1e-6, longest=100.0)
    assert not ends.stalled.any()
    assert np.abs(ends.gradient).max() < 1e-6
