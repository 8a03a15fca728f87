"""Rounds: fits that have the same number of draws, carried on together."""

import jax
import numpy as np
import pytest

import vicheck
from vicheck.model import double_precision
from vicheck.results.status import FitStatus
from vicheck.vi.density import Density
from vicheck.vi.families.registry import kind_of
from vicheck.vi.quasi_newton import Minimum, no_memory
from vicheck.vi.solvers.deterministic.noise import FEWEST
from vicheck.vi.solvers.deterministic.progress import (
    CODES,
    NEW,
    RUNNING,
    begin,
    choose,
    elbos,
    has_run_away,
    is_running,
    put,
    status_of,
    take,
    takes_directions,
)
from vicheck.vi.solvers.deterministic.rounds import Limits, Rounds

MEAN, SD = np.array([3.0, -40.0]), np.array([0.1, 20.0])
MAX_DRAWS = 8 * FEWEST
KIND = kind_of("mean_field", 2, None)


@pytest.fixture(autouse=True)
def _double():
    with double_precision():
        yield


def log_density(z, data):
    return -0.5 * (((z - MEAN) / SD) ** 2).sum() * data["sharpness"]


@pytest.fixture(scope="module")
def program():
    model = vicheck.from_log_density(log_density, np.zeros(2), data={"sharpness": 1.0})
    return model.program.snapshot()


def rounds_of(program, sharpness, kind=KIND):
    sharpness = np.asarray(sharpness, np.float64)
    density = Density(program, {}, {"sharpness": sharpness}, len(sharpness))
    return Rounds(density, kind, np.arange(len(sharpness)))


def run(program, progress, *, sharpness=None, most=np.inf, tolerance=1e-3, rounds=None):
    """Run rounds of the fits with the fewest draws until all have ended, or some rounds."""
    rounds = rounds or rounds_of(
        program, np.ones(len(progress.code)) if sharpness is None else (sharpness)
    )
    done = 0
    while (running := is_running(progress)).any() and done < most:
        fewest = progress.num_draws[running].min()
        lanes = np.flatnonzero(running & (progress.num_draws == fewest))
        limits = Limits(tolerance, 0.05, MAX_DRAWS)
        progress = put(progress, lanes, rounds.run(lanes, take(progress, lanes), limits))
        done += 1
    return progress


def new(count=1, num_draws=FEWEST, **options):
    return begin(KIND, np.zeros((count, 2)), num_draws, **options)


def test_a_gaussian_is_found(program):
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
    assert end.num_draws[0] == 2 * FEWEST
    np.testing.assert_allclose(end.former_mean[0], MEAN, rtol=1e-3)
    # On the former draws the gradient had only to become small against their error.
    np.testing.assert_allclose(end.former_sd[0], SD, rtol=0.01)


def test_draws_where_a_fit_is_are_not_evaluated_again(program):
    """The first round ends where the second begins, and that with half the draws of the third."""
    rounds, asked = rounds_of(program, np.array([1.0])), []
    density = rounds.density

    class Recording:
        def __call__(self, lanes, z):
            asked.append(z[0].copy())
            return density(lanes, z)

        def __getattr__(self, name):
            return getattr(density, name)

    rounds.density = Recording()
    end = run(program, new(), rounds=rounds)
    assert status_of(end.code[0]) is FitStatus.CONVERGED
    points = np.concatenate(asked)
    assert len(np.unique(points.round(9), axis=0)) == len(points)


def test_fits_of_a_batch_do_not_see_each_other(program):
    alone = run(program, new(newton_steps=2))
    together = run(program, new(2, newton_steps=2), sharpness=[1.0, 100.0])
    # Not to the last bit: matrices of several fits are multiplied in another order.
    np.testing.assert_allclose(together.q.loc[0], alone.q.loc[0], rtol=1e-9)
    rounds = int(alone.num_traced[0])
    assert together.num_traced[0] == rounds
    np.testing.assert_allclose(together.trace[0, :rounds, 0], alone.trace[0, :rounds, 0], rtol=1e-9)
    np.testing.assert_allclose(together.sd[1], SD / 10.0, rtol=1e-3)


def test_the_first_round_is_loose(program):
    first = run(program, new(newton_steps=2), most=1)
    assert first.code[0] == RUNNING
    assert first.num_traced[0] == 1
    assert first.norm[0] < 0.1
    assert np.isfinite(first.trace[0, 0]).all()
    assert (first.trace[0, 1:] == 0.0).all()


def test_a_round_leaves_the_progress_it_was_given_as_it_was(program):
    before = new(2)
    copy = jax.tree.map(np.array, before)
    rounds = rounds_of(program, [1.0, 4.0])
    after = rounds.run(np.arange(2), before, Limits(1e-3, 0.05, MAX_DRAWS))
    again = jax.tree.map(np.array, after)
    rounds.run(np.arange(2), after, Limits(1e-3, 0.05, MAX_DRAWS))
    for one, other in zip(
        jax.tree.leaves((before, after)), jax.tree.leaves((copy, again)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_some_fits_run_and_the_others_are_not_evaluated(program):
    rounds = rounds_of(program, [1.0, 4.0, 9.0])
    progress = new(3, newton_steps=2)
    lanes = np.array([0, 2])
    some = rounds.run(lanes, take(progress, lanes), Limits(1e-3, 0.05, MAX_DRAWS))
    counts = rounds.density.num_evaluations
    assert counts[1] == 0
    assert (counts[lanes] > FEWEST).all()
    after = put(progress, lanes, some)
    assert after.code.tolist() == [RUNNING, NEW, RUNNING]
    np.testing.assert_array_equal(after.mean[lanes], some.mean)
    np.testing.assert_array_equal(after.q.loc[1], progress.q.loc[1])
    end = run(program, after, rounds=rounds)
    np.testing.assert_allclose(end.sd, SD / np.array([[1.0], [2.0], [3.0]]), rtol=1e-3)


def test_what_was_learnt_is_forgotten_when_a_fit_begins_anew(program):
    rounds = rounds_of(program, [1.0, 4.0])
    first = run(program, new(2), rounds=rounds)
    rounds.forget(np.array([0, 1]))
    second = run(program, new(2), rounds=rounds)
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("moved", "stuck"), [(0.0, True), (0.01, False)])
def test_a_round_that_used_up_its_evaluations_without_moving_is_stuck(
    program, monkeypatch, moved, stuck
):
    kind = kind_of("low_rank", 2, 1)  # which is not told its curvature
    rounds, limits = rounds_of(program, [1.0], kind), Limits(1e-3, 0.05, MAX_DRAWS)
    begun = rounds.run(np.arange(1), begin(kind, np.zeros((1, 2)), FEWEST), limits)
    steps = np.full((1, 6), moved)
    steep = Minimum(
        steps, np.ones(1), np.full((1, 6), 100.0), np.array([40]), np.zeros(1, bool),
        no_memory(1, 6),
    )  # fmt: skip
    monkeypatch.setattr(rounds, "_optimise", lambda *_: steep)
    after = rounds.run(np.arange(1), begun._replace(code=np.array([RUNNING])), limits)
    assert after.num_retries == stuck
    assert after.stale == stuck  # the units are computed again


def test_a_flat_density_runs_away(program):
    end = run(program, new(2), sharpness=[0.0, 1.0])
    assert [status_of(code) for code in end.code] == [FitStatus.AT_INFINITY, FitStatus.CONVERGED]
    assert has_run_away(end).tolist() == [True, False]
    assert np.isnan(elbos(end)).tolist() == [True, False]


def test_a_density_that_is_not_finite_is_a_status(program):
    end = run(program, new(2), sharpness=[np.nan, 1.0])
    assert [status_of(code) for code in end.code] == [FitStatus.NOT_FINITE, FitStatus.CONVERGED]


def test_draws_end_at_the_most_allowed(program):
    """With a tolerance that no number of draws meets: of a density that is not quadratic."""
    model = vicheck.from_log_density(lambda x: -(abs(x) ** 1.5) @ np.ones(2), np.zeros(2))
    rounds = Rounds(Density(model.program, {}, {}), KIND, np.zeros(1, np.int64))
    progress = new()
    while is_running(progress).any():
        progress = rounds.run(np.zeros(1, np.intp), progress, Limits(1e-3, 1e-9, 4 * FEWEST))
    assert progress.num_draws[0] == 4 * FEWEST
    assert status_of(progress.code[0]) is FitStatus.CONVERGED
    assert progress.error[0] > 1e-9


@pytest.mark.parametrize("name", ["mean_field", "full_rank", "low_rank"])
def test_every_family_starts_several_fits_as_each_alone(name, program):
    kind = kind_of(name, 2, None)
    own = {"sharpness": np.array([1.0, 0.01, 25.0])}
    limits = Limits(1e-3, 0.05, MAX_DRAWS)
    together = Rounds(Density(program, {}, own, 3), kind, np.arange(3)).run(
        np.arange(3), begin(kind, np.zeros((3, 2)), FEWEST, 2, 0.5), limits
    )
    for i in range(3):
        one = {"sharpness": own["sharpness"][i : i + 1]}
        alone = Rounds(Density(program, {}, one, 1), kind, np.array([i])).run(
            np.zeros(1, np.intp), begin(kind, np.zeros((1, 2)), FEWEST, 2, 0.5), limits
        )
        np.testing.assert_allclose((together.mean[i] - alone.mean[0]) / SD, 0.0, atol=1e-6)
        np.testing.assert_allclose(together.sd[i], alone.sd[0], rtol=1e-6)


def test_choose_takes_whole_fits():
    one, other = new(2), new(2)._replace(code=np.array([5, 6]), start=np.ones((2, 2)))
    mixed = choose(np.array([True, False]), one, other)
    assert mixed.code.tolist() == [NEW, 6]
    np.testing.assert_array_equal(mixed.start, [[0.0, 0.0], [1.0, 1.0]])
    assert choose(np.array([True, True]), one, other) is one


@pytest.mark.parametrize("which", [[1], [2, 0], [2, 0, 1], [0, 1, 2]])
def test_what_is_taken_is_put_back_where_it_was(which):
    which = np.array(which)
    progress = new(3)._replace(value=np.array([10.0, 11.0, 12.0]))
    some = take(progress, which)
    np.testing.assert_array_equal(some.value, 10.0 + which)
    same = put(progress, which, some)
    np.testing.assert_array_equal(same.value, progress.value)
    changed = put(progress, which, some._replace(value=-some.value))
    expected = np.where(np.isin(np.arange(3), which), -progress.value, progress.value)
    np.testing.assert_array_equal(changed.value, expected)
    np.testing.assert_array_equal(progress.value, [10.0, 11.0, 12.0])


def test_one_fit_is_taken_without_its_axis():
    assert take(new(3), 1).q.loc.shape == (2,)


def test_statuses_and_codes():
    assert status_of(NEW) is None
    assert status_of(RUNNING) is None
    for status, code in CODES.items():
        assert status_of(code) is status
        assert code > RUNNING


def test_who_takes_directions():
    assert takes_directions(kind_of("mean_field", 256, None), 256)
    assert not takes_directions(kind_of("mean_field", 257, None), 257)
    assert takes_directions(kind_of("low_rank", 9, None), 9)
    assert not takes_directions(kind_of("full_rank", 9, None), 9)
