"""The table of moments: its errors, and that the verdict promises no more than it allows."""

import numpy as np
import pytest

import vicheck
from tests.judging.situations import pooled
from vicheck.checking.moments import error_by_modes


def errors(names, modes, spoilt):
    by_modes = error_by_modes(names, np.full(len(names), 2.0), modes, np.array(spoilt), 0.7)
    return np.hypot(0.01, by_modes)


def test_errors_hold_what_other_modes_do():
    """A mode with 30% moves the mean of mu by 3 sds of the mixture, and that of other by none."""
    found = errors(("mu", "other"), pooled(0.3), [True, False])
    sd = 2.0 * np.sqrt(1.0 + 100.0 * 0.3 * 0.7)
    np.testing.assert_allclose(found, [np.hypot(0.01, 3.0 * sd), 0.01])


@pytest.mark.parametrize("modes", [None, pooled(0.3, khat=0.8), pooled(0.3, khat=np.nan)])
def test_what_is_not_known_of_other_modes_is_an_infinite_error(modes):
    found = errors(("mu", "other"), modes, [True, False])
    assert found.tolist() == [np.inf, 0.01]


def test_quantities_that_a_mixture_has_not_looked_at():
    found = errors(("mu", "new"), pooled(0.0), [False, True])
    assert found.tolist() == [0.01, np.inf]


def given(df, sd, num_draws=50_000):
    """Return a check of a normal q, without a model, for a t distribution."""
    x = sd * np.random.default_rng(4).normal(size=num_draws)
    log_p = -(df + 1) / 2 * np.log1p(x**2 / df)
    return vicheck.check_draws(x[:, None], log_p, -(x**2) / (2.0 * sd**2))


def test_the_verdict_promises_no_sd_that_the_table_refuses():
    """The tails of a t(5) are too heavy for its sd, and not for its mean."""
    refused = given(5, 1.2)
    assert refused.khat < refused.psis.threshold
    assert refused.moments["use_mean"].tolist() == ["vi"]
    assert refused.moments["use_sd"].tolist() == ["neither"]
    assert (refused.verdict.level, refused.verdict.decided_by) == ("unreliable", "not-all-usable")
    assert "the weights do not correct the sd of" in str(refused.verdict)
    assert refused.verdict.hint.startswith("All means can be used")
    assert str(refused.verdict.weights_work) == "no"


@pytest.mark.parametrize("sd", [1.2, 1.4, 1.6])
def test_a_quantity_whose_tail_is_not_pareto_is_judged_further_out(sd):
    """The ratios of a t(30) are bounded here; at 1.2 the khat of the usual tail is 3."""
    fine = given(30, sd)
    assert (fine.moments[["khat", "khat_sd"]] < 0.7).all(axis=None)
    assert (fine.moments[["use_mean", "use_sd"]] != "neither").all(axis=None)
    assert np.isfinite(fine.moments["mcse"]).all()
    assert fine.verdict.level in ("good", "usable")


def test_a_huge_value_without_weight_changes_no_khat():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(20_000, 2))
    log_q = -0.5 * (x**2).sum(axis=1)
    log_p = 0.9 * log_q
    expected = vicheck.check_draws(x, log_p, log_q).moments
    huge = x.copy()
    huge[3] = 1e12
    log_p[3] = -1e15
    spoiled = vicheck.check_draws(huge, log_p, log_q).moments
    for column in ("khat", "khat_sd", "psis_mean", "psis_sd"):
        np.testing.assert_allclose(spoiled[column], expected[column], atol=0.05)
