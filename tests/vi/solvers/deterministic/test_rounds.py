"""Rounds: compiled code that carries fits on, as far as its budget goes."""

import jax
import numpy as np
import pytest

import vicheck
from vicheck.model import double_precision
from vicheck.results.status import FitStatus
from vicheck.vi.families.registry import kind_of
from vicheck.vi.solvers.deterministic.noise import CHUNK, make_noise
from vicheck.vi.solvers.deterministic.progress import (
    CODES,
    NEW,
    RUNNING,
    begin,
    begin_beside,
    choose,
    elbos,
    is_running,
    status_of,
    takes_directions,
    with_more_draws,
)
from vicheck.vi.solvers.deterministic.rounds import LOOSE, Limits, run_rounds

MEAN, SD = np.array([3.0, -40.0]), np.array([0.1, 20.0])
MAX_CHUNKS = 8
PLENTY = 10**6


def log_density(z, data):
    return -0.5 * (((z - MEAN) / SD) ** 2).sum() * data["sharpness"]


@pytest.fixture(scope="module")
def program():
    return vicheck.from_log_density(log_density, np.zeros(2), data={"sharpness": 1.0}).program


def run(program, progress, *, budget=PLENTY, tolerance=1e-3, sharpness=None):
    kind = kind_of("mean_field", 2, None)
    count = len(progress.code)
    noise = make_noise(MAX_CHUNKS * CHUNK, 2, np.arange(count))
    own = {"sharpness": np.ones(count) if sharpness is None else np.asarray(sharpness)}
    limits = Limits(tolerance, 0.05, MAX_CHUNKS, budget)
    with double_precision():
        return jax.device_get(run_rounds((program, kind), progress, noise, own, {}, limits))


def new(count=1, num_chunks=1, **options):
    with double_precision():
        return begin(kind_of("mean_field", 2, None), np.zeros((count, 2)), num_chunks, **options)


def test_a_gaussian_is_found_in_one_call(program):
    end = run(program, new(newton_steps=2))
    assert status_of(end.code[0]) is FitStatus.CONVERGED
    np.testing.assert_allclose(end.q.loc[0], MEAN, rtol=1e-3)
    np.testing.assert_allclose(end.mean, end.q.loc)
    np.testing.assert_allclose(end.sd[0], SD, rtol=1e-3)
    assert end.norm[0] < 1e-3
    assert end.error[0] < 0.05
    # Up to the constant of the density, which is that of the normal without its normalisation.
    assert elbos(end)[0] == pytest.approx(np.log(2 * np.pi * SD.prod()), abs=1e-3)


def test_the_draws_are_doubled_once_to_see_that_q_stays_the_same(program):
    end = run(program, new(newton_steps=2))
    assert end.num_chunks[0] == 2
    np.testing.assert_allclose(end.former_mean[0], MEAN, rtol=1e-3)
    np.testing.assert_allclose(end.former_sd[0], SD, rtol=1e-3)


def test_fits_of_a_batch_do_not_see_each_other(program):
    alone = run(program, new(newton_steps=2))
    together = run(program, new(2, newton_steps=2), sharpness=[1.0, 100.0])
    np.testing.assert_array_equal(together.q.loc[0], alone.q.loc[0])
    np.testing.assert_array_equal(together.trace[0], alone.trace[0])
    np.testing.assert_allclose(together.sd[1], SD / 10.0, rtol=1e-3)


def test_a_budget_is_kept_and_the_next_call_goes_on_from_there(program):
    whole = run(program, new())
    parts, calls = new(), 0
    while is_running(parts).any():
        before = int(parts.num_evaluations[0])
        parts, calls = run(program, parts, budget=1), calls + 1
        assert int(parts.num_evaluations[0]) > before
    assert calls > 2
    for one, other in zip(jax.tree.leaves(parts), jax.tree.leaves(whole), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_first_round_is_loose(program):
    first = run(program, new(newton_steps=2), budget=1)
    assert first.code[0] == RUNNING
    assert first.num_traced[0] == 1
    assert first.norm[0] < LOOSE
    assert np.isfinite(first.trace[0, 0]).all()
    assert (first.trace[0, 1:] == 0.0).all()


def test_what_has_ended_is_left_as_it_is(program):
    ended = run(program, new(newton_steps=2))
    again = run(program, ended)
    for one, other in zip(jax.tree.leaves(ended), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_flat_density_runs_away(program):
    end = run(program, new(), sharpness=[0.0])
    assert status_of(end.code[0]) is FitStatus.AT_INFINITY
    assert np.isnan(elbos(end)[0])


def test_a_density_that_is_not_finite_is_a_status(program):
    end = run(program, new(), sharpness=[np.nan])
    assert status_of(end.code[0]) is FitStatus.NOT_FINITE


def test_a_fit_beside_another_begins_with_its_scales(program):
    settled = run(program, new(newton_steps=2))
    kind = kind_of("mean_field", 2, None)
    place = np.array([[7.0, 7.0]])
    with double_precision():
        beside = begin_beside(settled, place, kind, num_chunks=1)
    np.testing.assert_array_equal(beside.q.loc, place)
    np.testing.assert_array_equal(beside.mean, place)
    np.testing.assert_array_equal(beside.q.log_scale, settled.q.log_scale)
    end = run(program, beside)
    np.testing.assert_allclose(end.q.loc[0], MEAN, rtol=1e-3)


def test_more_draws_for_some(program):
    settled = run(program, new(2, newton_steps=2))
    more = with_more_draws(settled, np.array([False, True]))
    assert more.code.tolist() == [CODES[FitStatus.CONVERGED], RUNNING]
    assert more.num_chunks.tolist() == [2, 4]
    np.testing.assert_array_equal(more.former_mean[1], settled.mean[1])
    end = run(program, more)
    assert end.num_chunks[1] >= 4
    assert (end.code == CODES[FitStatus.CONVERGED]).all()


def test_choose_takes_whole_fits():
    one, other = new(2), new(2)._replace(code=np.array([5, 6]), start=np.ones((2, 2)))
    mixed = choose(np.array([True, False]), one, other)
    assert mixed.code.tolist() == [NEW, 6]
    np.testing.assert_array_equal(mixed.start, [[0.0, 0.0], [1.0, 1.0]])


def test_who_takes_directions():
    assert takes_directions(kind_of("mean_field", 256, None), 256)
    assert not takes_directions(kind_of("mean_field", 257, None), 257)
    assert takes_directions(kind_of("low_rank", 9, None), 9)
    assert not takes_directions(kind_of("full_rank", 9, None), 9)
