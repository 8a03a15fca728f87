"""What is said about a calibration, and when nothing can be said."""

import numpy as np
import pytest
import xarray as xr
from scipy.stats import beta, norm

from tests.calibration.made import calibration
from vicheck.judging.calibration import detectable_bias
from vicheck.remedies.converge import advice_after
from vicheck.results.calibration import Calibration
from vicheck.results.status import FitStatus
from vicheck.stats.multiplicity import holm
from vicheck.stats.symmetry import symmetry_test

LEVELS = [
    # shift and sd of q, number of datasets, level, words
    ((0.0, 1.0), 500, "good", "No bias was found in 1 quantity over 500 datasets"),
    ((0.5, 1.0), 500, "unreliable", "q over-estimates x, typically by 0."),
    ((-0.5, 1.0), 500, "unreliable", "q under-estimates x, typically by 0."),
    ((0.05, 1.0), 20_000, "good", "No bias of more than 0.1 sds was found in 1 quantity"),
    ((0.0, 0.6), 500, "usable", "q is too narrow for x: the sd of x should be 1."),
    ((0.0, 1.7), 500, "usable", "q is too wide for x: the sd of x should be 0."),
    ((0.0, 1.02), 500, "good", "Intervals of q hold the truth as often as they claim"),
    ((0.12, 1.0), 10_000, "usable", "a bias of more than 0.1 of its sds was not shown (it may be"),
]


@pytest.mark.parametrize(("q", "num_datasets", "level", "words"), LEVELS)
def test_levels(q, num_datasets, level, words):
    verdict = calibration(num_datasets, seed=3, x=q).verdict
    assert verdict.level == level
    assert words in str(verdict)
    severity = {"good": "ok", "usable": "caution", "unreliable": "bad"}[level]
    assert verdict.findings[0].severity == severity
    assert verdict.findings[0].sentence == str(verdict)
    assert verdict.hint.endswith(".")


def test_a_good_verdict_says_what_it_cannot_see():
    verdict = calibration(seed=3, x=(0.0, 1.0)).verdict
    assert "one of 0.15 sds would have been, with probability 0.8" in str(verdict)
    assert "with sds too small by a factor of 1.21 they would not" in str(verdict)
    assert "does, was not looked at" in verdict.hint
    joint = calibration(seed=3, x=(0.0, 1.0), log_likelihood=(0.0, 1.0)).verdict
    assert joint.level == "good"
    assert "joint log likelihood" not in joint.hint
    assert "cannot prove q right" in verdict.hint
    assert "average over the prior" in verdict.hint
    at_data = calibration(seed=3, settings={"kind": "posterior"}, x=(0.0, 1.0)).verdict
    assert "average over the fitted q" in at_data.hint
    assert any("if that is bad, so is this calibration" in str(f) for f in at_data.findings)


@pytest.mark.parametrize(("share", "level"), [(0.4, "good"), (0.6, "usable")])
def test_fits_that_miss_the_joint_posterior_are_not_called_good(share, level):
    made = calibration(500, seed=3, x=(0.0, 1.0))
    khat = np.where(np.arange(500) < 500 * share, 5.0, 0.1)
    verdict = Calibration(made.data.assign(khat=("dataset", khat)), made.settings).verdict
    assert verdict.level == level
    if level == "usable":
        assert "no bias was found, but khat of 60% of the datasets" in str(verdict)


BAD = [each.name for each in FitStatus if each not in (FitStatus.CONVERGED, FitStatus.UNKNOWN)]


@pytest.mark.parametrize("status", BAD)
def test_too_many_bad_fits_mean_no_verdict(status):
    biased = {"x": (0.5, 1.0)}
    few = calibration(statuses=dict.fromkeys(range(25), status), **biased)
    many = calibration(statuses=dict.fromkeys(range(26), status), **biased)
    assert few.verdict.level == "unreliable"
    assert many.verdict.level == "none"
    assert str(many.verdict).startswith("No verdict: 26 of 500 fits failed, did not converge")
    assert "`.failures` lists them with the seeds" in many.verdict.hint
    assert not any("over-estimates" in str(finding) for finding in many.findings)
    assert any(f"25 {status}" in str(finding) for finding in few.findings)


def finding_of(verdict, code):
    (finding,) = [finding for finding in verdict.findings if finding.code == code]
    return finding


def test_fits_that_nobody_has_judged_are_not_called_converged():
    """A user's function does not say how its fits ended: that is unknown, and no failure."""
    verdict = calibration(
        seed=3, statuses=dict.fromkeys(range(500), "UNKNOWN"), x=(0.0, 1.0)
    ).verdict
    assert verdict.level == "good"
    finding = finding_of(verdict, "fits-unknown")
    assert str(finding) == "Whether the fits have converged is not known."
    assert finding.severity == "caution"
    assert "vicheck.Draws with a status" in finding.hint
    assert str(verdict.converged) == "unknown"
    assert verdict.converged.because == ("fits-unknown",)
    assert not any("have converged." in str(each) for each in verdict.findings)


def test_fits_that_are_known_to_be_bad_count_beside_those_that_are_not_known():
    unknown = dict.fromkeys(range(400), "UNKNOWN")
    few = calibration(
        seed=3, statuses=unknown | dict.fromkeys(range(25), "STALLED"), x=(0.0, 1.0)
    ).verdict
    many = calibration(
        seed=3, statuses=unknown | dict.fromkeys(range(26), "STALLED"), x=(0.0, 1.0)
    ).verdict
    assert (few.level, many.level) == ("good", "none")
    assert str(finding_of(few, "fits-unknown")).startswith("Whether 375 of 500 fits have")
    assert str(finding_of(few, "fits-unconverged")).endswith(": 25 STALLED.")
    assert many.decided_by == "too-many-unconverged"
    assert str(few.converged) == str(many.converged) == "no"


def test_all_fits_that_have_converged_are_called_so():
    verdict = calibration(seed=3).verdict
    assert str(finding_of(verdict, "fits-converged")) == "All 500 fits have converged."
    assert str(verdict.converged) == "yes"


@pytest.mark.parametrize(("num_datasets", "level"), [(19, "none"), (20, "unreliable")])
def test_too_few_datasets_mean_no_verdict(num_datasets, level):
    verdict = calibration(num_datasets, x=(2.0, 1.0)).verdict
    assert verdict.level == level
    if level == "none":
        assert "No verdict: 19 datasets have calibration probabilities" in str(verdict)


def test_every_status_has_a_hint():
    for status in FitStatus:
        if status is not FitStatus.CONVERGED:
            assert len(advice_after(status, "deterministic")) > 20


def test_a_bias_is_not_taken_for_a_narrow_q():
    shifted = calibration(x=(1.5, 1.0))
    assert shifted.tests.loc["x", "dispersion_low"] > 1.1
    assert not any("narrow" in str(finding) for finding in shifted.findings)


def test_a_skewed_posterior_with_the_right_median_is_no_bias():
    """Proposition 2 assumes symmetry: the median of p is 1/2 here, and its histogram lopsided."""
    u = np.random.default_rng(1).random(5000)
    # Below 1/2 spread evenly, above it crowded towards 1/2: the median stays.
    p = np.where(u < 0.5, u, 0.5 + 0.5 * beta(1, 4).ppf(2 * u - 1.0))
    made = calibration(5000, x=(0.0, 1.0))
    probability = xr.DataArray(p[:, None], dims=("dataset", "quantity"))
    skewed = Calibration(made.data.assign(probability=probability), made.settings)
    assert skewed.tests.loc["x", "p_adjusted"] < 1e-6
    assert skewed.verdict.level == "usable"
    assert "asymmetric, but" in str(skewed.verdict)
    assert "Proposition 2" in skewed.verdict.hint


def test_a_q_that_is_nowhere_near():
    verdict = calibration(x=(50.0, 0.01)).verdict
    assert verdict.level == "unreliable"
    assert "over-estimates x, typically by more than 8 of its sds" in str(verdict)


def test_a_q_that_is_infinitely_wide():
    made = calibration(x=(0.0, 1.0))
    probability = xr.full_like(made.probabilities, 0.5)
    verdict = Calibration(made.data.assign(probability=probability), made.settings).verdict
    assert verdict.level == "usable"
    assert "the sd of x should be 0 times as large" in str(verdict)


def test_several_quantities_are_summed_up():
    shifts = {"a": (0.3, 1.0), "b": (-0.9, 1.0), "c": (0.5, 1.0), "d": (0.0, 1.0), "e": (0.7, 1.0)}
    verdict = calibration(1000, seed=3, **shifts).verdict
    assert "q under-estimates b" in str(verdict)  # the largest
    assert "4 quantities are biased in all" in str(verdict)
    assert any(str(finding).startswith("Also biased, in sds of q: e +0.") for finding in
               verdict.findings)  # fmt: skip


def test_an_average_that_one_dataset_decides_is_a_caution():
    made = calibration()
    terms = made.data["symmetric_kl"].copy()
    assert not any("of which one dataset is" in str(finding) for finding in made.findings)
    terms[7] = 1e6
    (finding,) = [
        finding
        for finding in Calibration(made.data.assign(symmetric_kl=terms), made.settings).findings
        if "KL" in str(finding)
    ]
    assert finding.severity == "caution"
    assert str(finding).endswith("nats, of which one dataset is 100%.")


def test_the_papers_test_is_labelled_with_its_size():
    findings = calibration(seed=3).findings
    (paper,) = [str(finding) for finding in findings if "KS" in str(finding)]
    assert "at a nominal 5%; its true size is about 11%" in paper


@pytest.mark.parametrize(
    ("num_datasets", "num_quantities"), [(20, 1), (100, 1), (1000, 1), (1000, 50)]
)
def test_the_bias_that_is_called_detectable_is(num_datasets, num_quantities):
    """Power of 0.8 or a little more: 400 repetitions have a standard error of 0.02."""
    shift = detectable_bias(num_datasets, num_quantities)
    rng = np.random.default_rng(1)
    found = []
    for _ in range(400):
        p = norm.cdf(rng.normal(size=num_datasets) - shift)
        found.append(symmetry_test(p).p_value * num_quantities < 0.05)
    assert 0.74 < np.mean(found) < 0.9


def test_a_detectable_bias_needs_datasets():
    assert detectable_bias(5) == np.inf
    few = calibration(20, seed=3, **{f"x[{i}]": (0.0, 1.0) for i in range(2000)})
    assert few.verdict.level == "good"
    assert "so few can hardly show one" in str(few.verdict)
    assert detectable_bias(1000) == pytest.approx(0.106, abs=0.001)
    assert detectable_bias(1000, 10) > detectable_bias(1000)


def test_exact_inference_is_rarely_rejected():
    """Holm at 5% over three quantities: 200 runs, at most 20 rejections (probability 0.998)."""
    rng = np.random.default_rng(1)
    rejected = sum(
        holm(symmetry_test(rng.random((100, 3))).p_value).min() < 0.05 for _ in range(200)
    )
    assert rejected <= 20
