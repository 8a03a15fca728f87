"""What counts as a false assurance and as a false alarm, on records made by hand."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from truth.cases import Case, _row, cases_of, measure
from truth.outcomes import outcomes_of
from truth.page import as_markdown
from truth.picture import draw
from truth.problem import FAR, Moments
from truth.problems import all_problems
from truth.scores import summarise

PROBLEMS = all_problems()


def quantity(vi=(0.0, 1.0), psis=(0.0, 1.0), use="vi", use_sd=None, mcse=0.0, sd=1.0, **more):
    """Return a quantity whose truth is mean 0, and what was said of it."""
    return {
        "name": "x", "mean": 0.0, "sd": sd, "unit": 1.0, "mean_error": 0.0, "sd_error": 0.0,
        "khat": 0.2, "shift": 0.0, "use_mean": use, "use_sd": use_sd or use,
        "vi": {"mean": vi[0], "sd": vi[1], "mcse": mcse, "mcse_sd": mcse},
        "psis": {"mean": psis[0], "sd": psis[1], "mcse": mcse, "mcse_sd": mcse},
    } | more  # fmt: skip


def record(*quantities, level="good", khat=0.2, problem="p", tags=(), **more):
    return {
        "key": "p | mean_field | deterministic | 0", "problem": problem, "kind": "shape",
        "tags": list(tags), "half": "held out", "family": "mean_field", "solver": "deterministic",
        "seed": 0, "found_by": "closed form", "exact": True, "status": "CONVERGED", "level": level,
        "answers": {"elsewhere": "unknown"}, "khat": khat, "threshold": 0.7, "ess": 5000.0,
        "log_evidence": {"value": 0.0, "mcse": 0.1, "truth": 0.0}, "fit_seconds": 1.0,
        "seconds": 3.0, "processor_seconds": 2.0,
        "quantities": list(quantities),
    } | more  # fmt: skip


def levels(*records):
    return summarise(records)["all"]["levels"]


def only(**settings):
    (outcome,) = outcomes_of(record(quantity(**settings)))
    return outcome


@pytest.mark.parametrize(
    ("mean", "mcse", "right", "wrong"),
    [
        (0.09, 0.0, True, False),
        (0.11, 0.0, False, True),
        (-0.11, 0.0, False, True),
        (0.11, 0.01, False, False),  # within three Monte Carlo errors of right
        (0.14, 0.01, False, True),
        (0.31, 10.0, False, True),  # no error excuses more than 0.2
        (0.11, math.nan, False, True),  # nor does one that is not known
        (math.nan, 0.0, False, True),
    ],
)
def test_a_mean_is_wrong_beyond_a_tenth_and_three_errors(mean, mcse, right, wrong):
    estimate = only(vi=(mean, 1.0), mcse=mcse).means["vi"]
    assert (estimate.right, estimate.wrong) == (right, wrong)


@pytest.mark.parametrize(
    ("sd", "right", "wrong"), [(1.09, True, False), (0.89, False, True), (1.11, False, True)]
)
def test_an_sd_is_wrong_beyond_a_tenth_of_itself(sd, right, wrong):
    estimate = only(vi=(0.0, sd)).sds["vi"]
    assert (estimate.right, estimate.wrong) == (right, wrong)


def test_no_sd_is_right_where_there_is_no_variance():
    outcome = only(sd=math.inf)
    assert outcome.sds["vi"].wrong
    assert outcome.sds["psis"].wrong
    assert outcome.means["vi"].right


def test_good_promises_plain_numbers_and_usable_weighted_ones():
    wrong_vi, wrong_psis = quantity(vi=(0.0, 0.5)), quantity(psis=(0.5, 1.0))
    assert levels(record(wrong_vi))["good"] == {"said": 1, "false": 1, "false_means": 0}
    assert levels(record(wrong_psis))["good"]["false"] == 0
    assert levels(record(wrong_vi, level="usable"))["usable"]["false"] == 0
    usable = levels(record(wrong_psis, quantity(), level="usable"))["usable"]
    assert usable == {"said": 1, "false": 1, "false_means": 1}
    unreliable = levels(record(wrong_vi, wrong_psis, level="unreliable"))
    assert all(level["said"] == 0 for level in unreliable.values())


def test_means_and_sds_are_recommended_apart():
    scores = summarise([
        record(
            quantity(vi=(0.5, 1.0), use="vi", use_sd="neither"),
            quantity(psis=(0.0, 0.5), use="vi", use_sd="psis"),
            quantity(use="neither"),
        )
    ])["all"]  # fmt: skip
    assert scores["means"] == {"recommended": 2, "wrong": 1, "right": 2, "refused": 1}
    assert scores["sds"] == {"recommended": 1, "wrong": 1, "right": 3, "refused": 2}


def test_a_false_alarm_is_a_fit_all_of_whose_numbers_are_right():
    right, wrong = quantity(), quantity(vi=(1.0, 1.0))
    scores = summarise([
        record(right, right, level="unreliable"),
        record(right, wrong, level="unreliable"),
        record(right, level="good"),
        record(right, level="none"),
    ])["all"]  # fmt: skip
    assert (scores["all_right"], scores["all_right_refused"]) == (3, 2)


def test_far_modes_are_counted_apart():
    far = record(quantity(vi=(5.0, 1.0)), tags=[FAR])
    scores = summarise([far, record(quantity())])
    assert scores["all"]["levels"]["good"]["false"] == 1
    assert scores["without_far_modes"]["levels"]["good"] == {
        "said": 1, "false": 0, "false_means": 0,
    }  # fmt: skip


def test_witnesses_speak_for_themselves():
    weighted_is_wrong = quantity(psis=(0.5, 1.0), drift=0.5, drift_error=0.01)
    scores = summarise([record(weighted_is_wrong, khat=0.6), record(quantity(), khat=0.8)])
    by_name = {row["name"]: row["means"] for row in scores["witnesses"]}
    assert by_name["khat < 0.7: weighted (the paper)"] == {
        "recommended": 1, "wrong": 1, "right": 2, "refused": 1,
    }  # fmt: skip
    assert by_name["khat < 0.5: plain"]["refused"] == 2
    # Of the second fit there are no chains: they have no say.
    drift = by_name["short chains do not drift: plain"]
    assert (drift["right"], drift["refused"]) == (1, 1)
    assert by_name["vicheck, all together"]["recommended"] == 2


def test_coverage_counts_each_fit_once_and_leaves_out_what_q_cannot_know():
    inside, outside = quantity(psis=(0.1, 1.0), mcse=0.1), quantity(psis=(0.3, 1.0), mcse=0.1)
    off = {"log_evidence": {"value": 1.0, "mcse": 0.1, "truth": 0.0}}
    below, between = summarise([
        record(inside, outside, **off),
        record(inside, inside),
        record(outside, tags=[FAR]),
        record(outside, exact=False),
        record(outside, khat=0.9),
        record(outside, khat=0.6),
    ])["coverage"]  # fmt: skip
    assert (below["fits"], below["means"], below["log_evidence"]) == (2, 0.75, 0.5)
    assert (between["fits"], between["means"]) == (1, 0.0)


def test_the_page_lists_every_false_assurance_by_name():
    records = [
        record(quantity(vi=(0.0, 0.2), name="tau"), problem="a narrow fit"),
        record(quantity(vi=(0.0, 0.2), use="neither"), problem="a careful one", level="none"),
        record(quantity(vi=(math.nan, 1.0)), problem="a fit without a mean", khat=math.nan),
        record(quantity(), problem="all is well"),
        record(problem="a model that is refused", level="refused"),
    ]
    scores = json.loads(json.dumps(summarise(records), allow_nan=False)) | {"made": "today"}
    page = as_markdown({"before": scores, "now": scores})
    listed = page.split("## Every false assurance")[1].split("## All problems")[0]
    assert "| a narrow fit | good: mean_field, deterministic (1) |  | 1 |  | tau: 0.2 |" in listed
    assert "x: undefined" in listed
    assert "a careful one" not in listed
    assert "all is well" not in listed
    assert "| | target | before | now |" in page
    assert "not counted: 1" in page
    assert "Known limits" not in page
    page = as_markdown({"now": scores, "limits": {"by_problem": scores["by_problem"], "made": "x"}})
    assert "| a careful one |" in page.split("## Known limits")[1]
    again = summarise([record(quantity(), problem="a narrow fit", level="usable")])
    page = as_markdown({"now": scores, "since": {"by_problem": again["by_problem"], "made": "x"}})
    rerun = page.split("## Rerun since")[1].split("## The picture")[0]
    assert "| fits called `good` | 1 | 0 |\n| ... falsely | 1 | 0 |" in rerun
    assert "| a narrow fit | closed form | 0 / 1 / 0 / 0 |" in rerun
    draw(scores["points"])  # points without khat or error do not trouble it


def test_columns_of_their_own_for_mean_and_sd_are_read_where_they_are():
    shown = {"vi_mean": 1.0, "vi_sd": 2.0, "psis_mean": 1.0, "psis_sd": 2.0, "mcse": 0.1,
             "shift": 0.0, "khat": 0.3, "use": "neither"}  # fmt: skip
    values, known = np.array([0.0, 1.0, 2.0]), Moments(1.0, 2.0)
    log_weights = np.full(3, -np.log(3.0))
    told = _row("x", pd.Series(shown), known, 100.0, values, log_weights)
    assert (told["use_mean"], told["use_sd"]) == ("neither", "neither")
    more = {"use_mean": "chains", "use_sd": "psis", "drift": 0.2, "drift_error": 0.1,
            "chains_mean": 1.5, "chains_sd": 2.5}  # fmt: skip
    told = _row("x", pd.Series(shown | more), known, 100.0, values, log_weights)
    assert (told["use_mean"], told["use_sd"]) == ("chains", "psis")
    assert (told["drift"], told["drift_error"]) == (0.2, 0.1)
    assert (told["chains"]["mean"], told["chains"]["sd"]) == (1.5, 2.5)
    assert told["mean_error"] == 0.2  # of 100 draws from a posterior of sd 2


def test_a_case_is_measured_against_its_truth():
    problem = PROBLEMS["q ten times too wide, 1 dimensions"]
    case = next(cases_of(problem))
    assert case == Case(problem.name, "given", "none", 0)
    told = measure(case, problem, problem.truth(), None)
    assert json.loads(json.dumps(told)) == told
    (outcome,) = outcomes_of(told)
    assert outcome.sds["vi"].error == pytest.approx(9.0, abs=0.5)
    assert outcome.sds["psis"].right
