"""How often the verdict of a calibration is right, where the truth is known.

Calibration probabilities are simulated directly, for a posterior N(0, 1) in every dataset unless
said otherwise. Runs have fixed seeds; bounds on shares are four standard errors away from what a
simulation of thousands of runs gives (`benchmarks/vsbc_verdicts.py`).
"""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2, gamma, norm

from tests.calibration.made import calibration
from tests.calibration.problems import independent_model, pair_model, pair_posterior
from vicheck import quantities
from vicheck.calibration import tables
from vicheck.calibration.run import vsbc
from vicheck.calibration.summaries import summarise_khat
from vicheck.judging import judge_calibration
from vicheck.judging.wording import LIKELIHOOD
from vicheck.results.calibration import Calibration
from vicheck.results.status import FitStatus
from vicheck.results.summaries import Average


def verdict_of(p, names=None, **known):
    p = p.reshape(len(p), -1)
    names = names or [f"x[{i}]" for i in range(p.shape[1])]
    converged = {FitStatus.CONVERGED: len(p)}
    return judge_calibration(tables.tests_table(p, names), converged, len(p), **known)


def exact(rng, shape):
    return rng.random(shape)


def narrow(factor):
    return lambda rng, shape: norm.cdf(factor * rng.normal(size=shape))


def shifted(shift):
    return lambda rng, shape: norm.cdf(rng.normal(size=shape) - shift)


def sometimes_narrow(rng, shape):
    """50 times too narrow in a tenth of the datasets."""
    factor = np.where(rng.random(shape[0]) < 0.1, 50.0, 1.0)
    return norm.cdf(factor[:, None] * rng.normal(size=shape))


def sometimes_lost(rng, shape):
    """15% of the fits miss completely, and the rest are a little wide."""
    lost = rng.random(shape[0]) < 0.15
    side = rng.integers(2, size=shape).astype(float)
    return np.where(lost[:, None], side, norm.cdf(rng.normal(size=shape) / 1.15))


def skewed(shape_of_gamma):
    """A normal q that has mean and sd of a gamma posterior."""

    def draw(rng, shape):
        theta = rng.gamma(shape_of_gamma, size=shape)
        return norm.cdf(theta, shape_of_gamma, np.sqrt(shape_of_gamma))

    return draw


def levels(draw, num_datasets, num_quantities, runs, seed=1):
    """Count the levels; where several quantities are looked at, the others are right."""
    counts = Counter()
    for run in range(runs):
        rng = np.random.default_rng([seed, run, num_datasets, num_quantities])
        p = rng.random((num_datasets, num_quantities))
        p[:, :1] = draw(rng, (num_datasets, 1))
        counts[verdict_of(p).level] += 1
    return counts


NOT_GOOD = {
    "50 times too narrow in a tenth": sometimes_narrow,
    "15% miss completely": sometimes_lost,
    "1.2 times too narrow": narrow(1.2),
    "1.25 times too wide": narrow(1 / 1.25),
}


@pytest.mark.parametrize("num_quantities", [1, 5])
@pytest.mark.parametrize("name", NOT_GOOD)
def test_what_is_not_calibrated_is_not_good(name, num_quantities):
    """With 1000 datasets: 40 runs, of which a truth of 1% false "good" gives 5 with 1e-4."""
    counts = levels(NOT_GOOD[name], 1000, num_quantities, 40)
    assert counts["good"] <= 4
    assert counts["unreliable"] <= 4  # no bias is there to be found
    assert counts["usable"] >= 32


@pytest.mark.parametrize(
    ("num_datasets", "num_quantities", "runs"),
    [(100, 1, 100), (100, 5, 60), (1000, 1, 60), (1000, 5, 30), (10_000, 3, 6)],
)
def test_exact_calibration_is_good(num_datasets, num_quantities, runs):
    """At most 7% alarms, and four standard errors."""
    counts = levels(exact, num_datasets, num_quantities, runs)
    assert counts["good"] >= runs * 0.93 - 4 * np.sqrt(runs * 0.07)


@pytest.mark.parametrize("draw", [shifted(0.05), narrow(1.04), narrow(1 / 1.04), skewed(100.0)])
def test_what_makes_no_difference_stays_good_with_very_many_datasets(draw):
    counts = levels(draw, 20_000, 1, 10)
    assert counts["good"] >= 9


def test_a_quantity_that_is_not_calibrated_is_said_to_be_so():
    p = sometimes_narrow(np.random.default_rng(1), (1000, 1))
    verdict = verdict_of(np.hstack([np.random.default_rng(2).random((1000, 2)), p]))
    assert verdict.decided_by == "not-covering"
    assert "usable for point estimates, but not calibrated" in str(verdict)
    assert "its intervals of 50%, 90% and 99% for x[2] hold the truth in" in str(verdict)
    (finding,) = [each for each in verdict.findings if each.code == "not-covering"]
    assert finding.evidence["quantity"] == "x[2]"
    # 90% of the intervals cover 90%, and a tenth of them almost nothing.
    assert finding.evidence["coverage_90"] == pytest.approx(0.813, abs=0.05)
    assert str(verdict.close) == "no"
    assert "Do not report intervals" in verdict.hint


# ---- bias ----


@pytest.mark.parametrize("shape", [2.0, 4.0])
@pytest.mark.parametrize("num_datasets", [100, 200, 1000, 10_000])
def test_a_normal_q_with_the_exact_mean_and_sd_is_not_biased(shape, num_datasets):
    """Its median is off by 0.15 sds and more, and its mean is not, within its error."""
    runs = 10 if num_datasets == 10_000 else 40
    counts = levels(skewed(shape), num_datasets, 1, runs)
    assert counts["unreliable"] <= 1
    if num_datasets >= 1000:
        assert counts["usable"] >= 0.75 * runs
        p = skewed(shape)(np.random.default_rng(1), (10_000, 1))
        off = (shape - gamma(shape).median()) / np.sqrt(shape)
        assert off > 0.14
        assert "its means are off by only 0.0" in str(verdict_of(p))


@pytest.mark.parametrize("shift", [-0.3, 0.3])
def test_a_shift_is_a_bias(shift):
    assert levels(shifted(shift), 1000, 3, 20)["unreliable"] >= 18


def test_more_than_a_tenth_means_that_the_interval_lies_beyond_it():
    """Both sides of the cut-off: the interval's nearer end decides."""
    seen = set()
    for seed in range(30):
        made = calibration(1000, seed=seed, x=(0.2, 1.0))
        row = made.tests.loc["x"]
        of_mean = row["mean_bias_low"] > 0.1 or row["dispersion_low"] > 1.05
        beyond = row["bias_low"] > 0.1 and of_mean
        assert (made.verdict.level == "unreliable") == (beyond and row["p_adjusted"] < 0.05)
        seen.add(made.verdict.level)
    assert seen == {"unreliable", "usable"}


# ---- the joint log likelihood ----


def test_the_name_of_the_joint_log_likelihood_is_that_of_the_quantity():
    assert quantities.LIKELIHOOD == LIKELIHOOD


def likelihoods(narrow, num_datasets=1000, dim=5, seed=1):
    """Return probabilities of parameters and of log p(y | theta) = -|theta|^2 / 2 + constant."""
    z = narrow * np.random.default_rng(seed).normal(size=(num_datasets, dim))
    return np.hstack([norm.cdf(z), chi2(dim).sf((z**2).sum(axis=1))[:, None]])


NAMES = [*(f"x[{i}]" for i in range(5)), LIKELIHOOD]


@pytest.mark.parametrize("factor", [1.3, 1 / 1.3])
def test_a_wrong_scale_is_no_bias_though_the_likelihood_is_biased(factor):
    p = likelihoods(factor)
    assert tables.tests_table(p, NAMES).loc[LIKELIHOOD, "direction"] == (
        "over" if factor > 1 else "under"
    )
    verdict = verdict_of(p, NAMES)
    assert verdict.level == "usable"
    (finding,) = [each for each in verdict.findings if each.code == "likelihood-off"]
    assert ("better" if factor > 1 else "worse") in str(finding)


def test_missing_correlations_show_in_the_likelihood_and_are_not_good():
    """Marginals are right, and draws fit the data better than they should."""
    p = likelihoods(1.3)
    p[:, :5] = np.random.default_rng(2).random((1000, 5))
    verdict = verdict_of(p, NAMES)
    assert (verdict.level, verdict.decided_by) == ("usable", "likelihood-off")
    assert "usable for point estimates, but not calibrated: draws of q explain" in str(verdict)


def test_a_q_that_is_the_prior_is_not_reliable():
    """It is calibrated for every parameter; only the likelihood shows that it knows no data."""

    def prior(data, seed):
        return {"theta": np.random.default_rng(seed).normal(size=(200, 4))}

    found = vsbc(independent_model(), fit=prior, num_datasets=300, seed=1)
    parameters = found.tests.drop(LIKELIHOOD)
    assert (parameters["direction"] == "none").all()
    assert parameters["covers"].all()
    assert (found.verdict.level, found.verdict.decided_by) == ("unreliable", "likelihood-low")
    assert "explain the data worse than the true parameters do" in str(found.verdict)
    assert found.deciding_quantity == LIKELIHOOD


@pytest.mark.parametrize(
    ("sd", "level"),
    [(1.0, "good"), (1 / 1.25, "usable"), (1.35, "usable")],
)
def test_through_vsbc_with_a_fit_of_ones_own(sd, level):
    """Posteriors are N(y / 2, 1 / 2): q has the right mean, and an sd that is off by a factor."""

    def fit(data, seed):
        noise = np.random.default_rng(seed).normal(size=(400, 4))
        return {"theta": data["y"] / 2 + sd * np.sqrt(0.5) * noise}

    found = vsbc(independent_model(), fit=fit, num_datasets=1000, seed=5)
    assert found.verdict.level == level
    if level == "usable":
        assert "usable for point estimates, but not calibrated" in str(found.verdict)


def test_mean_field_with_the_exact_mean_is_usable_however_many_datasets():
    """It is too narrow, but too wide where the data speak: the log likelihood is too low."""

    def fit(data, seed):
        mean, covariance = pair_posterior(data["y"])
        sd = np.diagonal(np.linalg.inv(covariance)) ** -0.5
        return {"b": mean + sd * np.random.default_rng(seed).normal(size=(200, 2))}

    found = vsbc(pair_model(), fit=fit, num_datasets=3000, seed=1)
    assert found.tests.loc[LIKELIHOOD, "bias_high"] < -0.1
    assert (found.verdict.level, found.verdict.decided_by) == ("usable", "wrong-scale")
    assert any(finding.code == "likelihood-off" for finding in found.findings)


# ---- the joint posteriors ----


def test_far_too_narrow_with_high_khats_is_not_usable():
    """The sd should be 3.7 times as large, and 82% of the khats are above the threshold."""
    khats = np.where(np.arange(500) < 410, 2.0, 0.2)
    for share, expected in ((khats, "unreliable"), (khats[::-1] * 0.0, "usable")):
        p = norm.cdf(3.7 * np.random.default_rng(1).normal(size=500))
        verdict = verdict_of(p, khat=summarise_khat(share, 1000))
        assert verdict.level == expected
    p = norm.cdf(3.7 * np.random.default_rng(1).normal(size=500))
    verdict = verdict_of(p, khat=summarise_khat(khats, 1000))
    assert verdict.decided_by == "far-too-narrow"
    assert "khat of 82% of the datasets is above the threshold 0.67" in str(verdict)
    # Somewhat too narrow, point estimates may still be right.
    p = norm.cdf(1.5 * np.random.default_rng(1).normal(size=500))
    assert verdict_of(p, khat=summarise_khat(khats, 1000)).level == "usable"


@pytest.mark.parametrize(
    ("mean", "low", "code"),
    [
        (0.3, 0.2, "symmetric-kl"),
        (1.2, 0.8, "symmetric-kl"),  # it may be less than a nat
        (1.5, 1.1, "symmetric-kl-large"),
        (1530.0, 1400.0, "symmetric-kl-large"),
        (1530.0, np.nan, "symmetric-kl-large"),  # of a single dataset
        (0.5, np.nan, "symmetric-kl"),
    ],
)
def test_a_large_divergence_is_not_ok(mean, low, code):
    average = Average(mean, low, 2.0 * mean - low, 500, largest_share=0.1)
    p = np.random.default_rng(3).random(500)
    verdict = verdict_of(p, symmetric_kl=average)
    (finding,) = [each for each in verdict.findings if "KL" in each.sentence]
    assert finding.code == code
    assert finding.severity == ("caution" if code == "symmetric-kl-large" else "ok")


def test_a_quantity_that_is_nowhere_known_spoils_nothing():
    made = calibration(500, seed=3, x=(0.0, 1.0), y=(0.0, 1.0))
    missing = made.probabilities.copy()
    missing[:, 1] = np.nan
    verdict = Calibration(made.data.assign(probability=missing), made.settings).verdict
    assert verdict.level == "good"
    assert "in 1 quantity over 500" in str(verdict)
