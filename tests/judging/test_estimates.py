"""Which estimate may be used, by khat, chains and modes together."""

from dataclasses import replace

import numpy as np
import pytest

from tests.judging.situations import chains as chains_of
from tests.judging.situations import drift, heights
from vicheck.judging.chains import evidence_of_chains
from vicheck.judging.cutoffs import (
    ANOTHER_PART,
    ENOUGH_STEPS,
    FORGOTTEN,
    MOST_COUNT,
    SETTLED,
    STUCK,
    UNEVEN,
)
from vicheck.judging.estimates import (
    Witnesses,
    choose_mean,
    choose_sd,
    evidence_of_estimates,
    weaker,
)


def known(khat=0.3, khat_sd=0.3, shift=0.0, growth=0.0, error=0.01, spoilt=False, **more):
    """Return what is known of two quantities, of both as said."""
    columns = {"khat": khat, "khat_sd": khat_sd, "shift": shift, "shift_error": error,
               "growth": growth, "growth_error": error, "spoilt": spoilt}  # fmt: skip
    both = {name: np.array([each, each]) for name, each in columns.items()}
    rest = {"threshold": 0.7, "joint_khat": 0.3, "effective": 0.5, "weights_work": True,
            "converged": True}  # fmt: skip
    return Witnesses(**(both | rest | {"chains": None} | more))


@pytest.mark.parametrize(
    ("witnesses", "mean", "sd"),
    [
        (known(), "vi", "vi"),
        (known(shift=0.3), "psis", "vi"),
        (known(growth=0.3), "vi", "psis"),
        (known(growth=np.nan), "vi", "vi"),  # a constant
        (known(khat=0.8), "neither", "vi"),
        (known(khat_sd=0.8), "vi", "neither"),
        (known(khat=np.nan, khat_sd=np.nan), "neither", "neither"),
        (known(weights_work=False), "neither", "neither"),
        (known(spoilt=True), "neither", "neither"),
    ],
)
def test_without_chains_the_weights_decide(witnesses, mean, sd):
    assert choose_mean(witnesses)[1] == mean
    assert choose_sd(witnesses)[1] == sd


def one_quantity(rhat=1.0, shift=0.0, growth=0.0, error=0.02, starts="q", **more):
    return chains_of(drift(shift, growth, error), rhat=np.array([1.0, rhat]), starts=starts, **more)


def moving():
    """Return what chains do that have not arrived."""
    return drift(shift=0.2)


@pytest.mark.parametrize(
    ("chains", "mean", "sd"),
    [
        (one_quantity(), "vi", "vi"),  # nothing moves: right under a bad joint
        (one_quantity(growth=0.5), "vi", "neither"),
        (one_quantity(growth=0.07), "vi", "vi"),
        (one_quantity(growth=0.08), "vi", "neither"),  # 10%, or more, is within its error
        (one_quantity(shift=0.5), "neither", "vi"),
        (one_quantity(shift=0.5, settling=moving()), "neither", "neither"),
        (one_quantity(shift=0.5, growth=0.5), "neither", "neither"),
        (one_quantity(shift=0.5, growth=0.5, rhat=1.3), "neither", "neither"),
        (one_quantity(shift=0.05, growth=0.05, rhat=2.0), "neither", "neither"),  # a way to go
        (one_quantity(error=0.5), "neither", "neither"),
        (replace(one_quantity(), acceptance=0.05), "neither", "neither"),
        (replace(one_quantity(), num_chains=8), "neither", "neither"),
    ],
)
def test_where_weights_do_not_work_chains_decide(chains, mean, sd):
    witnesses = known(weights_work=False, chains=chains)
    assert choose_mean(witnesses)[1] == mean
    assert choose_sd(witnesses)[1] == sd
    assert choose_mean(replace(witnesses, spoilt=np.array([True, True])))[1] == "neither"


def test_chains_that_leave_weighted_draws_overrule_them():
    moved = one_quantity(shift=0.5, rhat=1.3, starts="weighted")
    assert choose_mean(known(chains=moved))[1] == "neither"
    assert choose_sd(known(chains=moved))[1] == "vi"
    wider = one_quantity(growth=0.5, starts="weighted")
    assert choose_mean(known(chains=wider))[1] == "vi"
    assert choose_sd(known(chains=wider))[1] == "neither"


@pytest.mark.parametrize("khat", [0.69, 0.71, 2.0, np.nan])
def test_chains_from_weighted_draws_confirm_what_khat_leaves_open(khat):
    """Chains that leave plain draws of q do not vouch for these, nor for weights that fail."""
    left = drift(shift=0.5, growth=0.5)
    for starts in ("weighted", "q"):
        chains = chains_of(drift() if starts == "weighted" else left, left, starts=starts)
        witnesses = known(khat=khat, khat_sd=khat, shift=0.3, growth=0.3, chains=chains)
        expected = "psis" if starts == "weighted" or khat < 0.7 else "neither"
        assert (choose_mean(witnesses)[1], choose_sd(witnesses)[1]) == (expected, expected)
        unable = replace(witnesses, weights_work=False)
        assert (choose_mean(unable)[1], choose_sd(unable)[1]) == ("neither", "neither")


def test_the_weaker_of_two_claims_less():
    ordered = ("neither", "psis", "vi")
    for i, one in enumerate(ordered):
        for j, other in enumerate(ordered):
            assert weaker(one, other) == ordered[min(i, j)]


WIDER = drift(shift=0.5, growth=0.5)
"""Where starts were too narrow, chains have to forget them."""


@pytest.mark.parametrize(
    ("changes", "others"),
    [
        ({}, "vi"),
        ({"settling": drift(shift=SETTLED - 0.01)}, "vi"),
        ({"settling": drift(shift=SETTLED + 0.02)}, "neither"),
        ({"settling": drift(shift=-SETTLED - 0.02)}, "neither"),
        ({"settling": drift(growth=SETTLED + 0.02)}, "neither"),
        ({"settling": drift(shift=SETTLED + 0.02, error=0.03)}, "vi"),
        ({"num_steps": ENOUGH_STEPS}, "vi"),
        ({"num_steps": ENOUGH_STEPS - 1}, "neither"),
        ({"from_q": drift(shift=0.5, growth=0.09)}, "vi"),
        ({"from_q": drift(shift=0.5, growth=-0.5)}, "vi"),
        ({"from_q": WIDER, "heights": heights(memory=FORGOTTEN)}, "vi"),
        ({"from_q": WIDER, "heights": heights(memory=FORGOTTEN + 0.01)}, "neither"),
        ({"from_q": WIDER, "heights": heights(shift=-SETTLED)}, "vi"),
        ({"from_q": WIDER, "heights": heights(shift=-SETTLED - 0.01)}, "neither"),
        ({"from_q": WIDER, "heights": heights(memory=np.nan)}, "neither"),
        ({"from_q": WIDER, "memory": np.array([FORGOTTEN, FORGOTTEN])}, "vi"),
        ({"from_q": WIDER, "memory": np.array([0.0, FORGOTTEN + 0.01])}, "neither"),
        ({"from_q": WIDER, "memory": np.array([0.0, np.nan])}, "neither"),
    ],
)
def test_where_one_mean_moves_chains_vouch_for_others_if_they_have_arrived(changes, others):
    """Down a funnel they have not, and what depends on tau moves later than tau."""
    errors = drift(shift=0.5, error=0.01)
    chains = replace(chains_of(errors, starts="q"), **({"settling": drift(error=0.01)} | changes))
    assert choose_mean(known(weights_work=False, chains=chains)) == [others, "neither"]


@pytest.mark.parametrize(
    ("converged", "growth", "memory", "mean"),
    [
        (True, 0.5, 0.9, "vi"),
        (False, 0.5, FORGOTTEN + 0.01, "neither"),
        (False, 0.5, np.nan, "neither"),
        (False, 0.5, FORGOTTEN, "vi"),
        (False, 0.05, 0.9, "vi"),
        (False, -0.5, 0.9, "vi"),
    ],
)
def test_a_mean_that_may_have_been_left_on_its_way_must_not_spread_slowly(
    converged, growth, memory, mean
):
    chains = one_quantity(growth=growth, memory=np.array([0.1, memory]))
    witnesses = known(weights_work=False, chains=chains, converged=converged)
    assert choose_mean(witnesses) == ["vi", mean]


@pytest.mark.parametrize(
    ("memory", "variance", "use"),
    [
        (STUCK + 0.01, UNEVEN + 1.0, "neither"),
        (STUCK, UNEVEN + 1.0, "vi"),
        (STUCK + 0.01, UNEVEN, "vi"),
        (np.nan, np.nan, "vi"),
    ],
)
def test_chains_that_stay_at_different_heights_are_no_witnesses(memory, variance, use):
    chains = one_quantity(heights=heights(memory=memory, variance=variance))
    witnesses = known(weights_work=False, chains=chains)
    assert choose_mean(witnesses) == choose_sd(witnesses) == [use, use]
    (said,) = evidence_of_chains(chains)
    assert said.code == ("chains-agree" if use == "vi" else "chains-undecided")
    assert ("different heights" in said.aside) == (use != "vi")


@pytest.mark.parametrize(
    ("witnesses", "sd"),
    [
        (known(growth=0.12, error=0.01), "vi"),
        (known(growth=0.13, error=0.01), "neither"),
        (known(growth=-0.5, error=0.05), "neither"),
        (known(growth=-0.5, error=0.2), "vi"),
        (known(growth=-0.5, error=np.nan), "vi"),
        (known(joint_khat=1.1, effective=ANOTHER_PART / 2), "vi"),
        (known(joint_khat=0.9, effective=2 * ANOTHER_PART), "vi"),
        (known(joint_khat=1.1, effective=2 * ANOTHER_PART), "neither"),  # two populations
        (known(joint_khat=np.nan, effective=np.nan), "vi"),
    ],
)
def test_an_sd_that_chains_find_must_not_be_contradicted_by_weights(witnesses, sd):
    """As where wide and narrow parts have one centre, and chains stay in one of them."""
    under = replace(witnesses, weights_work=False, chains=one_quantity())
    assert choose_sd(under)[1] == sd
    assert choose_mean(under)[1] == "vi"


@pytest.mark.parametrize(
    ("changes", "mean"),
    [
        ({"shift": 0.12, "error": 0.01}, "vi"),
        ({"shift": 0.14, "error": 0.01}, "neither"),
        ({"shift": 0.14, "error": 0.01, "converged": True}, "vi"),
        ({"shift": 0.14, "error": 0.01, "effective": ANOTHER_PART / 2}, "vi"),
        ({"shift": -0.5, "error": 0.05}, "neither"),
        ({"shift": -0.5, "error": 0.2}, "vi"),
        ({"shift": -0.5, "error": np.nan}, "vi"),
    ],
)
def test_a_mean_that_may_have_been_left_on_its_way_must_not_be_contradicted_by_weights(
    changes, mean
):
    """As where a narrow part, which takes smaller steps than chains do, lies within a wide one."""
    under = known(**({"converged": False, "weights_work": False, "chains": one_quantity()}
                     | changes))  # fmt: skip
    assert choose_mean(under)[1] == mean
    assert choose_sd(under)[1] == "vi"


@pytest.mark.parametrize(
    ("joint_khat", "effective", "others"),
    [
        (1.1, MOST_COUNT + 0.01, "neither"),
        (1.1, MOST_COUNT - 0.01, "vi"),
        (0.9, MOST_COUNT + 0.01, "vi"),
    ],
)
def test_of_two_populations_no_mean_is_believed_if_any_moves(joint_khat, effective, others):
    """Chains are on their way to the other; how far that is, they have not seen."""
    populations = {"joint_khat": joint_khat, "effective": effective, "weights_work": False}
    for moves, mean in ((0.05, others), (0.0, "vi")):
        under = known(chains=one_quantity(shift=moves, growth=0.5), **populations)
        assert choose_mean(under) == [mean, mean]


def test_a_level_follows_from_what_may_be_used():
    names, low, high = ("a", "b", "c"), np.array([0.3, 0.3, 0.3]), np.array([0.3, 0.8, 0.9])

    def found(means, sds, khats=(low, high)):
        return evidence_of_estimates(names, means, sds, khats, 0.7)

    assert found(["vi", "psis", "vi"], ["vi", "psis", "vi"]) == []
    (sds,) = found(["vi"] * 3, ["vi", "neither", "neither"])
    assert sds.sentence == (
        "The approximation is usable in part only: the weights do not correct the sd of c (its own "
        "khat of 0.90 is not below 0.70), and 1 more estimate."
    )
    assert sds.hint.startswith("All means can be used, and sds where")
    (mean,) = found(["vi", "neither", "vi"], ["vi"] * 3)
    assert "the mean of b (short chains contradict it)." in mean.sentence
    assert mean.hint.startswith("2 of 3 means can be used")
    (unknown,) = found(["neither"] * 3, ["vi"] * 3, (np.array([0.9, np.nan, 0.3]), high))
    assert "the mean of b (which has no khat of its own), and 2 more estimates." in unknown.sentence
