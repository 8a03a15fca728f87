"""Tails that are not Pareto, against densities whose log evidence is 0."""

import numpy as np
import pytest
from scipy import stats

import vicheck
from vicheck.results.psis import PsisResult
from vicheck.stats.psis import psis_quietly
from vicheck.stats.tail_lengths import judged_psis, tail_fits

# p, and the mean and sd of the Gaussian q with the smallest KL(q, p), by quadrature.
BEST = {
    "t10": (stats.t(10), 0.0, 1.0898),
    "logistic": (stats.logistic, 0.0, 1.7488),
    "loggamma20": (stats.loggamma(20), 2.9707, 0.2236),
    "skewnorm2": (stats.skewnorm(2), 0.7092, 0.6715),
}


def best_gaussian(name, size, seed):
    p, mean, sd = BEST[name]
    z = np.random.default_rng(seed).normal(size=size)
    return p.logpdf(mean + sd * z) - stats.norm.logpdf(z) + np.log(sd)


def narrow(k, size, seed):
    """Ratios of p = N(0, 1) and q = N(0, 1 - k), whose tail has shape k."""
    z = np.random.default_rng(seed).normal(size=size)
    return 0.5 * k * z**2 + 0.5 * np.log1p(-k)


@pytest.mark.parametrize("size", [1000, 4000, 10_000])
@pytest.mark.parametrize("name", BEST)
def test_ratios_that_pile_up_below_a_maximum_are_seldom_called_unreliable(name, size):
    """The usual khat calls nearly all of these unreliable; 15 of 100 are allowed here."""
    results = [judged_psis(best_gaussian(name, size, seed)) for seed in range(20)]
    alone = sum(vicheck.judge_psis(psis_quietly(best_gaussian(name, size, seed))).level
                == "unreliable" for seed in range(20))  # fmt: skip
    levels = [vicheck.judge_psis(result).level for result in results]
    assert alone >= 12
    assert levels.count("unreliable") <= 3


def improper(sd, size, seed):
    """Ratios of a density that has no mass to speak of, bounded by a peak that few draws reach."""
    z = np.random.default_rng(seed).normal(size=size)
    return 0.5 * (z**2 - np.log1p((sd * z) ** 2))


HEAVY = {
    "too narrow, k = 0.95": lambda size, seed: narrow(0.95, size, seed),
    "Pareto, k = 1.2": lambda size, seed: 1.2 * np.random.default_rng(seed).exponential(size=size),
    "Pareto, k = 3": lambda size, seed: 3.0 * np.random.default_rng(seed).exponential(size=size),
    "a mode 6 sds away": lambda size, seed: np.logaddexp(
        np.log(0.7), np.log(0.3) + 6.0 * np.random.default_rng(seed).normal(size=size) - 18.0
    ),
    "tails of 1/x": lambda size, seed: improper(2000.0, size, seed),
    "log-normal, 50 nats": lambda size, seed: 50.0 * np.random.default_rng(seed).normal(size=size),
}


@pytest.mark.parametrize("size", [1000, 10_000])
@pytest.mark.parametrize("name", HEAVY)
def test_heavy_tails_are_judged_by_khat_alone(name, size):
    """One false alarm in 40 is allowed; about one in a thousand is expected."""
    found = 0
    for seed in range(40):
        log_ratios = HEAVY[name](size, seed)
        alone = psis_quietly(log_ratios)
        judged = judged_psis(log_ratios, alone)
        found += judged.tail_fits is not None
        if judged.tail_fits is None:
            assert judged is alone
    assert found <= 1


@pytest.mark.parametrize("size", [1000, 3000, 10_000])
def test_a_wider_q_is_usable_whatever_the_number_of_draws(size):
    """p = N(0, 0.8^2) and q = N(0, 1): the ratio has its maximum in the middle of q."""
    for seed in range(10):
        z = np.random.default_rng(seed).normal(size=size)
        log_ratios = stats.norm(0, 0.8).logpdf(z) - stats.norm.logpdf(z)
        check = vicheck.check_draws(z[:, None], log_ratios, np.zeros(size))
        assert check.verdict.decided_by == "plain-off"  # usable: only its sd is too large


def test_khat_is_that_of_psis_and_the_weights_are_the_ratios():
    log_ratios = best_gaussian("t10", 10_000, seed=1)
    alone, judged = vicheck.psis(log_ratios), judged_psis(log_ratios)
    assert alone.tail_fits is None
    assert judged.khat == alone.khat > 1.0
    expected = log_ratios - np.logaddexp.reduce(log_ratios)
    np.testing.assert_allclose(judged.log_weights, expected, rtol=0, atol=1e-12)
    assert judged.log_normalizer == pytest.approx(np.logaddexp.reduce(log_ratios), abs=1e-12)
    assert judged.ess == pytest.approx(1 / np.exp(2 * expected).sum())
    fits = judged.tail_fits
    assert fits.khats[alone.tail_length] == pytest.approx(alone.khat, abs=1e-10)
    assert judged.weights_khat == fits.khat == fits.khats[fits.tail_length]
    assert fits.low < fits.khat < fits.high
    assert fits.largest == pytest.approx(np.exp(expected.max()) * 10_000)


def test_each_length_has_the_khat_that_psis_gives_it():
    log_ratios = best_gaussian("logistic", 4000, seed=2)
    fits = judged_psis(log_ratios).tail_fits
    assert len(fits.khats) >= 5
    for length, khat in fits.khats.items():
        assert khat == pytest.approx(vicheck.psis_khat(log_ratios, tail_length=length), abs=1e-9)


def test_plain_ratios_are_closer_to_the_evidence_than_smoothed_ones():
    """Exactly 0; smoothing a tail that is none misses it by several of its errors."""
    plain, smoothed = [], []
    for seed in range(20):
        log_ratios = best_gaussian("t10", 10_000, seed)
        judged = judged_psis(log_ratios)
        if judged.tail_fits is not None:
            plain.append(judged.log_normalizer - np.log(10_000))
            smoothed.append(psis_quietly(log_ratios).log_normalizer - np.log(10_000))
    assert len(plain) > 15
    assert np.mean(np.square(smoothed)) > 10 * np.mean(np.square(plain))


def test_it_does_not_matter_what_the_ratios_are_a_multiple_of():
    log_ratios = best_gaussian("t10", 4000, seed=3)
    one, other = (judged_psis(log_ratios + shift).tail_fits for shift in (0.0, -1e4))
    np.testing.assert_allclose(list(one.khats.values()), list(other.khats.values()), atol=1e-6)
    assert one.largest == pytest.approx(other.largest)


def test_few_draws_have_no_tails_to_compare():
    log_ratios = 3.0 * np.random.default_rng(1).exponential(size=150)
    result = psis_quietly(log_ratios)
    assert result.tail_length < 40
    assert tail_fits(log_ratios, result) is None


def test_ties_leave_the_lengths_that_can_be_fitted():
    log_ratios = np.round(best_gaussian("t10", 4000, seed=1), 2)
    assert judged_psis(log_ratios).num_draws == 4000  # no warning and no error


def test_it_is_kept_with_the_result():
    judged = judged_psis(best_gaussian("t10", 4000, seed=5))
    back = PsisResult.from_dict(judged.to_dict())
    assert back.tail_fits.khats == judged.tail_fits.khats
    assert back.weights_khat == judged.weights_khat
