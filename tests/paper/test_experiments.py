"""A quick run of everything, as `vicheck paper all --quick` does it; directions must come out."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from vicheck.paper.calibrations import describe
from vicheck.paper.catalogue import NAMES
from vicheck.paper.drawing import as_svg
from vicheck.paper.experiment import Outcome
from vicheck.paper.page import as_html, as_markdown, claims_of
from vicheck.paper.results import read_results, run_experiment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    directory = tmp_path_factory.mktemp("paper")
    for name in NAMES:
        run_experiment(name, directory, lambda what: None, quick=True)
    return directory


@pytest.fixture(scope="module")
def results(out):
    return read_results(out)


@pytest.fixture(scope="module")
def numbers(results):
    return {result.label: result.numbers for result in results}


@pytest.fixture(scope="module")
def page(results):
    """The page, for which every figure is drawn again."""
    return as_html(results)


def median(runs, name):
    return np.median([one[name] for one in runs])


def test_every_experiment_leaves_numbers_and_a_figure(out):
    for name in NAMES:
        record = json.loads((out / f"{name}.json").read_text())
        assert record["quick"] is True
        assert record["seconds"] > 0
        root = ET.fromstring((out / f"{name}.svg").read_text())
        assert root.tag.endswith("svg")


def test_figure_1_sigma_is_over_estimated_by_stan(numbers):
    """Without a bias the mean of 16 would be below 0.35 once in 50 runs; the full run has 0.15."""
    assert numbers["fig1"]["stan"]["quantities"]["sigma"]["mean"] < 0.35
    assert numbers["fig1"]["converged"]["converged"] == 1.0


def test_figure_2_khat_falls_with_the_tolerance(numbers):
    khats = [median(row["runs"], "khat") for row in numbers["fig2"]["rows"]]
    assert khats[0] > 1.0 > khats[-1]
    assert median(numbers["fig2"]["deterministic"], "khat") < 0.5
    assert numbers["fig2"]["nuts"]["rmse"] < 0.01


def test_figure_3_khat_rises_with_the_correlation(numbers):
    khats = [median(row["runs"], "khat") for row in numbers["fig3"]["rows"]]
    assert khats[-1] > 0.7 > khats[0]


def test_figures_3_and_4_show_the_same_runs(numbers):
    assert numbers["fig3"] == numbers["fig4"]


def test_figure_5_khat_prefers_the_noncentred_parametrization(numbers):
    centred, noncentred = (numbers["fig5"][way]["runs"] for way in ("centred", "noncentred"))
    assert median(centred, "khat") > 0.7 > median(noncentred, "khat")


@pytest.mark.parametrize(("way", "direction"), [("centred", "over"), ("noncentred", "under")])
def test_figure_6_tau_is_biased_as_printed(numbers, way, direction):
    tau = numbers["fig6"]["converged"][way]["quantities"]["tau"]
    assert (tau["mean"] < 0.5) == (direction == "over")


def test_figure_7_khat_is_far_above_the_threshold(numbers):
    assert numbers["fig7"]["source"] == "synthetic"
    assert min(one["khat"] for one in numbers["fig7"]["converged"]) > 1.0


def test_figure_8_ran_on_synthetic_data_and_says_so(numbers, page):
    assert numbers["fig8"]["source"] == "synthetic"
    assert "SYNTHETIC" in page


def test_a_missing_mode_is_seen_by_starts_and_vsbc_and_not_by_khat(numbers):
    bimodal = numbers["bimodal"]
    assert bimodal["khat"] < 0.5
    assert sorted(bimodal["several"]["modes"]) == pytest.approx([0.0, 3.0], abs=0.05)
    assert bimodal["vsbc"]["quantities"]["x"]["p_value"] < 0.05
    assert bimodal["kl_p_q"]["exact"] > 10
    assert bimodal["kl_p_q"]["psis"] < 1


def test_khat_is_invariant(numbers):
    assert len(numbers["invariance"]["same_q"]) == 4
    assert numbers["invariance"]["spread"] < 1e-8


def test_every_row_of_the_paper_has_its_claim(results):
    claims = claims_of(results)
    places = {claim.where for claim in claims}
    assert places >= {
        "Section 2.3", "Figure 1", "Section 4.1", "Figure 2", "Figure 3", "Figure 4", "Figure 5",
        "Figure 6", "Section 4.4", "Figure 7", "Figure 8", "Figure I", "Section 5.1", "Section 5.2",
    }  # fmt: skip
    assert all(claim.why and claim.printed for claim in claims)
    assert all(isinstance(claim.outcome, Outcome) for claim in claims)


def test_the_page_has_every_claim_and_says_that_it_is_quick(results, page):
    text = as_markdown(results)
    assert page.count("<figure>") == len(NAMES) == text.count("![")
    assert page.count('<td class="outcome">') == len(claims_of(results))
    assert "not evidence" in page
    assert "not evidence" in text
    assert not {"nan", "None", "inf"} & set(re.split(r"[^a-zA-Z]+", text))


def without_some(value, names):
    """Return numbers in which the first of each list of runs has undefined numbers, as JSON has."""
    if isinstance(value, dict):
        return {key: None if key in names and not isinstance(item, dict | list) else
                without_some(item, names) for key, item in value.items()}  # fmt: skip
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [without_some(value[0], names), *value[1:]]
    return value


@pytest.mark.parametrize("name", ["fig2", "fig3", "fig4", "fig5"])
def test_a_run_without_a_khat_is_left_out(results, name):
    (result,) = (each for each in results if each.label == name)
    numbers = without_some(result.numbers, {"khat"})
    assert numbers != result.numbers
    assert result.experiment.claims(numbers)
    assert "None" not in result.experiment.caption(numbers)
    assert as_svg(result.experiment.draw, numbers)


def test_a_calibration_without_a_mean_says_so(numbers):
    calibration = without_some(numbers["fig8"]["calibration"], {"mean", "bias_low"})
    assert describe(calibration, "tau") == "too few fits to tell"


def test_a_figure_is_the_same_file_every_time(out, results):
    result = results[0]
    picture = (out / f"{result.label}.svg").read_text()
    assert as_svg(result.experiment.draw, result.numbers) == picture
