"""The density on the host's side: right values, right counts, few compilations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.model import Program, double_precision
from vicheck.runtime import interrupts
from vicheck.runtime.compiling import is_large, num_compiled
from vicheck.vi.density import ROWS, Density

DIM = 3
ONE = np.zeros(1, np.intp)


@pytest.fixture(autouse=True)
def _double():
    with double_precision():
        yield


def log_density(z, data):
    """A robust regression, curved everywhere."""
    residuals = (data["y"] - data["x"] @ z[: data["x"].shape[1]]) * data["weight"]
    return -jnp.log1p(residuals**2).sum() - 0.1 * jnp.cosh(z).sum()


def data_of(num_rows, seed=0):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((num_rows, DIM)), rng.standard_normal(num_rows)
    return {"x": x, "y": y, "weight": np.float64(1.0 + seed)}


@pytest.fixture(params=["small", "large"])
def data(request):
    found = data_of({"small": 5, "large": 1100}[request.param])
    assert is_large(program_of(found), found) == (request.param == "large")
    return found


def program_of(data):
    return vicheck.from_log_density(log_density, np.zeros(DIM), data=data).program.snapshot()


# For so many points at a time, others filled up: shapes take longer to compile than to compute.
_MOST = 1500
_exactly = jax.jit(jax.vmap(jax.value_and_grad(log_density), (0, None)))


def expected(z, data):
    """Values and gradients at points of any shape, by JAX alone."""
    rows = np.zeros((_MOST, DIM))
    count = z.size // DIM
    rows[:count] = z.reshape(-1, DIM)
    values, gradients = _exactly(rows, data)
    return np.reshape(values[:count], z.shape[:-1]), np.reshape(gradients[:count], z.shape)


def assert_close(found, exact):
    for one, other in zip(found, exact, strict=True):
        assert one.shape == other.shape
        assert one.dtype == np.float64
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def points(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal((*shape, DIM))


@pytest.mark.parametrize("num_points", [1, 3, 32, 33, 200, 1500])
def test_one_set_of_data(data, num_points):
    z = points(1, num_points)
    density = Density(program_of(data), data, {})
    assert_close(density(ONE, z), expected(z, data))
    assert density.num_evaluations.tolist() == [num_points]


LANES = 70


@pytest.fixture(scope="module", params=["small", "large"])
def many(request):
    """Seventy sets of data that share their covariates."""
    shared = data_of({"small": 5, "large": 1100}[request.param])
    rng = np.random.default_rng(3)
    own = {"y": rng.standard_normal((LANES, len(shared["y"]))), "weight": 1.0 + rng.random(LANES)}
    del shared["y"], shared["weight"]
    return shared, own


def of_lane(shared, own, lane):
    return shared | {name: array[lane] for name, array in own.items()}


@pytest.mark.parametrize("num_points", [1, 33, 200])
@pytest.mark.parametrize("lanes", [[0], [69, 3, 5], range(LANES)], ids=["one", "some", "all"])
def test_many_sets_of_data(many, lanes, num_points):
    shared, own = many
    lanes = np.array(lanes, np.intp)
    z = points(len(lanes), num_points)
    density = Density(program_of(of_lane(shared, own, 0)), shared, own, LANES)
    values, gradients = density(lanes, z)
    for i in sorted({0, len(lanes) // 2, len(lanes) - 1}):
        exact = expected(z[i], of_lane(shared, own, lanes[i]))
        assert_close((values[i], gradients[i]), exact)
    counts = np.bincount(lanes, minlength=LANES) * num_points
    np.testing.assert_array_equal(density.num_evaluations, counts)


def test_many_fits_to_the_same_data():
    data = data_of(5)
    z = points(4, 7)
    density = Density(program_of(data), data, {}, num_lanes=4)
    assert_close(density(np.arange(4), z), expected(z, data))
    np.testing.assert_array_equal(density.num_evaluations, 7)


def test_a_lane_that_comes_twice_counts_twice(many):
    shared, own = many
    density = Density(program_of(of_lane(shared, own, 0)), shared, own, LANES)
    z = points(3, 2)
    values, _ = density(np.array([4, 4, 1]), z)
    np.testing.assert_allclose(values[1], expected(z[1], of_lane(shared, own, 4))[0], rtol=1e-12)
    assert density.num_evaluations[[1, 4]].tolist() == [2, 4]
    assert density.num_evaluations.sum() == 6


def test_nested_data_of_each_lane():
    """As posterior SBC has them: the replicate is a dictionary of its own."""

    def nested(z, data):
        return -jnp.sum((z - data["part"]["centre"]) ** 2) * data["scale"]

    data = {"part": {"centre": np.zeros(2)}, "scale": 1.0}
    program = vicheck.from_log_density(nested, np.zeros(2), data=data).program
    centres = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    density = Density(program, {"scale": np.float64(2.0)}, {"part": {"centre": centres}}, 3)
    values, gradients = density(np.array([2, 0]), np.ones((2, 1, 2)))
    np.testing.assert_allclose(values, [[-50.0], [-2.0]])
    np.testing.assert_allclose(gradients, [[[12.0, 16.0]], [[-4.0, 0.0]]])


def test_a_second_call_and_a_second_density_compile_nothing(data):
    def all_sizes():
        density = Density(program_of(data), data, {})
        for num_points in (1, 20, 32, 33, 1500):
            density(ONE, points(1, num_points))
        return density

    density = all_sizes()
    before = num_compiled()
    density(ONE, points(1, 33, seed=2))
    all_sizes()
    assert num_compiled() == before
    # Few sizes are compiled for all numbers of points.
    assert len(density._prepared) == (1 if is_large(density.program, data) else 2)


def test_what_is_compiled_beforehand_is_all_that_a_fit_needs(many):
    shared, own = many
    program = program_of(of_lane(shared, own, 0))
    ready = Density(program, shared, own, LANES)
    ready.compile()
    assert not ready.num_evaluations.any()
    before = num_compiled()
    density = Density(program, shared, own, LANES)
    for num_points in (1, ROWS, 512):
        density(np.arange(5), points(5, num_points))
    assert num_compiled() == before


def test_points_where_the_density_is_not_finite_spoil_no_others(data):
    z = points(1, 40)
    exact = expected(z, data)
    spoiled = z.copy()
    spoiled[0, 7] = np.nan
    spoiled[0, 11] = np.inf
    density = Density(program_of(data), data, {})
    values, gradients = density(ONE, spoiled)
    bad = np.isin(np.arange(40), [7, 11])
    assert not np.isfinite(values[0, bad]).any()
    np.testing.assert_allclose(values[0, ~bad], exact[0][0, ~bad], rtol=1e-12)
    np.testing.assert_allclose(gradients[0, ~bad], exact[1][0, ~bad], rtol=1e-12, atol=1e-12)


class OnHost(Program):
    """A program like Stan's, which computes on the host; JAX is not asked."""

    layout = (("x", (DIM,)),)

    built = 0

    def log_density(self, z, data):
        raise AssertionError("JAX was asked for the density")

    constrain = unconstrain = locate_trouble = check_data = log_density

    def density_on_host(self, data):
        type(self).built += 1

        def evaluate(z):
            return -0.5 * data["scale"] * (z**2).sum(axis=1), -data["scale"] * z

        return evaluate


@pytest.mark.parametrize("num_points", [1, 33])
def test_a_density_on_the_host_compiles_nothing(num_points):
    before = num_compiled()
    density = Density(OnHost(), {"scale": np.float64(2.0)}, {})
    density.compile()
    z = points(1, num_points)
    values, gradients = density(ONE, z)
    np.testing.assert_allclose(values, -(z**2).sum(axis=2))
    np.testing.assert_allclose(gradients, -2.0 * z)
    assert density.num_evaluations.tolist() == [num_points]
    assert num_compiled() == before


def test_a_density_on_the_host_with_data_of_each_lane():
    scales = np.array([1.0, 2.0, 3.0])
    density = Density(OnHost(), {}, {"scale": scales}, 3)
    z = points(2, 4)
    values, gradients = density(np.array([2, 0]), z)
    np.testing.assert_allclose(values, -0.5 * scales[[2, 0], None] * (z**2).sum(axis=2))
    np.testing.assert_allclose(gradients, -scales[[2, 0], None, None] * z)
    assert density.num_evaluations.tolist() == [4, 0, 4]


@pytest.mark.parametrize("where", ["compiled", "host"])
def test_ctrl_c_ends_the_next_evaluation(where, monkeypatch):
    program, data = (OnHost(), {"scale": 1.0}) if where == "host" else (None, data_of(5))
    density = Density(program or program_of(data), data, {})
    density(ONE, points(1, 2))
    monkeypatch.setattr(interrupts._now, "presses", 1)
    monkeypatch.setattr(interrupts._now, "raised", False)
    with pytest.raises(KeyboardInterrupt):
        density(ONE, points(1, 2))
    assert density.num_evaluations.tolist() == [2]


def test_ctrl_c_between_the_lanes_of_a_density_on_the_host(monkeypatch):
    density = Density(OnHost(), {}, {"scale": np.ones(3)}, 3)
    build = OnHost.density_on_host
    monkeypatch.setattr(interrupts._now, "raised", False)

    def pressed(self, data):
        monkeypatch.setattr(interrupts._now, "presses", 1)
        return build(self, data)

    monkeypatch.setattr(interrupts._now, "presses", 0)
    monkeypatch.setattr(OnHost, "density_on_host", pressed)
    before = OnHost.built
    with pytest.raises(KeyboardInterrupt):
        density(np.arange(3), points(3, 2))
    assert OnHost.built == before + 1  # the first lane was on its way
