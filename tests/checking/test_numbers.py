"""Quantiles and the summary of a check: the numbers that people report."""

import numpy as np
import pytest
from scipy.stats import norm

import vicheck
from tests.plots.subjects import funnel_check, normal_check
from vicheck.errors import ArgumentError


@pytest.fixture(scope="module")
def narrow():
    """Return a check of N(0, 0.8^2) for N(0, 1), khat about 0.36."""
    return normal_check(size=20_000)


@pytest.fixture(scope="module")
def funnel():
    return funnel_check(4000)


def test_quantiles_have_the_names_of_posterior_and_the_values_of_the_truth(narrow):
    table = narrow.quantiles()
    assert list(table.index) == list(narrow.names)
    assert list(table)[:4] == ["vi_q5", "psis_q5", "mcse_q5", "use_q5"]
    for prob, label in ((0.05, "q5"), (0.5, "q50"), (0.95, "q95")):
        truth, error = norm.ppf(prob), table[f"mcse_{label}"]
        np.testing.assert_allclose(table[f"vi_{label}"], 0.8 * truth, atol=0.03)
        assert ((table[f"psis_{label}"] - truth).abs() < 4 * error).all()
        assert (error < 0.2).all()
    assert (table["use_q50"] != "neither").all()
    assert (table["use_q5"] == "psis").all()  # plain, it is a third of an sd off


@pytest.mark.parametrize(
    ("prob", "columns"), [(0.025, ["q2.5"]), ((0.1, 0.9), ["q10", "q90"]), ([1 / 3], ["q33.3333"])]
)
def test_probabilities_can_be_chosen(narrow, prob, columns):
    found = narrow.quantiles(prob)
    assert [name for name in found if name.startswith("vi_")] == [f"vi_{each}" for each in columns]


def test_some_quantities_are_a_part_of_all(narrow):
    some = narrow.quantiles(quantities=["x[2]", "x[0]"])
    assert some.equals(narrow.quantiles().loc[["x[2]", "x[0]"]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prob": 5}, "prob must be numbers between 0 and 1, got 5: 0.05 is the quantile of 5%"),
        ({"prob": [0.0, 0.5]}, "prob must be numbers between 0 and 1"),
        ({"prob": "median"}, "prob must be numbers between 0 and 1, got 'median'"),
        ({"prob": []}, "prob must be numbers"),
        ({"prob": [0.5, 0.5]}, "prob must name each quantile once"),
        ({"quantities": ["nu"]}, "quantities has 'nu', not a quantity of this check"),
    ],
)
def test_what_is_no_quantile(narrow, options, message):
    with pytest.raises(ArgumentError, match=message):
        narrow.quantiles(**options)


def test_nothing_may_be_used_of_an_unreliable_check(funnel):
    table = funnel.quantiles()
    assert (table.loc[["tau", "theta"], ["use_q5", "use_q50", "use_q95"]] == "neither").all().all()


def test_a_summary_has_the_columns_of_arviz_and_the_numbers_that_may_be_used(narrow):
    moments = narrow.moments
    assert narrow.verdict.level in ("good", "usable")
    table = narrow.summary()
    assert list(table) == [
        "mean", "sd", "eti90_lb", "eti90_ub", "mcse_mean", "mcse_sd", "ess_mean", "khat", "source",
    ]  # fmt: skip
    assert (table["source"] == "psis").all()
    assert table["mean"].equals(moments["psis_mean"])
    assert table["eti90_lb"].equals(narrow.quantiles()["psis_q5"])
    assert ((table["sd"] - 1.0).abs() < 4 * table["mcse_sd"]).all()
    assert (table["ess_mean"] < narrow.psis.num_draws).all()
    np.testing.assert_allclose(table["mcse_mean"] * np.sqrt(table["ess_mean"]), moments["psis_sd"])
    assert "eti50_lb" in narrow.summary(ci_prob=0.5)
    with pytest.raises(ArgumentError, match="ci_prob must lie between 0 and 1, got 90"):
        narrow.summary(ci_prob=90)


def test_a_summary_of_what_cannot_be_relied_on_warns_and_holds_nothing(funnel):
    with pytest.warns(vicheck.UnreliableWarning, match="usable in part only") as caught:
        table = funnel.summary()
    assert caught[0].filename == __file__
    assert table.loc["tau", ["mean", "sd", "eti90_lb", "mcse_mean", "mcse_sd"]].isna().all()
    assert table.loc["tau", "source"] == "neither"


def test_errors_of_sds_hold_what_they_promise():
    """95% intervals hold in at least 90% of 150 repetitions; khat is about 0.2."""
    held = 0
    for seed in range(150):
        z = 0.9 * np.random.default_rng(seed).normal(size=(2000, 1))
        checked = vicheck.check_draws(z, -(z[:, 0] ** 2) / 2, -(z[:, 0] ** 2) / (2 * 0.81))
        row = checked.summary().iloc[0]
        held += abs(row["sd"] - 1.0) <= 1.96 * row["mcse_sd"] or np.isnan(row["sd"])
    assert held >= 135
