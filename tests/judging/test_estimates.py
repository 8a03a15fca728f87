"""Which estimate may be used, by khat, chains and modes together."""

from dataclasses import replace

import numpy as np
import pytest

from tests.judging.situations import chains as chains_of
from tests.judging.situations import drift
from vicheck.judging.estimates import Witnesses, choose_mean, choose_sd, weaker


def known(
    khat=0.3, khat_sd=0.3, shift=0.0, growth=0.0, weights_work=True, spoilt=False, chains=None
):
    """Return what is known of two quantities, of the second as said."""
    one = [np.array([each, each]) for each in (khat, khat_sd, shift, growth, spoilt)]
    return Witnesses(one[0], one[1], 0.7, one[2], one[3], weights_work, one[4], chains)


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


def one_quantity(rhat=1.0, shift=0.0, growth=0.0, error=0.02, starts="q"):
    return chains_of(drift(shift, growth, error), rhat=np.array([1.0, rhat]), starts=starts)


@pytest.mark.parametrize(
    ("chains", "mean", "sd"),
    [
        (one_quantity(), "vi", "vi"),  # nothing moves: right under a bad joint
        (one_quantity(growth=0.5), "vi", "neither"),
        (one_quantity(shift=0.5), "neither", "neither"),
        (one_quantity(shift=0.5, growth=0.5), "neither", "neither"),  # as down a funnel
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


def test_the_weaker_of_two_claims_less():
    ordered = ("neither", "psis", "vi")
    for i, one in enumerate(ordered):
        for j, other in enumerate(ordered):
            assert weaker(one, other) == ordered[min(i, j)]


def test_where_one_mean_moves_others_may_follow():
    """As down a funnel, where what depends on tau moves later than tau."""
    moving, still = one_quantity(shift=0.5), one_quantity()
    assert choose_mean(known(weights_work=False, chains=still)) == ["vi", "vi"]
    assert choose_mean(known(weights_work=False, chains=moving)) == ["neither", "neither"]
