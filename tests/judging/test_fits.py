from dataclasses import replace

import numpy as np
import pytest

import vicheck
from vicheck.judging import choose_estimate, judge_check
from vicheck.results.convergence import Convergence, GradientTest, PooledModes
from vicheck.results.estimates import Measure
from vicheck.results.status import FitStatus

LEVELS = [
    # s of q = N(0, s^2) against p = N(0, 1), number of draws, level
    (0.9, 4000, "good"),
    (0.64, 100_000, "usable"),
    (0.1, 4000, "unreliable"),
    (1.5, 4000, "good"),
]


def psis_of(s, num_draws, seed=2):
    theta = s * np.random.default_rng(seed).normal(size=num_draws)
    return vicheck.psis(-(theta**2) / 2 + theta**2 / (2 * s**2))


@pytest.mark.parametrize(("s", "num_draws", "level"), LEVELS)
def test_levels(s, num_draws, level):
    result = psis_of(s, num_draws)
    verdict = vicheck.judge_psis(result)
    assert verdict.level == level
    assert f"khat {result.khat:.2f}" in str(verdict)
    severity = {"good": "ok", "usable": "caution", "unreliable": "bad"}[level]
    assert verdict.findings[0].severity == severity
    assert verdict.findings[0].evidence["khat"] == result.khat
    assert verdict.hint.endswith(".")


def test_threshold_depends_on_the_number_of_draws():
    """khat 0.55 is usable with 1000 draws and unreliable with 50, where the threshold is 0.41."""
    from dataclasses import replace

    from vicheck.stats.reliability import khat_threshold

    result = replace(psis_of(0.7, 1000), khat=0.55)
    assert vicheck.judge_psis(result).level == "usable"
    few = replace(result, num_draws=50, threshold=khat_threshold(50), min_draws=166.8)
    verdict = vicheck.judge_psis(few)
    assert verdict.level == "unreliable"
    assert "this khat needs about 167" in verdict.hint


def test_a_khat_that_the_prior_has_lifted_asks_for_more_draws():
    results = [psis_of(0.95, 30, seed=seed) for seed in range(40)]
    lifted = [r for r in results if r.khat >= r.threshold and r.exceedance_probability < 0.5]
    assert lifted
    for result in lifted:
        verdict = vicheck.judge_psis(result)
        assert verdict.level == "unreliable"
        assert str(verdict).startswith("Too few draws to call the approximation reliable")
        assert verdict.hint == "Draw at least 1000 times from q."


def test_huge_numbers_are_written_short():
    verdict = vicheck.judge_psis(vicheck.psis(1e290 * np.random.default_rng(1).normal(size=100)))
    assert len(str(verdict)) < 200


def test_an_interval_across_the_threshold_is_a_finding():
    result = psis_of(0.5, 400)
    assert 0.05 < result.exceedance_probability < 0.95
    findings = vicheck.judge_psis(result).findings
    assert any("khat is uncertain" in finding.sentence for finding in findings)
    certain = vicheck.judge_psis(psis_of(0.95, 100_000)).findings
    assert not any("khat is uncertain" in finding.sentence for finding in certain)


def test_zeros_are_a_finding(rng):
    log_ratios = rng.normal(size=1000)
    log_ratios[:3] = -np.inf
    findings = vicheck.judge_psis(vicheck.psis(log_ratios)).findings
    assert [finding.sentence for finding in findings][1] == "3 of 1000 draws lie where p is zero."


def test_equal_ratios_are_good():
    verdict = vicheck.judge_psis(vicheck.psis(np.zeros(100)))
    assert verdict.level == "good"
    assert "all ratios are equal" in str(verdict)


@pytest.mark.filterwarnings("ignore::vicheck.UndefinedKhatWarning")
@pytest.mark.parametrize("bad", [np.nan, -np.inf, np.inf])
def test_no_verdict_when_khat_is_undefined(bad):
    verdict = vicheck.judge_psis(vicheck.psis(np.full(100, bad)))
    assert verdict.level == "none"
    assert str(verdict).startswith("No verdict: ")
    assert verdict.hint


def test_every_undefined_status_has_a_hint():
    from vicheck.judging.psis import _UNDEFINED_HINTS

    defined = {vicheck.PsisStatus.OK, vicheck.PsisStatus.CONSTANT}
    assert set(_UNDEFINED_HINTS) == set(vicheck.PsisStatus) - defined


def test_a_batch_has_no_single_verdict(rng):
    with pytest.raises(ValueError, match=r"one vector, got a batch of shape \(3,\)"):
        vicheck.judge_psis(vicheck.psis(rng.normal(size=(3, 100))))


def measured():
    return psis_of_shape(0.3, 100_000)


def psis_of_shape(k, num_draws):
    """PSIS of ratios with a tail of a known shape."""
    u = np.random.default_rng(1).uniform(size=num_draws)
    return vicheck.psis(-k * np.log(u))


def settled(**changes):
    gradient = GradientTest(size=0.01, p_value=1.0, tolerance=0.1, worst="x", num_draws=1024)
    return replace(
        Convergence(status=FitStatus.CONVERGED, solver="deterministic", gradient=gradient),
        **changes,
    )


def pooled(missed, khat=0.2):
    return PooledModes(
        khat=khat,
        log_evidence=Measure(0.0, 0.1),
        missed=missed,
        masses=np.array([1.0 - missed, missed]),
        locations=np.zeros((2, 1)),
    )


def test_what_to_do_depends_on_convergence():
    high = psis_of_shape(1.2, 100_000)
    moved = GradientTest(size=2.0, p_value=1e-9, tolerance=0.1, worst="tau", num_draws=1024)
    converged = judge_check(high, {}, settled(), None)
    moving = judge_check(high, {}, settled(gradient=moved, solver="stochastic"), None)
    assert "optimising longer will not help" in converged.hint
    assert "keep optimising: iterate longer" in moving.hint
    assert any("2 sd, largest for tau" in str(finding) for finding in moving.findings)


@pytest.mark.parametrize(
    ("status", "level"),
    [
        (FitStatus.CONVERGED, "good"),
        (FitStatus.SAMPLING_ERROR, "good"),
        (FitStatus.AT_INFINITY, "unreliable"),
        (FitStatus.NOT_FINITE, "unreliable"),
    ],
)
def test_a_low_khat_does_not_save_a_fit_that_is_none(status, level):
    verdict = judge_check(measured(), {}, settled(status=status), None)
    assert verdict.level == level
    assert "did not converge: the fit has converged" not in str([*verdict.findings])


@pytest.mark.parametrize(
    ("modes", "level", "words"),
    [
        (pooled(0.01), "good", "Another optimum was found; about 1.0%"),
        (pooled(0.3), "unreliable", "misses another mode: about 30%"),
        (pooled(0.3, khat=2.0), "unreliable", "cannot be estimated"),
        (pooled(np.nan, khat=np.nan), "unreliable", "cannot be estimated"),
    ],
)
def test_other_modes(modes, level, words):
    verdict = judge_check(measured(), {}, None, modes)
    assert verdict.level == level
    assert any(words in str(finding) for finding in verdict.findings)
    assert (words in str(verdict)) == (level == "unreliable")


def test_growth_beyond_the_noise_of_khat_is_a_caution():
    rising = judge_check(measured(), {1000: 0.1, 100_000: 0.8}, None, None)
    noise = judge_check(measured(), {1000: 0.3, 100_000: 0.45}, None, None)
    assert any("khat rises" in str(finding) for finding in rising.findings)
    assert not any("khat rises" in str(finding) for finding in noise.findings)


@pytest.mark.parametrize(
    ("khat", "shift", "growth", "use"),
    [
        (0.9, 0.0, 0.0, "neither"),
        (np.nan, 0.0, 0.0, "neither"),
        (0.3, 0.01, 0.01, "vi"),
        (0.3, 0.3, 0.01, "psis"),
        (0.3, 0.01, 0.3, "psis"),
        (0.3, 0.0, np.nan, "vi"),
    ],
)
def test_which_estimate_to_use(khat, shift, growth, use):
    assert choose_estimate(khat, 0.7, shift, growth) == use


def test_a_khat_at_the_threshold_from_many_draws_is_not_called_a_lack_of_draws():
    """The prior has lifted khat over the threshold by a hair: that is uncertain, not too few."""
    size = 10_000
    u = (np.arange(size) + 0.5) / size
    for k in np.linspace(0.68, 0.72, 41):  # a tail that is known to give khats on both sides
        found = vicheck.psis(-k * np.log1p(-u))
        if found.khat >= 0.7 and found.exceedance_probability < 0.5:
            break
    else:
        pytest.fail("no such khat among these")
    verdict = vicheck.judge_psis(found)
    assert verdict.level == "unreliable"
    assert "is not reliable" in str(verdict)
    assert any("khat is uncertain" in finding.sentence for finding in verdict.findings)
