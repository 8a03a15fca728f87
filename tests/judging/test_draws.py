"""What is said of draws that are not what they seem, and of tails that are not Pareto."""

from dataclasses import replace

import numpy as np
import pytest

import vicheck
from tests.judging.situations import not_pareto, pooled, psis_of_shape, screenings
from vicheck.judging import judge_check
from vicheck.judging.cutoffs import COARSE, COPIES, DEPENDENT, TOO_COARSE
from vicheck.judging.draws import evidence_of_draws
from vicheck.results.psis import PsisStatus

GOOD = psis_of_shape(0.3, 100_000)
HIGH = psis_of_shape(1.2, 100_000)
SEEN = screenings()
DECIDING = ("tied-draws", "clipped-ratios", "dependent-draws", "ratios-too-coarse")


@pytest.mark.parametrize("code", DECIDING)
def test_nothing_is_good_that_rests_on_such_draws(code):
    verdict = judge_check(GOOD, {}, None, None, screening=SEEN[code])
    assert verdict.level == "none"
    assert verdict.decided_by == code
    assert str(verdict).startswith("No verdict: ")
    assert str(verdict.close) == str(verdict.weights_work) == "unknown"
    assert verdict.findings[0].sentence.startswith("By khat alone: ")


@pytest.mark.parametrize("code", DECIDING)
def test_what_is_worse_stays_as_it_is(code):
    assert judge_check(HIGH, {}, None, None, screening=SEEN[code]).level == "unreliable"
    assert judge_check(GOOD, {}, None, pooled(0.3), screening=SEEN[code]).level == "unreliable"
    undefined = replace(GOOD, status=PsisStatus.NOT_FINITE, khat=np.nan)
    assert (
        judge_check(undefined, {}, None, None, screening=SEEN[code]).decided_by == "khat-undefined"
    )
    constant = vicheck.psis(np.zeros(100))
    assert judge_check(constant, {}, None, None, screening=SEEN[code]).decided_by == code


def test_coarse_ratios_are_a_caution_until_they_are_too_coarse():
    verdict = judge_check(GOOD, {}, None, None, screening=SEEN["coarse-ratios"])
    assert verdict.level == "good"
    assert [each.code for each in verdict.others] == ["coarse-ratios"]
    both = judge_check(GOOD, {}, None, None, screening=SEEN["ratios-too-coarse"])
    assert "coarse-ratios" in {each.code for each in both.findings}


@pytest.mark.parametrize(
    ("field", "cutoff", "code"),
    [
        ("num_copies", COPIES * 1000, "tied-draws"),
        ("tail_copies", COPIES * 95, "tied-draws"),
        ("likeness", DEPENDENT, "dependent-draws"),
        ("resolution", COARSE, "coarse-ratios"),
        ("resolution", TOO_COARSE, "ratios-too-coarse"),
    ],
)
def test_both_sides_of_each_cutoff(field, cutoff, code):
    below, above = (
        {each.code for each in evidence_of_draws(replace(SEEN[""], **{field: cutoff + side}))}
        for side in (0.0, 1e-9)
    )
    assert code not in below
    assert code in above


def test_what_was_not_looked_at_is_not_said():
    assert evidence_of_draws(None) == evidence_of_draws(SEEN[""]) == []
    assert evidence_of_draws(replace(SEEN[""], likeness=np.nan)) == []


def test_a_low_tail_further_out_is_usable_and_asks_for_more_draws():
    result = not_pareto()["not-pareto"]
    verdict = judge_check(result, {1000: 0.1, 10_000: 3.5}, None, None)
    assert (verdict.level, verdict.decided_by) == ("usable", "not-pareto")
    assert "khat of the 150 largest ratios is 0.40" in str(verdict)
    assert "not smoothed" in str(verdict)
    assert verdict.hint.startswith("Take more draws, at least 40000")
    assert "draw-more" in {step.name for step in verdict.next_steps}
    assert str(verdict.weights_work) == "yes"
    assert str(verdict.close) == "unknown"
    assert {each.code for each in verdict.findings} == {"not-pareto"}


def test_a_tail_that_was_not_seen_leaves_no_verdict():
    verdict = judge_check(not_pareto()["tail-unseen"], {}, None, None)
    assert (verdict.level, verdict.decided_by) == ("none", "tail-unseen")
    assert "too few ratios lie further out" in str(verdict)
    assert "not-pareto" in {each.code for each in verdict.findings}
    assert str(verdict.weights_work) == "unknown"


def test_an_outer_tail_must_be_low_with_its_error():
    result = not_pareto()["not-pareto"]
    for khat, level in ((0.5, "usable"), (0.65, "none")):
        fits = replace(result.tail_fits, khat=khat)
        assert judge_check(replace(result, tail_fits=fits), {}, None, None).level == level


@pytest.mark.parametrize(
    ("growth", "code"),
    [
        ({1000: 1.84, 4000: 4.27, 16_000: 0.27, 64_000: 0.34}, "khat-unsteady"),
        ({1000: 0.5, 4000: 0.1, 16_000: 0.5}, "khat-growing"),
        ({1000: 0.3, 4000: 0.32, 16_000: 0.31}, ""),
        ({1000: -1.2, 4000: -1.5, 16_000: -1.7}, ""),
        ({1000: 0.7, 4000: 0.45, 16_000: 0.4}, ""),
        ({1000: np.nan, 4000: 0.4}, ""),
    ],
)
def test_growth_looks_at_all_numbers_of_draws(growth, code):
    found = {each.code for each in judge_check(GOOD, growth, None, None).findings}
    assert found & {"khat-growing", "khat-unsteady"} == ({code} if code else set())
