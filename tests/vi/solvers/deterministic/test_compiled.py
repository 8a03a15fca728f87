"""The compiled loop of rounds ends where the loop on the host does."""

import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.model import double_precision
from vicheck.vi.density import Density
from vicheck.vi.families.registry import kind_of
from vicheck.vi.quasi_newton import minimise, no_memory
from vicheck.vi.solvers.deterministic.batch import Batch
from vicheck.vi.solvers.deterministic.compiled import CompiledLoop
from vicheck.vi.solvers.deterministic.noise import make_noise, standardised
from vicheck.vi.solvers.deterministic.objective import Objective
from vicheck.vi.solvers.deterministic.options import Options
from vicheck.vi.solvers.reporting import silent

DIM, FITS = 3, 70
"""More fits than one call of compiled code takes."""
SHIFTS = np.random.default_rng(0).normal(size=FITS)
HESSIAN = np.array([[2.0, 0.5, 0.0], [0.5, 1.5, 0.2], [0.0, 0.2, 1.0]])


@pytest.fixture(autouse=True)
def _double():
    with double_precision():
        yield


def log_density(z, data):
    """Skewed and correlated; not finite for very large z."""
    bent = jnp.exp(0.3 * z[0]) + 0.5 * (z[1] - data["shift"]) ** 2 + 0.4 * z[1] * z[2]
    return -bent + 0.3 * z[0] - 0.5 * z @ z


@pytest.fixture(scope="module")
def program():
    model = vicheck.from_log_density(log_density, np.zeros(DIM), data={"shift": 0.0})
    return model.program.snapshot()


def problem(program, family, *, lanes=None, num_draws=32, corrected=False, loc=0.0):
    """Return an objective, and what both loops take."""
    kind = kind_of(family, DIM, 1 if family == "low_rank" else None)
    lanes = np.arange(FITS) if lanes is None else lanes
    count = len(lanes)
    start = {
        "mean_field": lambda cls, z: cls(z, np.zeros_like(z)),
        "full_rank": lambda cls, z: cls(z, np.tile(np.eye(DIM), (count, 1, 1))),
        "low_rank": lambda cls, z: cls(z, np.zeros_like(z), np.full((count, DIM, 1), 0.1)),
    }[family]
    q = start(type(kind.shapes(DIM)), np.full((count, DIM), loc))
    directions = np.tile(np.linalg.cholesky(np.linalg.inv(HESSIAN)), (count, 1, 1))
    half = standardised(make_noise(num_draws, kind.noise_dim(DIM), lanes), False)
    hessian = np.tile(HESSIAN, (count, 1, 1)) if corrected else None
    density = Density(program, {}, {"shift": SHIFTS}, FITS)
    objective = Objective(density, lanes, q.chart(directions), half, hessian)
    size = objective.chart.step_dim
    how = {
        "tolerance": np.full(count, 1e-5),
        "max_evaluations": 100,
        "longest": np.full(size, 2.0),
    }
    return objective, size, how


def both(objective, size, how):
    """Return where the compiled loop ends, and where that on the host does, beginning anew."""
    count, density = len(objective.lanes), objective.density
    loop, memory = CompiledLoop(density), no_memory(count, size)
    assert loop.takes(objective, memory)
    compiled = loop(objective, memory=memory, **how)
    counted = density.num_evaluations.copy()
    density.num_evaluations[:] = 0
    host = minimise(objective, np.zeros((count, size)), memory=no_memory(count, size), **how)
    return compiled, host, counted


@pytest.mark.parametrize(
    ("family", "corrected"),
    [("mean_field", False), ("mean_field", True), ("full_rank", False), ("low_rank", False)],
)
def test_both_loops_find_the_same_optimum(program, family, corrected):
    objective, size, how = problem(program, family, corrected=corrected)
    compiled, host, _ = both(objective, size, how)
    assert np.abs(compiled.gradient).max() < 1e-5
    assert np.abs(compiled.x - host.x).max() < 1e-3  # in sds
    assert np.abs(host.x).max() > 0.1
    np.testing.assert_allclose(compiled.value, host.value, rtol=1e-9)
    assert not compiled.stalled.any()


def test_the_correction_matters(program):
    """Otherwise the test above would say nothing about it."""
    ends = []
    for corrected in (False, True):
        objective, size, how = problem(program, "mean_field", corrected=corrected)
        ends.append(both(objective, size, how)[0].x)
    assert np.abs(ends[0] - ends[1]).max() > 1e-2


def test_some_of_the_fits_and_other_numbers_of_draws(program):
    lanes = np.array([1, 5, 69])
    for num_draws in (64, 512):
        objective, size, how = problem(program, "mean_field", lanes=lanes, num_draws=num_draws)
        compiled, host, counted = both(objective, size, how)
        assert np.abs(compiled.x - host.x).max() < 1e-3
        np.testing.assert_array_equal(counted[lanes], compiled.num_evaluations * num_draws)
        assert counted.sum() == counted[lanes].sum()


def test_it_stops_where_the_other_does(program):
    objective, size, how = problem(program, "mean_field")
    few, host, _ = both(objective, size, how | {"max_evaluations": 3})
    np.testing.assert_array_equal(few.num_evaluations, 3)
    np.testing.assert_allclose(few.x, host.x, rtol=1e-9)
    np.testing.assert_allclose(few.memory.inverse, host.memory.inverse, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(few.memory.num_pairs, host.memory.num_pairs)
    objective, size, how = problem(program, "mean_field", loc=1e200)
    nowhere, host, _ = both(objective, size, how)
    assert nowhere.stalled.all()
    assert host.stalled.all()
    assert not np.isfinite(nowhere.value).any()


def test_what_was_learnt_is_used_again(program):
    objective, size, how = problem(program, "mean_field")
    first, _, _ = both(objective, size, how)
    again = CompiledLoop(objective.density)(objective, memory=first.memory, **how)
    assert again.num_evaluations.mean() < first.num_evaluations.mean()
    assert np.abs(again.x - first.x).max() < 1e-3


def test_few_fits_many_draws_and_large_models_stay_on_the_host(program):
    objective, size, _ = problem(program, "mean_field")
    memory = no_memory(FITS, size)
    few = Density(program, {}, {"shift": SHIFTS[:8]}, 8)
    assert CompiledLoop(objective.density).takes(objective, memory)
    assert not CompiledLoop(few).takes(objective, memory)
    assert not CompiledLoop(objective.density).takes(objective, no_memory(FITS, 1000))
    many, _, _ = problem(program, "mean_field", num_draws=1024)
    assert not CompiledLoop(many.density).takes(many, memory)
    data = {"shift": 0.0, "unused": np.zeros(2**12)}
    large = Density(program, data, {"shift": SHIFTS}, FITS)
    assert not CompiledLoop(large).takes(objective, memory)


@pytest.mark.parametrize("family", ["mean_field", "full_rank"])
def test_batches_end_where_they_do_on_the_host(program, family, monkeypatch):
    kind = kind_of(family, DIM, None)

    def solve():
        own = {"shift": SHIFTS}
        return Batch(Options(), program, kind, {}, own, np.arange(FITS), silent).solve()

    compiled, again = solve(), solve()
    np.testing.assert_array_equal(compiled.q.loc, again.q.loc)  # the same bits
    monkeypatch.setattr(CompiledLoop, "takes", lambda *_: False)
    host = solve()
    assert compiled.status == host.status
    sd = _sd(host.q)
    assert (np.abs(compiled.q.loc - host.q.loc) / sd).max() < 2e-3  # twice the tolerance


def _sd(q):
    return np.exp(q.log_scale) if hasattr(q, "log_scale") else np.sqrt((q.scale_tril**2).sum(-1))
