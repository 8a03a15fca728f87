"""Errors that allow for what no draw has seen: against Pareto tails and exact evidences."""

import numpy as np
import pytest
from scipy import stats

import vicheck
from tests.stats.test_tail_lengths import best_gaussian
from vicheck.stats.unseen import error_with_tail, unseen_multiple


@pytest.mark.parametrize("k", [0.2, 0.5, 0.7])
def test_terms_beyond_the_quantile_are_worth_the_multiple_of_it(k):
    """Exact for a Pareto: the mean beyond its 1 - 1/S quantile Q is Q / (S (1 - k))."""
    size = 1000
    quantile = stats.pareto(1 / k).ppf(1 - 1 / size)
    beyond = stats.pareto(1 / k).expect(lambda x: x, lb=quantile, ub=np.inf)
    assert beyond == pytest.approx(quantile / (size * (1 - k)), rel=1e-3)
    assert beyond < unseen_multiple(k, 300) * quantile / size


def test_the_multiple_rises_with_khat_and_with_its_error():
    k = np.linspace(-2.0, 2.0, 50)
    multiple = unseen_multiple(k, 300)
    assert (np.diff(multiple) >= 0.0).all()
    assert multiple[0] == 1.0
    assert multiple[-1] == pytest.approx(10.0)
    assert unseen_multiple(0.3, 50) > unseen_multiple(0.3, 5000)
    assert np.isnan(unseen_multiple(np.nan, 300))


def test_two_equal_tails_hide_nothing():
    assert error_with_tail(0.1, 0.0, 0.6, 300) == 0.1
    assert error_with_tail(0.1, -0.05, 0.6, 300) == error_with_tail(0.1, 0.05, 0.6, 300) > 0.1


def right_family(size, seed):
    z = np.random.default_rng(seed).normal(size=size)
    x = 0.02 + 1.01 * z
    return x, stats.norm.logpdf(x) - stats.norm.logpdf(z) + np.log(1.01)


def shifted(size, seed):
    x = 1.0 + np.random.default_rng(seed).normal(size=size)
    return x, 0.5 - x


def correlated(size, seed):
    """Correlation 0.6, and the best q without one."""
    x, y = 0.8 * np.random.default_rng(seed).normal(size=(2, size))
    return x, 0.6 * x * y / 0.64 + np.log(0.8)


def t10(size, seed):
    p = best_gaussian("t10", size, seed)
    return 1.0898 * np.random.default_rng(seed).normal(size=size), p


def t5(size, seed):
    z = np.random.default_rng(seed).normal(size=size)
    return 1.1674 * z, stats.t(5).logpdf(1.1674 * z) - stats.norm.logpdf(z) + np.log(1.1674)


def log_gamma(size, seed):
    """Of shape 5, less its mean."""
    z = np.random.default_rng(seed).normal(size=size)
    mean, sd = np.log(5) - 0.1, np.sqrt(0.2)  # those of the q with the smallest KL(q, p)
    x = mean + sd * z
    ratios = stats.loggamma(5).logpdf(x) - stats.norm.logpdf(z) + np.log(sd)
    return x - stats.loggamma(5).mean(), ratios


COVERED = {
    "right family": right_family,
    "shift of one sd": shifted,
    "correlation 0.6": correlated,
    "t10": t10,
    "t5": t5,
    "log gamma": log_gamma,
}


@pytest.mark.parametrize(("size", "repetitions"), [(1000, 120), (10_000, 40)])
@pytest.mark.parametrize("name", COVERED)
def test_intervals_cover_the_truth(name, size, repetitions):
    """Log evidence and mean are 0. At least 90% is promised; with so few repetitions 85% will do.

    The error by the delta method alone covers about 80% of the evidences with a correlation of
    0.6, and 60% of those of t5 with 10,000 draws.
    """
    evidences, means = [], []
    for seed in range(repetitions):
        x, log_ratios = COVERED[name](size, seed)
        check = vicheck.check_draws(x[:, None], log_ratios, np.zeros(size))
        if not check.log_evidence.reason:
            evidences.append(abs(check.log_evidence.value) < 1.96 * check.log_evidence.mcse)
        row = check.moments.iloc[0]
        if row["use_mean"] == "psis" or row["khat"] < check.psis.threshold:
            means.append(abs(row["psis_mean"]) < 1.96 * row["mcse"])
    assert len(evidences) > 0.1 * repetitions
    assert np.mean(evidences) > 0.85
    assert len(means) > 0.1 * repetitions
    assert np.mean(means) > 0.85


def test_the_allowance_is_small_where_there_is_nothing_to_allow_for():
    """With a bounded ratio the error is that of the delta method, up to a few percent."""
    z = np.random.default_rng(1).normal(size=10_000)
    log_ratios = stats.norm(0.0, 0.8).logpdf(z) - stats.norm.logpdf(z)
    u = np.exp(log_ratios)
    evidence = vicheck.divergences(log_ratios).log_evidence
    assert evidence.mcse == pytest.approx(u.std() / u.mean() / 100.0, rel=0.03)
    assert evidence.caution == ""


def test_a_khat_from_one_half_on_is_said_beside_the_error():
    z = np.random.default_rng(1).normal(size=100_000)
    log_ratios = 0.3 * z**2 + 0.5 * np.log(0.4)  # k = 0.6, and no variance
    evidence = vicheck.divergences(log_ratios).log_evidence
    assert evidence.caution.startswith("with khat 0.6")
    assert str(evidence).endswith("the ratios may have no variance)")
    assert abs(evidence.value) < 1.96 * evidence.mcse


def test_a_mean_that_may_not_exist_has_no_error():
    z = np.random.default_rng(1).normal(size=4000)
    check = vicheck.check_draws(z[:, None] ** 3, 1.5 * np.abs(z) ** 2, np.zeros(4000))
    row = check.moments.iloc[0]
    assert row["khat"] > 1.0
    assert row["mcse"] == np.inf
    assert row["use"] == "neither"


def test_a_tied_quantity_goes_by_the_khat_of_the_ratios():
    z = np.random.default_rng(1).normal(size=4000)
    check = vicheck.check_draws((z[:, None] > 0.0) * 1.0, 0.2 * z**2, np.zeros(4000))
    row = check.moments.iloc[0]
    assert np.isfinite(row["mcse"])
    assert abs(row["psis_mean"] - 0.5) < 3 * row["mcse"]
