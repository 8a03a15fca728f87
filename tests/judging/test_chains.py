"""What is said of short chains, on both sides of each cut-off."""

import numpy as np
import pytest

from tests.judging.situations import chains, drift, psis_of_shape
from vicheck.judging import judge_check
from vicheck.judging.chains import drifting, evidence_of_chains


def only(found):
    (finding,) = evidence_of_chains(found)
    return finding.finding(decides=False)


@pytest.mark.parametrize(
    ("shift", "growth", "error", "moved"),
    [
        (0.0, 0.0, 0.02, ""),
        (0.2, 0.0, 0.02, "mean"),
        (-0.2, 0.0, 0.02, "mean"),
        (0.12, 0.0, 0.02, ""),  # beyond the tolerance, but not by much more than its error
        (0.2, 0.0, 0.05, ""),
        (0.0, 0.2, 0.02, "sd"),
        (0.0, -0.2, 0.02, "sd"),
        (0.0, 0.12, 0.02, ""),
        (0.2, 0.5, 0.02, "mean"),  # means come first
    ],
)
def test_what_has_moved_beyond_what_is_tolerated(shift, growth, error, moved):
    found = only(chains(drift(shift, growth, error)))
    assert found.code == ("chains-drift-weighted" if moved else "chains-agree")
    if moved:
        assert found.evidence["moment"] == moved
        assert found.evidence["quantity"] == "tau"
        assert found.evidence["size"] == (shift if moved == "mean" else growth)


def test_an_sd_moves_only_if_its_own_test_says_so_too():
    """The error of an sd is too small where tails are heavy."""
    doubtful = drift(growth=0.5)
    doubtful.growth_p[1] = 0.2
    assert only(chains(doubtful)).code == "chains-agree"


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ({"shift": 0.31}, "within 32 steps the mean of tau rises by 0.31 sd (error 0.02)."),
        ({"shift": -0.31}, "within 32 steps the mean of tau falls by 0.31 sd (error 0.02)."),
        ({"growth": np.log(2)}, "the sd of tau grows to 2 times its size (error 0.02)."),
        ({"growth": -np.log(2)}, "the sd of tau shrinks to 0.5 times its size (error 0.02)."),
    ],
)
def test_direction_and_size_are_told(size, words):
    found = only(chains(drift(**size)))
    assert found.severity == "bad"
    assert found.sentence.startswith("Short chains leave the weighted draws of q: ")
    assert found.sentence.endswith(words)
    plain = only(chains(drift(**size), starts="q"))
    assert (plain.code, plain.severity) == ("chains-drift", "caution")
    assert plain.sentence.startswith("Short chains leave the draws of q: ")


def test_weighted_draws_that_stay_contradict_plain_ones_that_do_not():
    found = only(chains(drift(), from_q=drift(0.4)))
    assert found.code == "chains-drift"
    assert "stay with the weighted draws of q, but leave the plain ones" in found.sentence
    doubtful = only(chains(drift(error=0.11), from_q=drift(0.9)))
    assert "stay" not in doubtful.sentence


def test_how_many_others_have_moved():
    both = drift(0.4)
    both.shift[0], both.shift_p[0] = -0.3, 1e-9
    found = only(chains(both))
    assert found.evidence["others"] == 1
    assert found.sentence.endswith(", and 1 more quantity moves.")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_chains": 31, "num_left_out": 9}, "only 31 of 40 starts have a finite density"),
        ({"acceptance": 0.19}, "only 19% of their steps are accepted"),
        ({"acceptance": np.nan}, "only nan% of their steps are accepted"),
        ({"from_starts": drift(error=0.11)}, "the drift of a mean has an error of 0.11 sd"),
        ({"rhat": np.array([1.0, 1.6])}, "tau has hardly moved in 32 steps (nested R-hat 1.6)"),
        ({"from_starts": drift(np.nan)}, ""),
        ({"rhat": np.array([np.nan, 1.4]), "acceptance": 0.21}, ""),
    ],
)
def test_chains_agree_only_where_they_could_disagree(changes, reason):
    found = only(chains(**changes))
    assert found.code == ("chains-undecided" if reason else "chains-agree")
    assert reason in found.sentence


def test_nothing_is_said_where_nothing_is_known():
    unknown = drift()
    for array in (unknown.shift, unknown.growth, unknown.shift_error, unknown.growth_error):
        array[:] = np.nan
    means, sds = drifting(unknown, 1024)
    assert not means.any()
    assert not sds.any()
    found = only(chains(unknown, rhat=np.full(2, np.nan)))
    assert found.sentence.endswith("no quantity is finite at all starts and ends.")
    assert evidence_of_chains(None) == []


@pytest.mark.parametrize(
    ("khat", "found", "level"),
    [
        (0.3, chains(), "good"),
        (0.3, chains(acceptance=0.0), "good"),
        (0.3, chains(from_q=drift(0.4)), "usable"),
        (0.3, chains(drift(0.4)), "unreliable"),
        (0.6, chains(), "usable"),
        (0.6, chains(from_q=drift(0.4)), "usable"),
        (0.6, chains(drift(0.4)), "unreliable"),
        (1.2, chains(drift(0.4), starts="q"), "unreliable"),
        (1.2, chains(starts="q"), "unreliable"),
    ],
)
def test_levels(khat, found, level):
    verdict = judge_check(psis_of_shape(khat, 100_000), {}, None, None, chains=found)
    assert verdict.level == level
    assert verdict.hint.endswith(".")
