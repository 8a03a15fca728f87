"""What is said about one fit, by khat, convergence and other modes together."""

from dataclasses import replace

import numpy as np
import pytest

from tests.judging.situations import ended, pooled, psis_of_shape, searched
from vicheck.judging import evidence_of_estimates, judge_check
from vicheck.results.status import FitStatus
from vicheck.stats.differences import Difference


def measured():
    return psis_of_shape(0.3, 100_000)


def test_what_to_do_depends_on_convergence():
    high = psis_of_shape(1.2, 100_000)
    converged = judge_check(high, {}, ended(), None)
    richest = judge_check(high, {}, ended(family="full_rank", richer=""), None)
    moving = judge_check(high, {}, ended(gradient="moving", solver="stochastic"), None)
    elsewhere = judge_check(high, {}, None, None)
    assert "optimising longer will not help" in converged.hint
    rescue = "let vicheck.rescue try the remedies, or use MCMC. The joint"
    assert f"centred), use a richer family, {rescue}" in converged.hint
    assert f"centred), {rescue}" in richest.hint
    assert moving.hint.startswith("Improve the fit first: iterate longer, take a smaller step")
    assert elsewhere.hint.startswith("Run the optimiser to convergence, reparametrise the model")
    (finding,) = [each for each in moving.findings if each.code == "gradient-not-zero"]
    assert "2 sd, largest for tau" in str(finding)
    assert finding.hint.startswith("Keep optimising: iterate longer")
    assert finding.evidence["worst"] == "tau"


@pytest.mark.parametrize(
    ("status", "level"),
    [
        (FitStatus.CONVERGED, "good"),
        (FitStatus.SAMPLING_ERROR, "usable"),
        (FitStatus.AT_INFINITY, "unreliable"),
        (FitStatus.NOT_FINITE, "unreliable"),
    ],
)
def test_a_low_khat_does_not_save_a_fit_that_is_none(status, level):
    verdict = judge_check(measured(), {}, ended(status), None)
    assert verdict.level == level
    codes = {finding.code for finding in verdict.findings}
    # One finding is about how the fit ended, and only a fit that has converged is called converged.
    expected = {
        FitStatus.CONVERGED: "converged",
        FitStatus.SAMPLING_ERROR: "not-converged",
    }.get(status, "no-approximation")
    assert codes & {"converged", "not-converged", "no-approximation"} == {expected}
    assert verdict.decided_by == ("khat-good" if level == "good" else expected)


@pytest.mark.parametrize(
    ("modes", "level", "words"),
    [
        (pooled(0.0005), "good", "Another mode was found, with less than 1% of the posterior"),
        (pooled(0.3), "unreliable", "misses another mode with about 30% of the posterior"),
        (pooled(0.045), "unreliable", "the mean of mu is 0.45 sds off, its sd 2.3 times too small"),
        (pooled(0.3, khat=2.0), "unreliable", "cannot be estimated"),
        (pooled(np.nan, khat=np.nan), "unreliable", "cannot be estimated"),
    ],
)
def test_other_modes(modes, level, words):
    verdict = judge_check(measured(), {}, None, modes)
    assert verdict.level == level
    assert any(words in str(finding) for finding in verdict.findings)
    assert (words in str(verdict)) == (level == "unreliable")


@pytest.mark.parametrize(
    ("modes", "search", "words"),
    [
        (None, None, "; other modes were not searched for."),
        (None, searched(), "; 48 starts found no other mode."),
        (None, searched(log_mass=(0.0, -20.0)), "; 48 starts found no other mode that matters."),
        (pooled(0.0005), searched(log_mass=(0.0, -8.0)), "found no other mode that matters."),
        (None, searched(num_arrived=10), "; little is known about other modes."),
    ],
)
def test_good_always_says_what_is_known_beyond_its_draws(modes, search, words):
    verdict = judge_check(measured(), {}, ended(), modes, search)
    assert verdict.level == "good"
    assert str(verdict).replace("\n", " ").endswith(words)


def test_a_mode_that_was_found_counts_however_few_climbs_arrived():
    verdict = judge_check(measured(), {}, None, None, searched(10, log_mass=(0.0, -1.0)))
    assert verdict.level == "unreliable"
    assert verdict.decided_by == "mode-beyond-reach"


@pytest.mark.parametrize("modes", [None, pooled(0.5), pooled(0.5, khat=2.0)])
@pytest.mark.parametrize(
    ("symmetry", "remedy"),
    [
        ("the order of the components of mu", "Order the components"),
        ("the sign of loading", "Fix the sign of one of them"),
    ],
)
def test_copies_of_a_mode_are_called_so_with_their_remedy(modes, symmetry, remedy):
    search = searched(log_mass=(0.0, 0.0), symmetry=symmetry)
    verdict = judge_check(measured(), {}, None, modes, search)
    assert verdict.level == "unreliable"
    assert f"They differ by {symmetry} and are copies of each other." in verdict.sentence
    assert verdict.hint.startswith(remedy)


def test_a_small_mode_far_away_is_not_passed_over():
    near, far = (searched(log_mass=(0.0, -13.0), away=away) for away in (5.0, 2000.0))
    assert judge_check(measured(), {}, ended(), None, near).level == "good"
    assert judge_check(measured(), {}, ended(), None, far).level == "unreliable"


def test_growth_beyond_the_noise_of_khat_is_a_caution():
    rising = judge_check(measured(), {1000: 0.1, 100_000: 0.8}, None, None)
    noise = judge_check(measured(), {1000: 0.3, 100_000: 0.45}, None, None)
    (finding,) = [each for each in rising.findings if each.code == "khat-growing"]
    assert str(finding).startswith("khat rises with the number of draws, from 0.10 at 1000 to 0.80")
    assert finding.evidence == {
        "first_draws": 1000, "first_khat": 0.1, "last_draws": 100_000, "last_khat": 0.8,
    }  # fmt: skip
    assert "khat-growing" not in {each.code for each in noise.findings}


@pytest.mark.parametrize(
    ("shift", "growth", "words"),
    [
        (0.3, 0.0, "judged by plain draws, the mean of mu is 0.3 sds off, and khat"),
        (0.0, 2.3, "judged by plain draws, the sd of mu is 10 times too small, and khat"),
        (0.0, -2.3, "judged by plain draws, the sd of mu is 10 times too large, and khat"),
        (-0.3, 0.2, "the mean of mu is 0.3 sds off and its sd 1.2 times too small, and khat"),
    ],
)
def test_a_q_that_only_its_weights_make_right_is_usable_not_good(shift, growth, words):
    corrections = {
        "nu": Difference(0.05, 0.01, 0.05, 0.01),
        "mu": Difference(shift, 0.01, growth, 0.01),
        "constant": Difference(np.nan, np.nan, np.nan, np.nan),
    }
    verdict = judge_check(measured(), {}, None, None, corrections=corrections)
    assert (verdict.level, verdict.decided_by) == ("usable", "plain-off")
    assert words in str(verdict)
    assert (str(verdict.close), str(verdict.weights_work)) == ("no", "yes")


def test_corrections_within_their_error_or_small_are_none():
    corrections = {
        "small": Difference(0.079, 0.001, 0.079, 0.001),
        "noisy": Difference(0.29, 0.1, -0.29, 0.1),
    }
    assert judge_check(measured(), {}, None, None, corrections=corrections).level == "good"


def test_a_correction_beyond_its_limit_counts_although_its_error_reaches_below():
    """An sd that seems 9% off with an error of 1% may be 10% off, which will not do."""
    for each in (Difference(0.09, 0.01, 0.0, 0.01), Difference(0.0, 0.01, 0.09, 0.01)):
        verdict = judge_check(measured(), {}, None, None, corrections={"mu": each})
        assert verdict.decided_by == "plain-off"


def test_a_mean_or_sd_that_cannot_be_used_decides():
    refused = evidence_of_estimates(("mu",), ["vi"], ["neither"], (np.ones(1), np.ones(1)), 0.7)
    verdict = judge_check(measured(), {}, None, None, estimates=refused)
    assert (verdict.level, verdict.decided_by) == ("unreliable", "not-all-usable")
    assert "usable in part only: the weights do not correct the sd of mu" in str(verdict)
    assert (str(verdict.close), str(verdict.weights_work)) == ("unknown", "no")


def test_weights_that_leave_few_draws_are_not_usable():
    verdict = judge_check(replace(measured(), ess=9.0), {}, None, None)
    assert (verdict.level, verdict.decided_by) == ("unreliable", "few-effective-draws")
    assert str(verdict.weights_work) == "no"
