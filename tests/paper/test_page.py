"""The page in the docs is made from the numbers committed beside it."""

import re
from pathlib import Path

import numpy as np
import pytest

from vicheck.paper.catalogue import NAMES
from vicheck.paper.drawing import as_svg
from vicheck.paper.fig7 import _valley, summarise
from vicheck.paper.page import as_html, as_markdown, claims_of
from vicheck.paper.results import read_results

DOCS = Path(__file__).parents[2] / "docs" / "paper"

# What a run of the whole paper has to show, whatever else comes out.
EXPECTED = {
    "khat falls as the tolerance is tightened: it is a test of convergence": "holds",
    "khat grows with the correlation of the design": "holds",
    "tau is over-estimated in the centred parametrization": "holds",
    "khat is blind to a mode that q never visits": "holds",
    "VSBC diagnoses the missing mode": "holds",
    "khat is invariant under any smooth reparametrization of the same q": "holds",
}


@pytest.fixture(scope="module")
def results():
    return read_results(DOCS)


def test_the_committed_run_is_full_and_complete(results):
    assert [each.label for each in results if not each.as_scripted] == list(NAMES)
    assert not any(each.quick for each in results)
    assert not any(each.is_synthetic for each in results)


def test_the_page_is_what_the_numbers_give(results):
    assert (DOCS / "index.md").read_text() == as_markdown(results)


@pytest.mark.slow
def test_the_figures_are_what_the_numbers_give(results):
    for each in results:
        picture = (DOCS / f"{each.label}.svg").read_text()
        assert as_svg(each.experiment.draw, each.numbers) == picture, each.label


def test_the_claims_that_must_hold_do(results):
    claims = claims_of(results)
    assert len({(claim.where, claim.claim) for claim in claims}) == len(claims)
    outcomes = {c.claim: c.outcome for c in claims if "scripted" not in c.where}
    assert {claim: outcomes[claim] for claim in EXPECTED} == EXPECTED


def test_the_directions_of_figure_6_hold_with_the_printed_priors(results):
    (numbers,) = (each.numbers for each in results if each.label == "fig6")
    for way, direction in (("centred", "over"), ("noncentred", "under")):
        assert numbers["converged"][way]["quantities"]["tau"]["direction"] == direction


def test_figure_7_shows_the_missing_mode_and_a_khat_far_above_the_threshold(results):
    (numbers,) = (each.numbers for each in results if each.label == "fig7")
    assert min(one["khat"] for one in numbers["converged"]) > 2.0
    assert 3.0 < numbers["nuts"]["valley"] < 9.0
    assert 0.1 < np.mean(numbers["nuts"]["right_by_chain"]) < 0.9
    for way in ("converged", "stan"):
        share = numbers[f"best_{way}"]["right"]
        assert share < 0.05 or share > 0.95


def test_a_valley_lies_between_two_modes_or_nowhere():
    rng = np.random.default_rng(0)
    one, other = rng.normal(0.0, 1.0, 1000), rng.normal(10.0, 1.0, 600)
    assert 2.0 < _valley(np.concatenate([one, other])) < 8.0
    assert _valley(np.linspace(-1.0, 1.0, 1000) ** 3) is None


def test_figure_7_keeps_what_it_shows_of_the_draws():
    rng = np.random.default_rng(0)
    log_lambda = np.stack([rng.normal(centre, 1.0, (1000,)) for centre in (0.0, 10.0)])
    draws = {"beta": rng.normal(0.0, 0.1, (2, 1000)), "log_tau": log_lambda}
    nuts = {"chains": 2, "draws": draws | {"log_lambda": log_lambda}}
    own = {"beta": [0.5, 2.0, 3.0, 4.0], "log_lambda": [0.0, 1.0, 2.0, 9.0], "log_tau": [1.0, 2.0]}
    worse = {"elbo": -9.0, "draws": own | {"beta": [0.0], "log_lambda": [9.0, 9.5]}}
    runs = [worse, {"elbo": -1.0, "draws": own}, {"elbo": None, "draws": worse["draws"]}]
    numbers = summarise(nuts, {"converged": runs})
    assert numbers["converged"] == [{"elbo": -9.0}, {"elbo": -1.0}, {"elbo": None}]
    np.testing.assert_allclose(numbers["nuts"]["right_by_chain"], [0.0, 1.0], atol=0.01)
    assert "draws" not in numbers["nuts"]
    best = numbers["best_converged"]
    assert (best["right"], best["large"]) == (0.25, 0.75)
    assert best["curves"]["beta"].sum() == 1.0
    curve = numbers["nuts"]["curves"]["log_lambda"]
    grid = np.linspace(curve["low"], curve["high"], len(curve["density"]))
    assert np.trapezoid(curve["density"], grid) == pytest.approx(1.0, abs=0.01)
    assert curve["density"] @ grid / curve["density"].sum() == pytest.approx(5.0, abs=0.1)


@pytest.mark.slow
def test_the_page_stands_alone(results):
    page = as_html(results[:3])  # drawing all takes a minute, and adds nothing
    links = re.findall(r'(?:src|href)="([^"]{0,10})', page)
    assert set(links) == {"data:image"}
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    assert f'Content-Security-Policy" content="{policy}' in page
    for figure in DOCS.glob("*.svg"):
        loaded = re.findall(r'href="([^"]{0,8})', figure.read_text())
        assert not [link for link in loaded if not link.startswith("#")]
    assert page.count("<h1>") == 1
    assert page.count('alt="') == page.count("<img")
