"""The self-test: it passes here, and it can fail."""

import json

import numpy as np
import pytest

from tests.conftest import REFERENCE
from vicheck.doctor import self_test
from vicheck.doctor.self_test import TRIALS, run_trials


def test_every_part_passes_here():
    trials = list(run_trials())
    assert [trial.name for trial in trials] == list(TRIALS)
    assert all(trial.passed and trial.detail for trial in trials), trials


def test_a_part_that_fails_says_why_and_the_rest_goes_on(monkeypatch):
    def fails():
        raise OSError("no space")

    parts = {"first": fails, "second": lambda: "fine"}
    monkeypatch.setattr(self_test, "TRIALS", parts)
    first, second = run_trials()
    assert (first.passed, first.detail) == (False, "OSError: no space")
    assert (second.passed, second.detail) == (True, "fine")


@pytest.mark.parametrize(
    ("part", "name", "wrong"), [("PSIS", "psis_khat", 1.0), ("PSIS, compiled", "psis_khat", np.nan)]
)
def test_a_wrong_khat_fails(monkeypatch, part, name, wrong):
    monkeypatch.setattr(f"vicheck.stats.psis.{name}", lambda _: wrong)
    with pytest.raises(AssertionError, match=f"khat is {wrong:.6g} and not"):
        TRIALS[part]()


def test_the_known_values_are_those_of_loo():
    cases = json.loads((REFERENCE / "psis_loo.json").read_text())["cases"]
    source = (REFERENCE.parents[1] / "src/vicheck/doctor/self_test.py").read_text()
    for name in ("ascending_S500", "gpd_k1_S10000"):
        assert name in source
        assert repr(cases[name]["pareto_k"]) in source
