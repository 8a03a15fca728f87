"""Drift of quantities along chains: right sizes, right errors, few false alarms."""

import numpy as np
import pytest
from scipy import stats

from vicheck.stats import drift as drift_module
from vicheck.stats.drift import (
    Known,
    Watched,
    adjusted_beyond,
    correlations,
    drift_between,
    heights_along,
    nested_rhat,
    settling,
)
from vicheck.stats.stretches import Stretch

TAILS = {
    "normal": stats.norm(),
    "t(3)": stats.t(3),
    "Cauchy": stats.cauchy(),
    "log-normal": stats.lognorm(1.0),
    "indicator": stats.bernoulli(0.02),
}


def chains(rng, marginal, count, width, memory, steps=6, shift=0.0, growth=0.0):
    """Return chains that stay where they are, or go to an independent draw, in each step."""

    def draws():
        return marginal.rvs(size=(count, width), random_state=rng).astype(float)

    now, late = draws(), []
    starts = now
    for _ in range(steps):
        now = np.where(rng.random((count, width)) < memory, now, draws())
        late.append(now * np.exp(growth) + shift)
    return watched_of(starts, np.array(late))


def watched_of(starts, late):
    """Return what is watched of chains with these last steps."""
    with np.errstate(invalid="ignore"):
        spreads = np.square(late - late.mean(axis=(0, 1))).mean(axis=0)
    return Watched(starts, late[-1], late.mean(axis=0), spreads)


def known(mean, error=0.0, variance=1.0, variance_error=0.0):
    """Return what is known of the draws that starts come from: as much of each quantity."""
    mean = np.asarray(mean, float)
    return Known(mean, *(np.full(mean.shape, each) for each in (error, variance, variance_error)))


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_sizes_and_errors_are_those_of_many_repetitions(memory):
    """Columns are independent repetitions: their spread is what errors should say."""
    rng = np.random.default_rng(1)
    watched = chains(rng, stats.norm(), 512, 400, memory, shift=0.3, growth=np.log(1.5))
    found = drift_between(watched, known(np.zeros(400)))
    assert found.shift.mean() == pytest.approx(0.3 / 1.5, abs=0.01)
    assert found.growth.mean() == pytest.approx(np.log(1.5), abs=0.01)
    for size, error in ((found.shift, found.shift_error), (found.growth, found.growth_error)):
        assert error.mean() == pytest.approx(size.std(), rel=0.15)


def test_the_mean_of_the_draws_that_starts_come_from_counts_as_it_is_known():
    """If that mean has an error, the drift has it too."""
    rng = np.random.default_rng(2)
    watched = chains(rng, stats.norm(), 512, 400, 0.0)
    guessed = rng.normal(scale=0.1, size=400)
    found = drift_between(watched, known(guessed, 0.1))
    assert found.shift_error.mean() == pytest.approx(found.shift.std(), rel=0.15)
    assert (found.shift_p > 0.01).all()
    surer = drift_between(watched, known(guessed))
    assert (surer.shift_p < 0.01).any()


@pytest.mark.parametrize("count", [256, 1024])
@pytest.mark.parametrize("name", TAILS)
def test_nothing_is_found_where_nothing_has_moved(name, count):
    """In 200 checks of 5 quantities each, at most 2% of them beyond a tolerance of 0.1.

    Each has a nominal probability below 1%; with 2% that happens once in some hundred runs of all
    of these tests.
    """
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(200):
        watched = chains(rng, TAILS[name], count, 5, 0.5)
        pool = TAILS[name].rvs(size=(5000, 5), random_state=rng)
        squares = np.square(pool - pool.mean(axis=0))
        moments = pool.mean(axis=0), stats.sem(pool), squares.mean(axis=0), stats.sem(squares)
        found = drift_between(watched, Known(*moments))
        both = np.concatenate([found.shift, found.growth])
        errors = np.concatenate([found.shift_error, found.growth_error])
        beyond = adjusted_beyond(both, errors, 0.1, count)
        at_all = np.concatenate([found.shift_p, found.growth_p])
        alarms += bool(((beyond < 0.01) & (at_all < 0.01)).any())
    assert alarms <= 4


def test_a_drift_beyond_the_tolerance_is_found():
    rng = np.random.default_rng(4)
    watched = chains(rng, stats.norm(), 1024, 2, 0.3, shift=np.array([0.0, 0.2]))
    found = drift_between(watched, known(np.zeros(2), 0.003))
    p_values = adjusted_beyond(found.shift, found.shift_error, 0.1, 1024)
    assert p_values[0] == 1.0
    assert p_values[1] < 0.01
    assert found.shift[1] == pytest.approx(0.2, abs=4 * found.shift_error[1])


def test_more_starts_from_the_same_draws_are_no_more_certain():
    rng = np.random.default_rng(5)
    watched = chains(rng, stats.norm(), 256, 3, 0.5)
    standard = known(np.zeros(3))
    once, inflated = drift_between(watched, standard), drift_between(watched, standard, 2.0)
    np.testing.assert_allclose(inflated.shift_error, 2 * once.shift_error)
    np.testing.assert_allclose(inflated.growth_error, 2 * once.growth_error)
    assert np.array_equal(inflated.shift, once.shift)


def test_constants_have_not_moved_and_nothing_is_known_of_what_is_not_finite():
    rng = np.random.default_rng(6)
    starts, ends = rng.normal(size=(2, 100, 4))
    starts[:, 1] = ends[:, 1] = 3.0
    starts[5, 2] = np.nan
    ends[7, 3] = np.inf
    found = drift_between(watched_of(starts, ends[None]), known([0, 3.0, 0, 0]))
    for each in found.to_dict().values():
        assert np.isfinite(each[0])
        assert np.isnan(each[2]), each
        assert np.isnan(each[3])
    assert (found.shift[1], found.growth[1], found.shift_p[1], found.growth_p[1]) == (0, 0, 1, 1)
    none = drift_between(watched_of(starts[:1], ends[None, :1]), known(np.zeros(4)))
    assert all(np.isnan(each).all() for each in none.to_dict().values())


def test_what_ends_at_one_value_has_moved():
    starts = np.repeat([0.0, 1.0], 50)[:, None]
    ends = np.ones((100, 1))
    found = drift_between(watched_of(starts, ends[None]), known([0.5], variance=0.25))
    assert found.shift[0] == pytest.approx(1.0)  # in sds of the starts: the ends have none


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_nested_rhat_is_that_of_the_part_of_the_variance_that_is_remembered(correlation):
    rng = np.random.default_rng(7)
    starts, noise = rng.normal(size=(2, 2048, 50))
    ends = correlation * starts + np.sqrt(1 - correlation**2) * noise
    found = nested_rhat(starts, ends)
    assert found.mean() == pytest.approx(1 / np.sqrt(1 - correlation**2), rel=0.05)
    assert (found >= 1.0).all()


def test_nested_rhat_without_chains_and_without_movement():
    rng = np.random.default_rng(8)
    starts = rng.normal(size=(64, 2))
    assert np.isnan(nested_rhat(starts[:20], starts[:20])).all()
    still = nested_rhat(starts, starts)
    assert (still > 3.0).all()
    starts[:, 1] = 2.0
    assert nested_rhat(starts, starts)[1] == 1.0


def test_blocks_of_quantities_change_nothing(monkeypatch):
    rng = np.random.default_rng(9)
    watched = chains(rng, stats.norm(), 128, 7, 0.5)
    standard = known(np.zeros(7), 0.01)
    whole, remembered = drift_between(watched, standard), nested_rhat(watched.starts, watched.ends)
    monkeypatch.setattr(drift_module, "_BLOCK", 3 * 128)
    parts = drift_between(watched, standard)
    for one, other in zip(whole.to_dict().values(), parts.to_dict().values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(nested_rhat(watched.starts, watched.ends), remembered, rtol=1e-12)


def test_growth_is_known_better_by_all_late_steps_than_by_the_last():
    """Against all draws of q, the error is that of the late steps alone: 1 / sqrt(2 n steps)."""
    rng = np.random.default_rng(10)
    found = drift_between(chains(rng, stats.norm(), 512, 400, 0.0), known(np.zeros(400)))
    assert found.growth.std() == pytest.approx(1 / np.sqrt(2 * 512 * 6), rel=0.15)
    assert found.growth_error.mean() == pytest.approx(found.growth.std(), rel=0.15)
    guessed = np.exp(0.1 * rng.normal(size=400))
    unsure = known(np.zeros(400), variance=guessed**2, variance_error=0.2)
    found = drift_between(chains(rng, stats.norm(), 512, 400, 0.0), unsure)
    assert found.growth_error.mean() == pytest.approx(found.growth.std(), rel=0.15)


def test_chains_settle_where_nothing_moves_from_their_middle_on():
    rng = np.random.default_rng(11)
    middle, late = rng.normal(size=(2, 6, 512, 400))

    def between(late):
        one, other = (watched_of(each[0], each) for each in (middle, late))
        return settling(*(Stretch(each.averages, each.spreads) for each in (one, other)))

    still, moving = between(late), between(1.5 * late + 0.3)
    for found, shift, growth in ((still, 0.0, 0.0), (moving, 0.2, np.log(1.5))):
        assert found.shift.mean() == pytest.approx(shift, abs=0.01)
        assert found.growth.mean() == pytest.approx(growth, abs=0.01)
        for size, error in ((found.shift, found.shift_error), (found.growth, found.growth_error)):
            assert error.mean() == pytest.approx(size.std(), rel=0.15)
    assert (still.shift_p > 0.01).all()
    assert (moving.shift_p < 0.01).all()
    assert (moving.growth_p < 0.01).all()
    constant = Stretch(np.full((512, 1), 3.0), np.zeros((512, 1)))
    for each in settling(constant, constant).to_dict().values():
        assert each[0] in (0.0, 1.0)
    alone = settling(*(Stretch(array[:1], array[:1]) for array in (middle[0], late[0])))
    assert all(np.isnan(each).all() for each in alone.to_dict().values())


def test_correlations_are_those_of_chains_however_wide_they_began():
    rng = np.random.default_rng(21)
    middle, fresh = rng.normal(size=(2, 4000, 3))
    kept = np.array([0.0, 0.5, 0.95])
    late = 7.0 + 3.0 * (kept * middle + np.sqrt(1.0 - kept**2) * fresh)
    np.testing.assert_allclose(correlations(middle, late), kept, atol=0.06)
    constant = np.full((4000, 1), 3.0)
    assert correlations(constant, constant) == [0.0]
    assert np.isnan(correlations(middle[:1], late[:1])).all()
    late[0, 1] = np.nan
    assert np.isnan(correlations(middle, late)).tolist() == [False, True, False]


@pytest.mark.parametrize("dim", [1, 40])
def test_heights_of_a_normal_posterior_vary_by_half_a_nat_squared_for_each_parameter(dim):
    middle, end = -0.5 * np.random.default_rng(22).chisquare(dim, (2, 20_000))
    found = heights_along(middle, end, dim)
    assert abs(found.memory) < 0.04
    assert abs(found.shift) < 4 * found.shift_error < 0.05
    # By quantiles it is that of a normal with these: for one parameter somewhat less.
    assert found.variance == pytest.approx(0.5 if dim > 1 else 0.28, rel=0.15)
    stuck = heights_along(middle - 1e3 * (np.arange(20_000) % 2), end - 1e3, dim)
    assert stuck.shift < -5.0
    apart = 1e3 * (np.arange(20_000) % 2)
    stuck = heights_along(middle - apart, end - apart, dim)
    assert stuck.memory > 0.99
    assert stuck.variance > 1e3


def test_heights_of_no_chains_are_not_known():
    none = heights_along(np.empty(0), np.empty(0), 3)
    assert all(np.isnan(each) for each in none.to_dict().values())
    still = heights_along(np.zeros(50), np.zeros(50), 3)
    assert (still.memory, still.shift, still.variance) == (0.0, 0.0, 0.0)
