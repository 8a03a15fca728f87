"""Draws by NUTS whose chains have mixed, and what is believed of them all the same."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd

import vicheck
from tests.plots.rescues import sampled_rescue
from vicheck.rescuing.believed import doubtful_sds


def sampled(x):
    """Return draws by NUTS of two scalars: x, and a normal."""
    draws = np.stack([x, np.random.default_rng(8).normal(size=x.shape)], axis=2)
    names = ["x[0]", "x[1]"]
    numbers = [dict.fromkeys(names, each) for each in (1.0, 4000.0, 0.02)]
    return vicheck.Reference(draws, {"x": draws}, *numbers, num_divergent=0)


def checked(sds, weights_work="yes"):
    """Return as much of a check as is looked at."""
    verdict = SimpleNamespace(weights_work=SimpleNamespace(value=weights_work))
    table = pd.DataFrame({"psis_sd": sds}, index=["x[0]", "x[1]"])
    return SimpleNamespace(moments=table, verdict=verdict, khat=0.29)


def test_an_sd_that_is_infinite_is_not_had_from_draws():
    rng = np.random.default_rng(5)
    heavy = rng.pareto(1.9, size=(4, 1000))
    reference = sampled(heavy)
    doubts = doubtful_sds(reference, checked([heavy.std(), 1.0]))
    assert list(doubts) == ["x[0]"]
    assert "khat of their squared deviations is" in doubts["x[0]"]


def test_tails_that_have_a_variance_are_believed():
    """Those of t with 5 degrees of freedom and of an exponential, over twenty seeds."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        for x in (rng.standard_t(5.0, size=(4, 1000)), rng.exponential(size=(4, 1000))):
            assert doubtful_sds(sampled(x), checked([x.std(), 1.0])) == {}


def test_nuts_does_not_overrule_weights_that_work():
    x = np.random.default_rng(6).normal(size=(4, 1000))
    reference = sampled(x)
    doubts = doubtful_sds(reference, checked([2.1, 1.0]))
    assert list(doubts) == ["x[0]"]
    assert doubts["x[0]"].startswith("weighted draws with a khat of 0.29 have one 2.1 times")
    assert doubtful_sds(reference, checked([1.05, 1.0])) == {}
    assert doubtful_sds(reference, checked([2.1, 1.0], weights_work="no")) == {}


def test_a_rescue_leaves_such_an_sd_out():
    rescue = sampled_rescue()
    name = rescue.check.names[0]
    table = replace(rescue, doubtful=(name,)).moments
    assert np.isnan(table.loc[name, "sd"])
    assert np.isfinite(table.loc[name, "mean"])
    assert np.isfinite(table["sd"].drop(name)).all()
