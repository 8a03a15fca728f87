"""When a verdict is settled, and how often that is wrong."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from vicheck.judging import judge_psis
from vicheck.judging.stopping import (
    DRAWS_FOR_GOOD,
    LEAST_DRAWS,
    estimate_is_settled,
    level_is_settled,
    modes_are_settled,
    side_is_certain,
)
from vicheck.results.psis import PsisStatus
from vicheck.stats.psis import psis_quietly
from vicheck.stats.reliability import khat_threshold


def found(low, high, num_draws=8000, status=PsisStatus.OK):
    return SimpleNamespace(
        status=status,
        num_draws=num_draws,
        threshold=khat_threshold(num_draws),
        khat_interval=lambda level: (low, high),
        tail_fits=None,
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
    middle = (low + high) / 2
    assert level_is_settled(found(low, high), [middle, middle]) is settled


@pytest.mark.parametrize(
    ("earlier", "settled"),
    [([1.2, 1.3], True), ([0.9, 1.3], False), ([1.2, 1.6], False), ([1.2, np.nan], False)],
)
def test_khat_must_have_been_steady(earlier, settled):
    assert level_is_settled(found(1.0, 1.5), earlier) is settled


def test_good_needs_more_draws_than_bad():
    assert not level_is_settled(found(1.0, 2.0, LEAST_DRAWS - 1), [1.5, 1.5])
    assert level_is_settled(found(1.0, 2.0, LEAST_DRAWS), [1.5, 1.5])
    assert not level_is_settled(found(-0.5, -0.4, DRAWS_FOR_GOOD - 1), [-0.45, -0.45])
    assert level_is_settled(found(-0.5, -0.4, DRAWS_FOR_GOOD), [-0.45, -0.45])


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
        assert level_is_settled(found(np.nan, np.nan, num_draws, status), [np.nan] * 2) is settled


TAILS = {
    "exactly Pareto": lambda rng, k: np.log(np.expm1(k * rng.exponential(size=100_000))),
    "narrow normal": lambda rng, k: 0.5 * k * rng.chisquare(10, 100_000),
    "log normal, whose khat falls": lambda rng, k: 3.0 * k * rng.standard_normal(100_000),
    "Student's t, whose khat rises": lambda rng, k: (
        stats.t.logpdf(z := rng.standard_normal((100_000, 3)), 3.0 / k) + 0.5 * z**2
    ).sum(axis=1),
}


@pytest.mark.slow
def test_at_most_one_in_a_hundred_levels_that_were_settled_early_changes():
    """With 100,000 draws, of which the early ones are the first: khat on all sides of 0.5, 0.7."""
    early = changed = 0
    for number, draw in enumerate(TAILS.values()):
        for k in (0.1, 0.3, 0.45, 0.6, 0.8, 1.2):
            for repetition in range(10):
                log_ratios = draw(np.random.default_rng((99, number, repetition)), k)
                results = [
                    psis_quietly(log_ratios[:size], with_weights=False)
                    for size in (1000, 2000, 4000, 8000, 16_000, 32_000, 64_000)
                ]
                khats = [float(result.khat) for result in results]
                for index, result in enumerate(results):
                    if level_is_settled(result, khats[max(0, index - 2) : index]):
                        full = psis_quietly(log_ratios, with_weights=False)
                        early += 1
                        changed += judge_psis(result).level != judge_psis(full).level
                        break
    assert early >= 100  # the rule is not one that never stops
    # Were it 1 in 100, there would be more than this only once in a thousand times.
    assert changed <= stats.binom(early, 0.01).ppf(0.999)


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
    ("khat", "shift", "growth", "num_draws", "settled"),
    [
        (0.1, 0.0, 0.0, 64_000, True),
        (0.1, 0.0, 0.0, 1000, False),  # 0.1 sds are not known well enough from so few draws
        (0.1, 0.11, 0.0, 64_000, False),
        (0.1, 0.0, 0.11, 64_000, False),
        (0.1, 0.4, 0.0, 8000, True),
        (0.1, 0.0, -0.4, 8000, True),
        (0.6, 0.0, 0.0, 8000, False),
        (1.4, 0.1, 0.1, 8000, True),
        (np.nan, 0.0, 0.0, 8000, False),
    ],
)
def test_modes_are_settled_when_khat_and_their_effects_are(khat, shift, growth, num_draws, settled):
    pooled = SimpleNamespace(khat=khat, shift=np.array([shift]), growth=np.array([growth]))
    assert modes_are_settled(pooled, num_draws) is settled
    assert modes_are_settled(None, num_draws)
