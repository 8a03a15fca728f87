"""Checks with an automatic number of draws, on executors, and of densities that misbehave."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from tests.checking.problems import DyingOnce, narrow_model, normal, on_host, total
from vicheck.checking import enough
from vicheck.checking.enough import draw_enough, open_question, require_num_draws
from vicheck.errors import ArgumentError, LostWorkerWarning, ModelError
from vicheck.paper import models
from vicheck.stats.psis import psis_quietly

# ---- how many ----


class Clock:
    """Time that passes only as draws are made."""

    def __init__(self, seconds_per_draw, monkeypatch, chunk=1000):
        self.now, self.per_draw, self.made, self.chunk = 0.0, seconds_per_draw, [], chunk
        monkeypatch.setattr(enough.time, "perf_counter", lambda: self.now)

    def first(self, number, go_on):
        """Make draws a chunk at a time, those that were made before for nothing."""
        done = min(number, sum(self.made))
        while done < number:
            self.now += self.chunk * self.per_draw
            self.made.append(self.chunk)
            done += self.chunk
            if done < number and go_on is not None and not go_on(done):
                return None
        return number


def settled_from(number):
    return lambda drawn: "" if drawn >= number else "the level"


def test_a_number_that_is_given_is_drawn_whatever_it_takes(monkeypatch):
    clock = Clock(10.0, monkeypatch)
    assert draw_enough(clock.first, 7000, 60.0, settled_from(0)) == (7000, ())


def test_draws_are_doubled_until_nothing_is_open(monkeypatch):
    clock = Clock(1e-6, monkeypatch)
    drawn, notes = draw_enough(clock.first, "auto", 60.0, settled_from(5000))
    assert drawn == sum(clock.made) == 8000
    assert notes == ("Stopped at 8,000 draws: the verdict can hardly change any more.",)


def test_there_is_a_largest_number(monkeypatch):
    clock = Clock(1e-6, monkeypatch)
    drawn, (note,) = draw_enough(clock.first, "auto", 60.0, settled_from(10**9))
    assert drawn == 128_000
    assert note == (
        "Stopped at 128,000 draws: that is the most, and more could still change the level."
    )


def test_the_budget_ends_it(monkeypatch):
    """At 1 ms a draw 31 s are over at 32,000; as many again would not be in time."""
    clock = Clock(1e-3, monkeypatch)
    drawn, (note,) = draw_enough(clock.first, "auto", 60.0, settled_from(10**9))
    assert drawn == sum(clock.made) == 32_000
    assert note == (
        "Stopped at 32,000 draws: the budget of 60 s was used up, and more could still change "
        "the level."
    )


def test_a_density_that_becomes_slow_is_given_up_within_a_doubling(monkeypatch):
    clock = Clock(1e-3, monkeypatch)

    def first(number, go_on):
        if number > 8000:
            clock.per_draw = 10.0
        return clock.first(number, go_on)

    drawn, (note,) = draw_enough(first, "auto", 60.0, settled_from(10**9))
    assert drawn == 8000
    assert sum(clock.made) == 9000
    assert "the budget of 60 s was used up" in note


def test_a_density_of_which_a_thousand_draws_exceed_the_budget_is_not_doubled(monkeypatch):
    clock = Clock(1.0, monkeypatch)
    drawn, (note,) = draw_enough(clock.first, "auto", 60.0, settled_from(10**9))
    assert drawn == sum(clock.made) == 1000
    assert "the budget of 60 s was used up" in note


def test_the_first_thousand_draws_have_a_budget_too(monkeypatch):
    """125 draws at a time, a second each: the budget begins after the first of them."""
    clock = Clock(1.0, monkeypatch, chunk=125)
    drawn, (note,) = draw_enough(clock.first, "auto", 300.0, settled_from(0))
    assert drawn == sum(clock.made) == 500
    assert note == (
        "Stopped at 500 draws: 1,000 would have taken about 17 minutes, longer than the budget of "
        "5 minutes."
    )


def test_a_first_chunk_that_takes_longer_than_the_budget_is_the_last(monkeypatch):
    clock = Clock(10.0, monkeypatch, chunk=125)
    drawn, (note,) = draw_enough(clock.first, "auto", 120.0, settled_from(0))
    assert drawn == sum(clock.made) == 125
    assert "1,000 would have taken about 3 hours" in note


def test_the_default_stops_among_the_first_thousand_draws_too(monkeypatch):
    clock = Clock(1.0, monkeypatch, chunk=125)
    drawn, notes = draw_enough(clock.first, None, 120.0, settled_from(0))
    assert drawn == sum(clock.made) == 250  # the second chunk shows what they take
    assert notes[0].startswith("100,000 draws would have taken about 28 hours")
    assert notes[1].startswith("Stopped at 250 draws: 1,000 would have taken about 17 minutes")


def test_draws_that_are_there_already_are_used_although_the_budget_is_over(monkeypatch):
    """The default is given up after the second thousand."""
    clock = Clock(1.0, monkeypatch)
    drawn, notes = draw_enough(clock.first, None, 60.0, settled_from(10**9))
    assert drawn == sum(clock.made) == 2000
    assert "28 hours" in notes[0]


def test_the_default_is_100_000_draws_where_they_are_in_time(monkeypatch):
    clock = Clock(1e-3, monkeypatch)
    assert draw_enough(clock.first, None, 120.0, settled_from(0)) == (100_000, ())


def test_the_default_becomes_automatic_where_they_are_not(monkeypatch):
    clock = Clock(0.02, monkeypatch)
    drawn, notes = draw_enough(clock.first, None, 120.0, settled_from(4000))
    assert drawn == sum(clock.made) == 4000
    assert notes == (
        "100,000 draws would have taken about 33 minutes, longer than the budget of 120 s.",
        "Stopped at 4,000 draws: the verdict can hardly change any more.",
    )


def test_a_hiccup_does_not_make_the_default_automatic(monkeypatch):
    """Five seconds for a thousand draws would be 500 s for all, but do not go on."""
    clock = Clock(1e-6, monkeypatch)

    def first(number, go_on):
        def told(done):
            clock.now += 5.0 if done == 2000 else 0.0
            return go_on(done)

        return clock.first(number, told)

    assert draw_enough(first, None, 120.0, settled_from(0)) == (100_000, ())


@pytest.mark.parametrize(
    ("num_draws", "budget", "error", "message"),
    [
        ("many", None, ArgumentError, "num_draws must be a positive integer or 'auto', got 'many'"),
        (0, None, ArgumentError, "num_draws must be a positive integer, got 0"),
        ("auto", 0.0, ArgumentError, "budget must be a positive number of seconds, got 0.0"),
        ("auto", np.nan, ArgumentError, "budget must be a positive number of seconds"),
        (None, "long", ArgumentError, "budget must be a positive number of seconds, got 'long'"),
        (1000, 60.0, TypeError, "budget does not apply to a number of draws that is given"),
    ],
)
def test_what_cannot_be_used_is_named(num_draws, budget, error, message):
    with pytest.raises(error, match=message):
        require_num_draws(num_draws, budget)


def test_what_is_open_is_said():
    z = np.random.default_rng(1).normal(size=(16_000, 3))

    def said(log_ratios):
        return open_question(psis_quietly(log_ratios), log_ratios, z)

    assert said(0.1 * z[:, 0]) == ""
    assert said(0.05 * z[:, 0]) == "which estimate to use of 1 of 3 quantities"
    assert said(1.6 * z[:, 0]) == "the level"
    assert said(np.where(np.arange(16_000) == 7, np.nan, 0.05 * z[:, 0])) == ""


# ---- checks ----


@pytest.fixture(scope="module")
def fits():
    return {rho: vicheck.fit(narrow_model(rho), num_starts=1) for rho in (0.1, 0.95)}


def same(one, other):
    arrays = ("log_p", "log_q", "values")
    return one.khat == other.khat and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays
    )


@pytest.mark.parametrize("rho", [0.1, 0.95])
def test_an_automatic_check_is_the_check_with_that_number(fits, rho):
    found = vicheck.check(fits[rho], num_draws="auto", seed=2)
    number = found.psis.num_draws
    assert found.notes[0].startswith(f"Stopped at {number:,} draws: ")
    assert (number < 100_000) is (rho == 0.1)  # khat 0.9 is not far enough from 0.7
    given = vicheck.check(fits[rho], num_draws=number, seed=2)
    assert same(found, given)
    assert found.provenance.code == given.provenance.code
    assert found.verdict.level == vicheck.check(fits[rho], seed=2).verdict.level


@pytest.mark.parametrize("num_draws", [500, 3500, "auto", 20_000])
def test_executors_give_the_same_bits(fits, num_draws):
    options = {"num_draws": num_draws, "quantities": {"total": total}}
    alone = vicheck.check(fits[0.95], **options)
    for number in (1, 3):
        with ThreadPoolExecutor(number) as executor:
            assert same(vicheck.check(fits[0.95], executor=executor, **options), alone)


@pytest.mark.slow
def test_other_processes_give_the_same_bits_and_may_die(fits, tmp_path):
    spawn = multiprocessing.get_context("spawn")
    alone = vicheck.check(fits[0.95], num_draws=9000)
    with ProcessPoolExecutor(1, spawn) as executor:
        assert same(vicheck.check(fits[0.95], num_draws=9000, executor=executor), alone)
    dying = vicheck.fit(on_host(DyingOnce(tmp_path / "killed", os.getpid())), num_starts=1)
    expected = vicheck.check(dying, num_draws=9000)
    with ProcessPoolExecutor(2, spawn) as executor, pytest.warns(LostWorkerWarning):
        found = vicheck.check(dying, num_draws=9000, executor=executor)
    assert (tmp_path / "killed").exists()
    assert same(found, expected)


def test_other_modes_are_looked_for_on_the_executor_too():
    fit = vicheck.fit(vicheck.from_numpyro(models.two_modes), num_starts=10)
    assert fit.solution.others
    alone = vicheck.check(fit, num_draws=3000)
    with ThreadPoolExecutor(2) as executor:
        found = vicheck.check(fit, num_draws=3000, executor=executor)
    assert found.pooled.to_dict() == alone.pooled.to_dict()
    auto = vicheck.check(fit, num_draws="auto")
    assert auto.verdict.decided_by == "mode-missed"
    assert "the verdict can hardly change any more" in auto.notes[0]
    assert auto.pooled.to_dict() == (
        vicheck.check(fit, num_draws=auto.psis.num_draws).pooled.to_dict()
    )


def test_compare_takes_both(fits):
    candidates = {"close": fits[0.1], "far": fits[0.95]}
    with ThreadPoolExecutor(2) as executor:
        ranked = vicheck.compare(candidates, num_draws="auto", budget=100.0, executor=executor)
    assert list(ranked.checks) == ["close", "far"]
    for name, found in ranked.checks.items():
        assert same(found, vicheck.check(candidates[name], num_draws="auto"))


@pytest.mark.parametrize("argument", [{"executor": 1}, {"num_draws": "some"}, {"budget": -1.0}])
def test_compare_refuses_before_it_fits(argument, monkeypatch):
    def never(*arguments, **options):
        raise AssertionError("it was fitted")

    monkeypatch.setattr("vicheck.vi.fitting.fit", never)
    model = vicheck.from_log_density(lambda x: -(x**2), np.zeros(()))
    (name,) = argument
    with pytest.raises((TypeError, ValueError), match=f"{name} must"):
        vicheck.compare([model], **argument)


def test_what_has_no_effect_on_draws_is_refused(fits, tmp_path):
    checked = vicheck.check(fits[0.1], num_draws=100)
    draws = vicheck.Draws(checked.draws, checked.log_p, checked.log_q)
    checked.save(tmp_path / "check.npz")
    with ThreadPoolExecutor(1) as executor:
        for arguments, names in (
            ({"executor": executor}, "executor does"),
            ({"num_draws": "auto"}, "num_draws does"),
            ({"budget": 3.0, "executor": executor}, "budget and executor do"),
        ):
            with pytest.raises(TypeError, match=f"{names} not apply to draws that already exist"):
                vicheck.check(draws, **arguments)
            with pytest.raises(TypeError, match=f"{names} not apply to .* a saved check"):
                vicheck.check(tmp_path / "check.npz", **arguments)
            with pytest.raises(TypeError, match=f"{names} not apply to draws that already exist"):
                vicheck.compare([checked], **arguments)


# ---- densities that misbehave ----


@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor], ids=["here", "executor"])
def test_nan_now_and_then_is_no_verdict_and_ends_it(executor):
    def spoilt(z):
        return np.where(z[..., 0] > 2.0, np.nan, normal(z))

    fit = vicheck.fit(on_host(normal), num_starts=1)
    fit = vicheck.Fit(**{**vars(fit), "model": on_host(spoilt), "computed": None})
    pool = executor and executor(1)
    found = vicheck.check(fit, num_draws="auto", executor=pool)
    if pool:
        pool.shutdown()
    assert found.verdict.level == "none"
    assert "NaN or +inf among the log ratios" in str(found.verdict)
    assert found.notes[0] == "Stopped at 1,000 draws: the verdict can hardly change any more."
    assert found.moments["use"].tolist() == ["neither", "neither"]


@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor], ids=["here", "executor"])
def test_what_a_density_raises_on_the_host_is_said(executor):
    def gone(z):
        raise OSError("the server is gone")

    fit = vicheck.fit(on_host(normal), num_starts=1)
    fit = vicheck.Fit(**{**vars(fit), "model": on_host(gone), "computed": None})
    pool = executor and executor(1)
    with pytest.raises(ModelError, match=r"the density failed.*the server is gone"):
        vicheck.check(fit, num_draws="auto", executor=pool)
    if pool:
        pool.shutdown()


def test_a_slow_density_is_checked_within_the_budget(monkeypatch):
    """Every evaluation of a draw takes a second, by a clock of its own."""
    now = [0.0]

    def slow(z):
        now[0] += z.size / 2
        return normal(z)

    fit = vicheck.fit(on_host(normal), num_starts=1)
    fit = vicheck.Fit(**{**vars(fit), "model": on_host(slow), "computed": None})
    monkeypatch.setattr(enough.time, "perf_counter", lambda: now[0])
    found = vicheck.check(fit, budget=2500.0)
    assert found.psis.num_draws == 2000
    assert found.notes[:2] == (
        "100,000 draws would have taken about 28 hours, longer than the budget of 42 minutes.",
        "Stopped at 2,000 draws: the budget of 42 minutes was used up, and more could still change "
        "the level.",
    )


@pytest.mark.parametrize("num_draws", [None, "auto"])
def test_a_density_of_a_second_a_draw_is_not_asked_for_an_hour(monkeypatch, num_draws):
    """Draws, gradient test and chains together, at the default budget of two minutes."""
    now = [0.0]

    def slow(z):
        now[0] += z.size / 2
        return normal(z)

    fit = vicheck.fit(on_host(normal), num_starts=1)
    fit = vicheck.Fit(**{**vars(fit), "model": on_host(slow), "computed": None})
    monkeypatch.setattr(enough.time, "perf_counter", lambda: now[0])
    found = vicheck.check(fit, num_draws=num_draws)
    assert now[0] < 600.0
    assert found.psis.num_draws == (250 if num_draws is None else 125)
    assert "1,000 would have taken about 17 minutes" in " ".join(found.notes)
    assert found.chains is None
    assert found.notes[-1].startswith("Short chains were left out: the draws have used up")
    assert found.convergence.gradient.num_draws == 64
    # The draws are the first of those that a fast machine would have drawn.
    quick = vicheck.check(fit, num_draws=1000, chains=False)
    assert np.array_equal(found.log_p, quick.log_p[: found.psis.num_draws])


def test_chains_of_a_slow_density_are_given_up_after_two_calls(monkeypatch):
    """At 20 ms they would take most of an hour, and to see that takes some seconds."""
    now = [0.0]

    def slow(z):
        now[0] += 0.02 * z.size / 2
        return normal(z)

    fit = vicheck.fit(on_host(normal), num_starts=1)
    fit = vicheck.Fit(**{**vars(fit), "model": on_host(slow), "computed": None})
    monkeypatch.setattr(enough.time, "perf_counter", lambda: now[0])
    without = vicheck.check(fit, num_draws=1000, chains=False)
    before, now[0] = now[0], 0.0
    found = vicheck.check(fit, num_draws=1000)
    assert found.chains is None
    assert found.notes[-1].startswith("Short chains were left out: they would take longer than 120")
    assert now[0] - before == pytest.approx(0.02 * 2 * 128)
    assert same(found, without)


KINKED = {
    "a kink": lambda x: -jnp.abs(x).sum(),
    "a floor": lambda x: jnp.maximum(-0.5 * (x**2).sum(), -4.0) - 0.01 * (x**2).sum(),
    "a wall": lambda x: jnp.where(x[0] > -1.0, -0.5 * (x**2).sum(), -jnp.inf),
    "a jump": lambda x: -0.5 * (x**2).sum() + jnp.where(x[0] > 0.0, 2.0, 0.0),
    "steps": lambda x: -jnp.floor(3.0 * jnp.abs(x)).sum(),
    "a gradient that is not a number": lambda x: -jnp.sqrt(jnp.abs(x)).sum(),
}


@pytest.mark.parametrize("name", KINKED)
def test_a_density_that_is_not_differentiable_gets_a_status_and_a_sentence(name):
    model = vicheck.from_log_density(KINKED[name], np.full(2, 0.1))
    fit = vicheck.fit(model)
    assert str(fit.status)
    found = vicheck.check(fit, num_draws=2000)
    assert found.verdict.level in ("good", "usable", "unreliable", "none")
    assert str(found.verdict)
    assert found.chains is None or found.chains.num_chains > 0
    assert len(found.moments) == 2


# ---- chains ----


@pytest.mark.slow
def test_chains_on_an_executor_are_the_same_bits():
    options = {"num_draws": 50, "num_warmup": 50, "num_chains": 3}
    alone = vicheck.reference(narrow_model(0.5), **options)
    with ThreadPoolExecutor(2) as executor:
        found = vicheck.reference(narrow_model(0.5), executor=executor, **options)
    assert np.array_equal(found.z, alone.z)
    with pytest.raises(TypeError, match="executor must be an Executor"):
        vicheck.reference(narrow_model(0.5), executor="two", **options)
