"""What is said about one vector of log ratios."""

from dataclasses import replace

import numpy as np
import pytest

import vicheck
from tests.judging.situations import psis_of, psis_of_shape
from vicheck.judging.findings.khat import DrawsWherePIsZero, KhatGood, KhatHigh

LEVELS = [
    # s of q = N(0, s^2) against p = N(0, 1), number of draws, level
    (0.9, 4000, "good"),
    (0.64, 100_000, "usable"),
    (0.1, 4000, "unreliable"),
    (1.5, 4000, "good"),
]


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
    (finding,) = [
        each for each in vicheck.judge_psis(result).findings if each.code == "khat-uncertain"
    ]
    assert str(finding).startswith("khat is uncertain: it is above the threshold 0.62 with")
    certain = vicheck.judge_psis(psis_of(0.95, 100_000)).findings
    assert "khat-uncertain" not in {each.code for each in certain}


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
    defined = {vicheck.PsisStatus.OK, vicheck.PsisStatus.CONSTANT}
    hints = {
        vicheck.judge_psis(replace(psis_of_shape(0.3, 100_000), status=status, khat=np.nan)).hint
        for status in set(vicheck.PsisStatus) - defined
    }
    assert len(hints) == len(vicheck.PsisStatus) - len(defined)
    assert "Draw at least 1000 times from q." in hints


def test_a_batch_has_no_single_verdict(rng):
    with pytest.raises(ValueError, match=r"one vector, got a batch of shape \(3,\)"):
        vicheck.judge_psis(vicheck.psis(rng.normal(size=(3, 100))))


def test_a_khat_at_the_threshold_from_many_draws_is_not_called_a_lack_of_draws():
    """The prior has lifted khat over the threshold by a hair: that is uncertain, not too few."""
    size = 10_000
    u = (np.arange(size) + 0.5) / size
    for k in np.linspace(0.68, 0.72, 41):  # a tail that is known to give khats on both sides
        result = vicheck.psis(-k * np.log1p(-u))
        if result.khat >= 0.7 and result.exceedance_probability < 0.5:
            break
    else:
        pytest.fail("no such khat among these")
    verdict = vicheck.judge_psis(result)
    assert verdict.level == "unreliable"
    assert "is not reliable" in str(verdict)
    assert "khat-uncertain" in {finding.code for finding in verdict.findings}


@pytest.mark.parametrize(
    ("khat", "threshold", "sentence"),
    [
        (0.499, 0.7, "khat 0.499 (90% interval 0.40 to 0.60) is below 0.5."),
        (0.4, 0.7, "khat 0.40 (90% interval 0.40 to 0.60) is below 0.5."),
    ],
)
def test_khat_is_told_from_the_cutoff_that_it_is_below(khat, threshold, sentence):
    finding = KhatGood(khat, 0.4, 0.6, threshold, 1000)
    assert finding.sentence == f"The approximation is good where its draws lie: {sentence}"


@pytest.mark.parametrize(
    ("khat", "threshold", "end"),
    [
        (0.698, 0.6957, "khat 0.698 (90% interval 0.60 to 0.80) is above the threshold 0.696"),
        (0.69571, 0.6957, "khat 0.6957 (90% interval 0.60 to 0.80) is above the threshold 0.6957"),
        (0.75, 0.6957, "khat 0.75 (90% interval 0.60 to 0.80) is above the threshold 0.70"),
    ],
)
def test_khat_is_told_from_the_threshold_that_it_is_above(khat, threshold, end):
    finding = KhatHigh(khat, 0.6, 0.8, threshold, 1900, 2000.0, ())
    assert finding.sentence == f"The approximation is not reliable: {end} for 1900 draws."


@pytest.mark.parametrize(("num_zero", "verb"), [(1, "lies"), (2, "lie")])
def test_one_draw_lies_where_p_is_zero(num_zero, verb):
    sentence = DrawsWherePIsZero(num_zero, 9).sentence
    assert sentence == f"{num_zero} of 9 draws {verb} where p is zero."
