"""The compiled loop of fits that are told their curvature ends where the loop on the host does."""

import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.model import double_precision
from vicheck.vi.charts.mean_field import MeanFieldChart
from vicheck.vi.density import Density
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.families.registry import kind_of
from vicheck.vi.guided import guided
from vicheck.vi.quasi_newton import minimise
from vicheck.vi.solvers.deterministic.batch import Batch
from vicheck.vi.solvers.deterministic.compiled_guided import GuidedLoop
from vicheck.vi.solvers.deterministic.noise import make_noise, standardised
from vicheck.vi.solvers.deterministic.objective import Objective
from vicheck.vi.solvers.deterministic.options import Options
from vicheck.vi.solvers.deterministic.rounds import Rounds
from vicheck.vi.solvers.reporting import silent

DIM, FITS = 3, 70
"""More fits than one call of compiled code takes."""
SHIFTS = np.random.default_rng(0).normal(size=FITS)


@pytest.fixture(autouse=True)
def _double():
    with double_precision():
        yield


def log_density(z, data):
    """A funnel whose other coordinates correlate; not finite for very large z."""
    x = z[1] - data["shift"]
    narrow = x**2 + z[2] ** 2 + x * z[2]
    return -0.5 * z[0] ** 2 - 0.5 * jnp.exp(-z[0]) * narrow - z[0] - 0.1 * (z @ z)


@pytest.fixture(scope="module")
def program():
    model = vicheck.from_log_density(log_density, np.zeros(DIM), data={"shift": 0.0})
    return model.program.snapshot()


def problem(program, *, lanes=None, num_draws=32, loc=0.0):
    lanes = np.arange(FITS) if lanes is None else lanes
    scales = np.full((len(lanes), DIM), 0.7)
    chart = MeanField(np.full_like(scales, loc), np.log(scales)).chart(scales)
    assert isinstance(chart, MeanFieldChart)
    half = standardised(make_noise(num_draws, DIM, lanes), True, 1)
    return Objective(Density(program, {}, {"shift": SHIFTS}, FITS), lanes, chart, half, None)


def both(objective, **how):
    """Return where the compiled loop ends, and where that on the host does."""
    count, density = len(objective.lanes), objective.density
    longest = np.array([10.0] * DIM + [1.0] * DIM)
    how = {"tolerance": np.full(count, 1e-5), "max_evaluations": 100, "longest": longest} | how
    loop, memory = GuidedLoop(density), guided(count, DIM)
    assert loop.takes(objective, memory)
    compiled = loop(objective, memory=memory, **how)
    counted = density.num_evaluations.copy()
    start = np.zeros((count, 2 * DIM))
    host = minimise(objective.with_curvature, start, memory=memory, **how)
    return compiled, host, counted


def test_both_loops_find_the_same_optimum(program):
    compiled, host, _ = both(problem(program))
    assert compiled.memory.size(compiled.gradient).max() < 1e-5
    assert np.abs(compiled.x - host.x).max() < 1e-4  # in sds
    assert np.abs(host.x).max() > 0.1
    np.testing.assert_allclose(compiled.value, host.value, rtol=1e-9)
    assert not compiled.stalled.any()
    # How far they are from it they know alike; far away the loop's own number is damped.
    sizes = [end.memory.size(end.gradient) for end in (compiled, host)]
    np.testing.assert_allclose(*sizes, atol=1e-6)


@pytest.mark.parametrize("evaluations", [1, 2, 3, 6])
def test_they_go_the_same_way(program, evaluations):
    compiled, host, _ = both(problem(program), max_evaluations=evaluations)
    np.testing.assert_array_equal(compiled.num_evaluations, evaluations)
    np.testing.assert_allclose(compiled.x, host.x, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(compiled.value, host.value, rtol=1e-9)
    np.testing.assert_allclose(compiled.gradient, host.gradient, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(compiled.memory.hessian, host.memory.hessian, rtol=1e-6, atol=1e-9)


def test_some_of_the_fits_and_other_numbers_of_draws(program):
    lanes = np.array([1, 5, 69])
    for num_draws in (64, 512):
        compiled, host, counted = both(problem(program, lanes=lanes, num_draws=num_draws))
        assert np.abs(compiled.x - host.x).max() < 1e-4
        np.testing.assert_array_equal(counted[lanes], compiled.num_evaluations * num_draws)
        assert counted.sum() == counted[lanes].sum()


def test_where_the_density_is_not_finite_both_stall(program):
    compiled, host, _ = both(problem(program, loc=1e200))
    assert compiled.stalled.all()
    assert host.stalled.all()
    assert not np.isfinite(compiled.value).any()


def test_few_fits_stay_on_the_host(program):
    few = Density(program, {}, {"shift": SHIFTS[:8]}, 8)
    objective = problem(program)
    assert GuidedLoop(objective.density).takes(objective, None)
    assert not GuidedLoop(few).takes(objective, None)
    assert not Rounds(few, kind_of("mean_field", DIM, None), np.arange(8)).begins_in_a_loop(32)


@pytest.mark.parametrize(("family", "guided"), [("mean_field", True), ("full_rank", False)])
def test_only_independent_scales_are_told_their_curvature(program, family, guided):
    density = Density(program, {}, {"shift": SHIFTS}, FITS)
    rounds = Rounds(density, kind_of(family, DIM, None), np.arange(FITS))
    assert rounds.is_guided(32) == guided
    assert rounds.begins_in_a_loop(32) == guided


def test_as_many_rows_of_noise_as_parameters_are_needed():
    model = vicheck.from_log_density(lambda z: -z @ z, np.zeros(20))
    density = Density(model.program.snapshot(), {}, {}, 1)
    rounds = Rounds(density, kind_of("mean_field", 20, None), np.zeros(1, int))
    assert not rounds.is_guided(32)
    assert rounds.is_guided(64)


def test_batches_end_where_they_do_on_the_host(program, monkeypatch):
    def solve():
        own = {"shift": SHIFTS}
        kind = kind_of("mean_field", DIM, None)
        options = Options(sampling_tolerance=1.0)  # all end with the same number of draws
        return Batch(options, program, kind, {}, own, np.arange(FITS), silent).solve()

    compiled, again = solve(), solve()
    np.testing.assert_array_equal(compiled.q.loc, again.q.loc)  # the same bits
    monkeypatch.setattr(GuidedLoop, "takes", lambda *_: False)
    monkeypatch.setattr(GuidedLoop, "is_worth_compiling", False)
    host = solve()
    assert compiled.status == host.status
    assert (np.abs(compiled.q.loc - host.q.loc) / np.exp(host.q.log_scale)).max() < 5e-3


def test_a_scale_that_seems_flat_where_fits_begin_is_no_reason_to_begin_wide():
    """At zero the logarithm of a scale has no curvature; 20 sds below it nothing is finite."""

    def groups(z, data):
        spread = jnp.exp(z[0])
        of_groups = -0.5 * ((z[2:] - z[1]) ** 2).sum() / spread**2 - 4.0 * z[0]
        outcome = -0.5 * ((data["y"] - z[2:]) ** 2).sum() / 25.0
        return of_groups + outcome - 0.5 * ((z[1] - 100.0) / 50.0) ** 2 - 0.5 * (z[0] / 3.0) ** 2

    rng = np.random.default_rng(0)
    y = 150.0 + 30.0 * rng.normal(size=(FITS, 4))
    model = vicheck.from_log_density(groups, np.zeros(6), data={"y": y[0]})
    kind = kind_of("mean_field", 6, None)
    end = Batch(
        Options(), model.program.snapshot(), kind, {}, {"y": y}, np.arange(FITS), silent
    ).solve()
    assert {status.name for status in end.status} == {"CONVERGED"}
    assert end.num_evaluations.mean() < 4000
    assert np.abs(end.q.loc[:, 2:] - y).max() < 20.0
