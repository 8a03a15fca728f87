"""Curvature by differences of gradients: right in any units, and near trouble."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import vicheck
from vicheck.model import double_precision
from vicheck.runtime.compiling import is_large
from vicheck.vi.curvature import FLATTEST, climb, climb_to_mode, precisions_by_draws
from vicheck.vi.density import Density

SMALL, LARGE = 100, 1100  # rows; three covariates and an outcome each
MANY_STEPS = 40
ONE = np.zeros(1, np.intp)


@pytest.fixture(autouse=True)
def _double():
    with double_precision():
        yield


def regression(num_rows, log_sigma=0.0):
    """A linear regression with covariates of very different sizes, and its exact mode."""
    rng = np.random.default_rng(num_rows)
    x = rng.standard_normal((num_rows, 3)) * [1.0, 100.0, 0.01]
    beta = np.array([1.0, 0.01, 50.0])
    y = x @ beta + np.exp(log_sigma) * rng.standard_normal(num_rows)

    def log_density(z, data):
        return norm.logpdf(data["y"], data["x"] @ z[:3], jax.numpy.exp(z[3])).sum()

    model = vicheck.from_log_density(log_density, np.zeros(4), data={"x": x, "y": y})
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    mode = np.append(best, 0.5 * np.log(np.mean((y - x @ best) ** 2)))
    return model, mode


def climbed(model, steps):
    density = Density(model.program, model.data, {})
    z, curvature = climb(density, ONE, np.zeros((1, model.dim)), steps, FLATTEST)
    return z[0], jax.tree.map(lambda part: part[0], curvature)


def hessian(model, z):
    return exact_hessian(lambda at: model.program.log_density(at, model.data), z)


def exact_hessian(log_density, z):
    """By JAX, of minus the log density; without optimisation, which takes longer."""
    options = {"xla_backend_optimization_level": 0}
    return -np.asarray(jax.jit(jax.hessian(log_density), compiler_options=options)(z))


def curvature_at(log_density, z, dense=True, floor=FLATTEST):
    """Return the curvature at one point, of a density without data."""
    z = np.asarray(z, np.float64)
    density = Density(vicheck.from_log_density(log_density, np.zeros(z.size)).program, {}, {})
    end, curvature = climb(density, ONE, z[None], 0, floor, dense)
    np.testing.assert_array_equal(end[0], z)
    return jax.tree.map(lambda part: part[0], curvature)


def test_only_one_of_the_problems_is_large():
    assert [is_large(m.program, m.data) for m, _ in map(regression, (SMALL, LARGE))] == [
        False,
        True,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("num_rows", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("log_sigma", [-3.0, 3.0])
def test_the_climb_ends_near_the_mode_with_the_curvature_there(num_rows, log_sigma):
    """From thousands of sds away; a fit that starts within a few goes on by itself."""
    model, mode = regression(num_rows, log_sigma)
    z, curvature = climbed(model, MANY_STEPS)
    sd = np.sqrt(np.diag(np.linalg.inv(hessian(model, mode))))
    np.testing.assert_array_less(np.abs(z - mode) / sd, 3.0)
    covariance = curvature.directions @ curvature.directions.T
    exact = np.linalg.inv(hessian(model, z))
    # Differences over a tenth of an sd: that much of the third derivatives is seen.
    scale = np.sqrt(np.diag(exact))
    np.testing.assert_allclose((covariance - exact) / np.outer(scale, scale), 0.0, atol=0.01)


@pytest.mark.parametrize("num_rows", [SMALL, LARGE], ids=["small", "large"])
def test_no_steps_give_the_curvature_at_the_start(num_rows):
    model, _ = regression(num_rows)
    z, curvature = climbed(model, 0)
    np.testing.assert_array_equal(z, 0.0)
    # Made positive after scaling to a unit diagonal: it is indefinite there.
    raw = hessian(model, np.zeros(4))
    scale = np.sqrt(np.abs(np.diag(raw)))
    values, vectors = np.linalg.eigh(raw / np.outer(scale, scale))
    assert values.min() < 0.0
    positive = vectors * np.abs(values) @ vectors.T
    np.testing.assert_allclose(curvature.precisions, scale**2 * np.diag(positive), rtol=0.02)
    # The Hessian itself is kept as it is.
    np.testing.assert_allclose(
        curvature.hessian / np.outer(scale, scale), (raw / np.outer(scale, scale)), atol=0.02
    )


@pytest.mark.slow
def test_a_large_regression_starts_at_its_mode():
    """So that hardly anything is left to be done: a few rounds on 32 and 64 draws."""
    model, _ = regression(LARGE, log_sigma=-3.0)
    fit = vicheck.fit(model, family="full_rank", num_starts=1)
    assert fit.status.name == "CONVERGED"
    assert fit.solution.num_draws == 64


def correlated(dim, seed=0):
    root = np.random.default_rng(seed).standard_normal((dim, dim)) + 2.0 * np.eye(dim)
    return root @ root.T


@pytest.mark.parametrize("exponent", [-6, -3, 0, 3, 6])
def test_a_quadratic_in_any_units(exponent):
    """Parameters of a like size, and one whose size is another."""
    scales = 10.0**exponent * np.array([1.0, 2.0, 1.0, 1.0])
    scales[3] = 1.0
    exact = correlated(4) / np.outer(scales, scales)
    z = np.array([3.0, -1.0, 0.0, 2.0]) * scales
    found = curvature_at(lambda x: -0.5 * x @ exact @ x, z, floor=1e-30)
    np.testing.assert_allclose(found.hessian * np.outer(scales, scales), correlated(4), rtol=1e-5)
    np.testing.assert_allclose(
        (found.directions @ found.directions.T) / np.outer(scales, scales),
        np.linalg.inv(correlated(4)),
        rtol=1e-4,
    )


@pytest.mark.parametrize("exponent", [-6, -3, 0, 3, 6])
def test_a_density_that_is_not_quadratic_in_any_units(exponent):
    """Differences of a tenth of the scale see little of the fourth derivatives."""
    scale = 10.0**exponent

    def log_density(x):
        return -jnp.cosh(x / scale).sum() - 0.3 * jnp.sin(x[0] * x[1] / scale**2)

    z = scale * np.array([0.5, -1.0])
    found = curvature_at(log_density, z, floor=1e-30)
    exact = exact_hessian(log_density, z)
    np.testing.assert_allclose(found.hessian * scale**2, exact * scale**2, rtol=0.02, atol=0.01)


def test_the_largest_scales_beside_the_smallest():
    scales = 10.0 ** np.arange(-6.0, 7.0, 2.0)
    exact = correlated(7) / np.outer(scales, scales)
    found = curvature_at(lambda x: -0.5 * x @ exact @ x, np.zeros(7), floor=1e-30)
    np.testing.assert_allclose(
        found.hessian * np.outer(scales, scales), correlated(7), rtol=1e-5, atol=1e-7
    )


def test_negative_curvature_counts_by_its_size():
    signs = np.array([1.0, -4.0, 9.0])
    found = curvature_at(lambda x: -0.5 * jnp.sum(signs * x**2), np.zeros(3))
    np.testing.assert_allclose(found.hessian, np.diag(signs), atol=1e-8)
    np.testing.assert_allclose(found.precisions, np.abs(signs), rtol=1e-6)
    covariance = found.directions @ found.directions.T
    np.testing.assert_allclose(covariance, np.diag(1.0 / np.abs(signs)), atol=1e-6)


def test_a_saddle_without_any_curvature_along_the_axes():
    """No length of differences is good: the nearest ones count, not the farthest."""

    def log_density(x):
        return -x[1] * jnp.sinh(x[0]) - 0.5 * x[2] ** 2

    found = curvature_at(log_density, np.zeros(3))
    np.testing.assert_allclose(found.hessian, [[0, 1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-5)


def test_a_flat_axis_is_raised_to_the_floor():
    for dense in (True, False):
        found = curvature_at(lambda x: -0.5 * x[0] ** 2, np.zeros(2), dense, floor=[0.01, 0.25])
        np.testing.assert_allclose(found.precisions, [1.0, 0.25], rtol=1e-6)


def test_a_kink_has_a_finite_curvature():
    found = curvature_at(lambda x: -jnp.abs(x[0]) - 0.5 * x[1] ** 2, [0.0, 0.0])
    assert np.isfinite(found.directions).all()
    # At the kink the slope jumps from -1 to 1: over some distance that is a curvature.
    assert 1.0 < found.precisions[0] < 1e6
    assert found.precisions[1] == pytest.approx(1.0, rel=1e-6)
    # Beside it there is none.
    beside = curvature_at(lambda x: -jnp.abs(x[0]) - 0.5 * x[1] ** 2, [1.0, 0.0])
    assert beside.precisions[0] < 1.0


EDGES = {
    "no gradient": (jnp.sqrt, 0.25 * 1e-4**-1.5),
    "a gradient": (jnp.log, 1e8),  # the derivative of log(x) is computed for negative x too
}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("dense", [True, False])
def test_nearer_neighbours_are_asked_where_one_is_not_finite(dense, edge):
    """Close to the edge of where a density is defined only shorter differences are possible."""
    function, exact = EDGES[edge]
    found = curvature_at(lambda x: function(x[0]) - 0.5 * x[1] ** 2, [1e-4, 0.0], dense)
    # By gradients on one side alone, as far away as the density bends.
    np.testing.assert_allclose(found.precisions, [exact, 1.0], rtol=0.5)


def test_where_nothing_is_finite_the_floor_is_left():
    for dense in (True, False):
        found = curvature_at(lambda x: jnp.log(-1.0 - x[0] ** 2) * x[1], np.zeros(2), dense)
        np.testing.assert_array_equal(found.precisions, FLATTEST)
        assert np.isfinite(found.directions).all()


def of_scale(z, data):
    """Scales of each lane differ: `data["scale"]`, shape (2,)."""
    return -jnp.cosh((z - data["centre"]) / data["scale"]).sum()


@pytest.fixture
def lanes():
    program = vicheck.from_log_density(
        of_scale, np.zeros(2), data={"scale": np.ones(2), "centre": 0.0}
    ).program
    scale = 10.0 ** np.array([[0.0, 0.0], [-5.0, 2.0], [4.0, -3.0]])
    return Density(program, {"centre": np.float64(0.0)}, {"scale": scale}, 3), scale


@pytest.mark.parametrize("dense", [True, False])
def test_many_lanes_are_as_each_alone(lanes, dense):
    density, scale = lanes
    which = np.array([2, 0, 1])
    z, together = climb(density, which, np.zeros((3, 2)), 0, FLATTEST, dense)
    np.testing.assert_allclose(together.precisions, scale[which] ** -2.0, rtol=0.02)
    for i in range(3):
        _, alone = climb(density, which[i : i + 1], z[i : i + 1], 0, FLATTEST, dense)
        np.testing.assert_allclose(alone.precisions[0], together.precisions[i], rtol=1e-6)
        np.testing.assert_allclose(alone.directions[0], together.directions[i], rtol=1e-6)


def test_lanes_climb_each_to_its_mode_and_the_start_is_kept(lanes):
    density, scale = lanes
    start = 1.5 * scale
    before = start.copy()
    z, _ = climb(density, np.arange(3), start, 20, FLATTEST)
    np.testing.assert_array_equal(start, before)
    np.testing.assert_allclose(z / scale, 0.0, atol=0.1)


def test_a_lane_may_come_several_times(lanes):
    density, scale = lanes
    which = np.array([1, 1, 0])
    starts = scale[which] * np.array([[1.0, -1.0], [2.0, 0.5], [1.0, 1.0]])
    ends, arrived = climb_to_mode(density, which, starts, scale[which])
    assert arrived.all()
    np.testing.assert_allclose(ends / scale[which], 0.0, atol=0.1)
    assert density.num_evaluations[2] == 0
    assert density.num_evaluations[1] > density.num_evaluations[0] > 0


def test_a_start_that_is_not_finite_stays_where_it_is():
    density = Density(
        vicheck.from_log_density(lambda x: jnp.log(x).sum() - x.sum(), np.zeros(2)).program, {}, {}
    )
    start = np.array([[-1.0, 2.0]])
    z, curvature = climb(density, ONE, start, 5, FLATTEST)
    np.testing.assert_array_equal(z, start)
    assert np.isfinite(curvature.directions).all()


def test_a_flat_climb_ends_at_once():
    density = Density(
        vicheck.from_log_density(lambda x: 0.0 * x.sum(), np.zeros(2)).program, {}, {}
    )
    z, _ = climb(density, ONE, np.ones((1, 2)), 5, FLATTEST)
    np.testing.assert_array_equal(z, 1.0)


@pytest.mark.parametrize("dim", [70, 300])
def test_many_dimensions(dim):
    """From 64 on a climb is by quasi-Newton steps; the diagonal alone is an estimate."""
    scales = np.logspace(-2.0, 2.0, dim)

    def log_density(x, data):
        return -jnp.cosh((x - 3.0 * data["scales"]) / data["scales"]).sum()

    model = vicheck.from_log_density(log_density, np.zeros(dim), data={"scales": scales})
    density = Density(model.program, model.data, {})
    dense = dim < 100
    z, curvature = climb(density, ONE, np.zeros((1, dim)), 10, FLATTEST, dense)
    if dense:
        np.testing.assert_allclose((z[0] - 3.0 * scales) / scales, 0.0, atol=0.35)
        np.testing.assert_allclose(curvature.precisions[0], scales**-2.0, rtol=0.05)
    else:
        # Independent coordinates: no combination hides any of them.
        assert curvature.hessian is None
        exact = np.cosh((z[0] - 3.0 * scales) / scales) / scales**2
        np.testing.assert_allclose(curvature.precisions[0], exact, rtol=0.05)


def test_the_estimated_diagonal_of_a_correlated_density():
    """Eight random combinations: right on average, and within a factor of some."""
    exact = correlated(40)
    found = curvature_at(lambda x: -0.5 * x @ exact @ x, np.zeros(40), dense=False)
    ratio = found.precisions / np.diag(exact)
    assert np.median(ratio) == pytest.approx(1.0, abs=0.3)
    np.testing.assert_allclose(found.directions, 1.0 / np.sqrt(found.precisions))


def test_a_step_into_the_neck_of_a_funnel_is_not_taken():
    """From its middle a Newton step leads far down, where everything is narrow."""

    def funnel(z):
        narrow = jnp.exp(-2.0 * z[0]) * (z[1:] ** 2).sum()
        return -0.5 * (z[0] / 5.0) ** 2 - 5.0 * z[0] - 0.5 * narrow

    model = vicheck.from_log_density(funnel, np.zeros(11))
    density = Density(model.program, model.data, {})
    start = np.array([[3.0] + 10 * [0.1]])
    _, before = climb(density, ONE, start, 0, FLATTEST)
    free, narrow = climb(density, ONE, start, 1, FLATTEST)
    growth = (narrow.precisions / before.precisions).max()
    assert growth > 10.0
    held, kept = climb(density, ONE, start, 1, FLATTEST, True, 0.9 * growth)
    np.testing.assert_array_equal(held, start)
    np.testing.assert_array_equal(kept.precisions, before.precisions)
    taken, _ = climb(density, ONE, start, 1, FLATTEST, True, 1.1 * growth)
    np.testing.assert_array_equal(taken, free)


@pytest.mark.parametrize("exponent", [-6, 0, 6])
def test_draws_nearby_tell_the_precisions_in_any_units(exponent):
    sd = 10.0**exponent * np.array([1.0, 1e-3, 50.0])
    tried = []

    def told(lengths, which):
        tried.append(len(which))
        # Beyond a few sds nothing is finite, as for a density with an edge.
        return (lengths / sd) ** 2, (lengths < 3.0 * sd).all(axis=1)

    z = np.zeros((2, 3))
    np.testing.assert_allclose(precisions_by_draws(told, z), np.tile(sd**-2.0, (2, 1)))
    assert len(tried) <= 4


def test_draws_tell_nothing_where_nothing_is_finite():
    precisions = precisions_by_draws(
        lambda lengths, _: (np.full_like(lengths, np.nan), np.zeros(len(lengths), bool)),
        np.zeros((1, 2)),
    )
    np.testing.assert_array_equal(precisions, 0.0)
