"""Draws that are not what they seem, and draws that are."""

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

import vicheck
from vicheck.judging.draws import evidence_of_draws
from vicheck.stats.screening import _least_different, screen_draws

ALARMS = {"tied-draws", "clipped-ratios", "dependent-draws", "coarse-ratios", "ratios-too-coarse"}


def drawn(size=4000, seed=1, sd=0.8):
    """Draws of q = N(0, sd^2) with both densities, for p = N(0, 1)."""
    z = sd * np.random.default_rng(seed).normal(size=size)
    return z[:, None], stats.norm.logpdf(z), stats.norm(0.0, sd).logpdf(z)


def codes(*what, **options):
    return {each.code for each in vicheck.check_draws(*what, **options).findings}


def test_independent_draws_raise_no_alarm():
    """300 cases of all kinds, none of them an alarm: fewer than 1% are."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        size = int(rng.choice([300, 1000, 3000]))
        for what in (
            drawn(size, seed, rng.uniform(0.6, 1.4)),
            (rng.standard_cauchy(size=(size, 3)), rng.exponential(size=size), np.zeros(size)),
            (rng.uniform(size=(size, 1)) < 0.3, rng.normal(size=size), rng.normal(size=size)),
        ):
            values, log_p, log_q = what
            assert not evidence_of_draws(screen_draws(log_p, log_q, values.astype(float)))


@pytest.mark.parametrize("size", [1, 7, 1000, 65_535, 65_536])
def test_different_numbers_are_counted_without_sorting(size):
    """Never more than there are, and so many of all that only tied numbers are ever sorted."""
    numbers = np.random.default_rng(size).normal(size=size)
    assert 0.93 * size <= _least_different(numbers) <= size
    numbers[: size // 5] = numbers[-1]
    numbers[size // 5 : size // 3] = 0.0
    numbers[size // 5 : size // 4] *= -1.0
    assert _least_different(numbers) <= np.unique(numbers).size


@pytest.mark.parametrize("repeat", [np.tile, np.repeat])
def test_a_thousand_draws_ten_times_each_are_copies(repeat):
    z, log_p, log_q = drawn(1000, sd=1.1)
    order = repeat(np.arange(1000), 10)
    check = vicheck.check_draws(z[order], log_p[order], log_q[order])
    assert check.screening.num_copies == 9000
    assert check.verdict.level == "none"
    assert check.verdict.decided_by == "tied-draws"
    assert "9000 of the 10000 draws are copies" in str(check.verdict)


def test_resampled_draws_are_copies():
    z, log_p, log_q = drawn(2000)
    order = np.random.default_rng(2).choice(2000, size=2000)
    assert "tied-draws" in codes(z[order], log_p[order], log_q[order])


def test_copies_in_the_tail_alone_are_seen():
    z, log_p, log_q = drawn(4000)
    largest = np.argsort(log_p - log_q)[-150:]
    order = np.arange(4000)
    order[largest[:100]] = largest[-1]
    check = vicheck.check_draws(z[order], log_p[order], log_q[order])
    assert check.screening.num_copies <= 0.1 * 4000
    (finding,) = [each for each in check.findings if each.code == "tied-draws"]
    assert "with the largest ratios" in finding.sentence


def test_draws_of_a_discrete_q_are_no_copies():
    for rate in (0.5, 3.0, 40.0):
        n = np.random.default_rng(1).poisson(rate, size=3000)
        log_p, log_q = stats.poisson(1.1 * rate).logpmf(n), stats.poisson(rate).logpmf(n)
        assert not codes(n[:, None], log_p, log_q) & ALARMS


def test_equal_densities_at_different_draws_are_no_copies():
    z = np.random.default_rng(1).uniform(size=(3000, 1))
    step = np.where(z[:, 0] < 0.3, 0.2, -0.1)
    assert not codes(z, step, np.zeros(3000)) & ALARMS


@pytest.mark.parametrize("constant", [0.0, -7.3])
def test_an_exact_q_is_good_whatever_is_looked_at(constant):
    z, log_p, _ = drawn(3000, sd=1.0)
    for values in (z, z > 0.0, np.ones((3000, 1))):
        check = vicheck.check_draws(values, log_p + constant, log_p)
        assert check.verdict.level == "good"
    flat = np.zeros(3000)
    assert vicheck.check_draws(z > 0.0, flat, flat).verdict.level == "good"


@pytest.mark.parametrize("share", [0.99, 0.995])
def test_clipped_ratios_are_no_good(share):
    z, log_p, log_q = drawn(4000, sd=0.5)  # k = 0.75
    ratios = log_p - log_q
    assert vicheck.check_draws(z, log_p, log_q).verdict.level == "unreliable"
    limit = np.quantile(ratios, share)
    for clipped in (np.minimum(ratios, limit), np.where(ratios > limit, limit, ratios)):
        check = vicheck.check_draws(z, clipped, np.zeros(4000))
        assert check.khat < 0.5
        assert check.verdict.level == "none"
        assert check.verdict.decided_by == "clipped-ratios"
        assert check.screening.num_clipped == pytest.approx(4000 * (1 - share), abs=2)


@pytest.mark.parametrize("share", [0.95, 0.985, 0.99])
@pytest.mark.parametrize("offset", [0.0, -3e4])
def test_ratios_that_were_clipped_before_a_density_was_added_are_no_good(share, offset):
    """Then log_p - log_q is the limit up to rounding only."""
    z, log_p, log_q = drawn(4000, sd=0.5)
    ratios = log_p - log_q
    clipped = np.minimum(ratios, np.quantile(ratios, share)) + (log_q + offset)
    assert np.unique(clipped - (log_q + offset)).size > 0.97 * 4000 * share
    check = vicheck.check_draws(z, clipped, log_q + offset)
    assert check.verdict.level == "none"
    assert check.screening.num_clipped == pytest.approx(4000 * (1 - share), abs=2)


@pytest.mark.parametrize("power", [2, 4, 8])
def test_a_largest_ratio_that_is_flat_is_not_clipped(power):
    z, _, log_q = drawn(100_000)
    for steepness in (0.1, 1.0):
        log_p = log_q - steepness * z[:, 0] ** power
        assert screen_draws(log_p, log_q, z).num_clipped == 0


def test_a_likelihood_that_saturates_is_not_clipped():
    """As for a value known to be below a limit: p / q rises to its bound in a tenth of q."""
    z, _, log_q = drawn(100_000)
    log_p = log_q + stats.norm.logcdf(8.0 * (z[:, 0] - 0.4))
    seen = screen_draws(log_p, log_q, z)
    assert seen.num_clipped == 0


def test_a_few_equal_largest_ratios_are_not_clipped():
    z, log_p, log_q = drawn(4000)
    ratios = log_p - log_q
    ratios[np.argsort(ratios)[-4:]] = ratios.max()
    assert screen_draws(ratios, np.zeros(4000), z).num_clipped == 0


@pytest.mark.parametrize("rho", [0.9, 0.999])
def test_autocorrelated_draws_are_no_good(rho):
    for seed in range(5):
        noise = np.random.default_rng(seed).normal(size=20_000)
        z = 0.8 * lfilter([np.sqrt(1.0 - rho**2)], [1.0, -rho], noise)[10_000:]
        check = vicheck.check_draws(z[:, None], stats.norm.logpdf(z), stats.norm(0, 0.8).logpdf(z))
        assert "dependent-draws" in {each.code for each in check.findings}
        assert check.verdict.level in ("none", "unreliable")


def test_single_precision_near_a_hundred_million_is_too_coarse():
    z, log_p, log_q = drawn()
    check = vicheck.check_draws(z, (log_p - 1e8).astype(np.float32), log_q)
    assert check.screening.resolution == 8.0
    assert {"coarse-ratios", "ratios-too-coarse"} <= {each.code for each in check.findings}
    assert check.verdict.level in ("none", "unreliable")


def test_steps_that_are_small_are_a_caution():
    z, log_p, log_q = drawn()
    check = vicheck.check_draws(z, (log_p - 1e6).astype(np.float32), log_q)
    assert check.screening.resolution == 0.0625
    assert check.verdict.level == "usable"
    (finding,) = [each for each in check.findings if each.code == "coarse-ratios"]
    assert finding.severity == "caution"
    assert "steps of 0.062" in finding.sentence


@pytest.mark.parametrize("offset", [0.0, -1e4, -1e8, -1e13])
def test_double_precision_is_fine_at_any_offset(offset):
    z, log_p, log_q = drawn()
    assert not codes(z, log_p + offset, log_q) & ALARMS
    small = codes(z, (log_p - 100.0).astype(np.float32), log_q.astype(np.float32))
    assert not small & ALARMS


def test_a_saved_check_says_the_same(tmp_path):
    z, log_p, log_q = drawn()
    check = vicheck.check_draws(z, (log_p - 1e8).astype(np.float32), log_q)
    check.save(tmp_path / "check.npz")
    back = vicheck.check(tmp_path / "check.npz")
    assert back.verdict.to_dict() == check.verdict.to_dict()


@pytest.mark.parametrize("size", [1, 2, 21, 500])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_odd_densities_and_few_draws_are_looked_at_without_an_error(size, odd):
    z = np.random.default_rng(1).normal(size=(size, 2))
    log_p = -(z**2).sum(axis=1)
    log_p[0] = odd
    for values in (z, np.empty((0, 2))):
        seen = screen_draws(log_p, 0.5 * log_p, values)
        assert (seen.num_draws, seen.num_copies, seen.num_clipped) == (size, 0, 0)
    log_p[:] = odd
    assert screen_draws(log_p, np.zeros(size), z).num_clipped == 0


def test_digits_do_not_matter_where_there_is_no_weight():
    """A q with heavy tails on a log scale reaches places where the density is -1e15 or so."""
    z = np.random.default_rng(5).normal(size=5000)
    log_p, log_q = -0.5 * z**2, -0.4 * z**2
    log_p[7] = -1.23456789e15
    assert screen_draws(log_p, log_q, z[:, None]).resolution < 1e-12
