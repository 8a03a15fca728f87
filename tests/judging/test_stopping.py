"""When a verdict is settled, and how often that is wrong."""

from types import SimpleNamespace

import numpy as np
import pytest

from vicheck.judging.stopping import (
    DRAWS_FOR_GOOD,
    estimate_is_settled,
    level_is_settled,
    modes_are_settled,
    side_is_certain,
)
from vicheck.results.psis import PsisStatus
from vicheck.stats.reliability import khat_threshold


def found(low, high, num_draws=8000, status=PsisStatus.OK):
    return SimpleNamespace(
        status=status,
        num_draws=num_draws,
        threshold=khat_threshold(num_draws),
        khat_interval=lambda level: (low, high),
    )


@pytest.mark.parametrize(
    ("low", "high", "certain"),
    [
        (0.1, 0.4, True),
        (0.55, 0.65, True),
        (0.8, 0.9, True),
        (0.5, 0.6, True),  # 0.5 itself is not below 0.5
        (0.4, 0.5, False),
        (0.6, 0.71, False),
        (0.1, 0.9, False),
        (np.nan, np.nan, False),
    ],
)
def test_an_interval_is_on_one_side_or_not(low, high, certain):
    assert side_is_certain(low, high, [0.5, 0.7]) is certain


# With 8000 draws khat may drift by 0.03 log2(100,000 / 8000) = 0.109 yet.
@pytest.mark.parametrize(
    ("low", "high", "settled"),
    [
        (0.1, 0.38, True),
        (0.1, 0.40, False),
        (0.82, 1.2, True),
        (0.80, 1.2, False),
        (0.59, 0.61, False),
    ],
)
def test_what_khat_may_drift_is_added(low, high, settled):
    assert level_is_settled(found(low, high)) is settled


def test_good_needs_more_draws_than_bad():
    assert level_is_settled(found(1.0, 2.0, 1000))
    assert not level_is_settled(found(-0.5, -0.4, DRAWS_FOR_GOOD - 1))
    assert level_is_settled(found(-0.5, -0.4, DRAWS_FOR_GOOD))


@pytest.mark.parametrize(
    ("status", "few", "many"),
    [
        (PsisStatus.NOT_FINITE, True, True),
        (PsisStatus.CONSTANT, False, True),
        (PsisStatus.ALL_ZERO, False, False),
        (PsisStatus.TOO_FEW_POSITIVE, False, False),
    ],
)
def test_without_khat_it_depends_on_the_reason(status, few, many):
    for num_draws, settled in ((1000, few), (8000, many)):
        assert level_is_settled(found(np.nan, np.nan, num_draws, status)) is settled


@pytest.mark.parametrize(
    ("khat", "difference", "settled"),
    [
        (0.1, (0.01, 0.005, 0.0, 0.005), True),  # both agree: "vi"
        (0.1, (0.04, 0.005, 0.0, 0.005), False),
        (0.1, (0.20, 0.005, 0.0, 0.050), True),  # they differ, whatever the sd does: "psis"
        (0.1, (-0.20, 0.005, 0.0, 0.050), True),
        (0.1, (0.00, 0.005, 0.3, 0.050), True),
        (0.1, (0.06, 0.005, 0.0, 0.005), False),
        (0.6, (0.00, 0.0, 0.0, 0.0), False),  # khat may be on either side
        (1.3, (0.05, 0.1, 0.05, 0.1), True),  # "neither", whatever the moments are
        (np.nan, (0.05, 0.1, 0.05, 0.1), True),
        (0.1, (np.nan, np.nan, np.nan, np.nan), False),
    ],
)
def test_an_estimate_is_settled_when_nothing_could_choose_another(khat, difference, settled):
    assert estimate_is_settled(khat, 8000, *difference) is settled


@pytest.mark.parametrize(
    ("khat", "missed", "num_draws", "settled"),
    [
        (0.1, 0.0, 8000, True),
        (0.1, 0.0, 1000, False),  # 5% of so few draws is not known well enough
        (0.1, 0.06, 8000, False),
        (0.1, 0.4, 8000, True),
        (0.6, 0.0, 8000, False),
        (1.4, 0.05, 8000, True),
        (np.nan, 0.0, 8000, False),
    ],
)
def test_modes_are_settled_when_khat_and_mass_are(khat, missed, num_draws, settled):
    pooled = SimpleNamespace(khat=khat, missed=missed)
    assert modes_are_settled(pooled, num_draws) is settled
    assert modes_are_settled(None, num_draws)
