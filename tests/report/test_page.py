"""The page itself: what is on it, and that nothing on it can do harm or is lost."""

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import vicheck
from tests.calibration.made import calibration
from tests.plots.rescues import made_rescue, sampled_rescue
from tests.plots.subjects import funnel_check, normal_check
from vicheck.report.page import report_html
from vicheck.report.tables import ROWS_SHOWN, show, show_to
from vicheck.results.convergence import PooledModes
from vicheck.results.estimates import Measure, Predictive

NASTY = (
    "<script>alert(1)</script>",
    "</script><b>",
    "\u03b8\u0302 \u30d1\u30e9\u30e1\u30fc\u30bf",
    "a" * 200,
    "q\"'&amp;",
    "$x$",
)


class Elements(HTMLParser):
    """Gathers headings and elements by their names."""

    def __init__(self, page):
        super().__init__()
        self.levels, self.names, self.attributes = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes.append(dict(attrs))
        if re.fullmatch(r"h[1-6]", tag):
            self.levels.append(int(tag[1]))


@pytest.fixture(scope="module")
def funnel():
    return funnel_check()


@pytest.fixture(scope="module")
def pages(funnel):
    some = calibration(tau=(1.0, 1.0), mu=(0.0, 1.0))
    return {
        "good": report_html(check=normal_check()),
        "funnel": report_html(check=funnel),
        "vsbc": report_html(calibration=some),
        "both": report_html(check=funnel, calibration=some),
    }


@pytest.mark.parametrize("kind", ["good", "funnel", "vsbc", "both"])
def test_a_page_stands_alone(pages, kind):
    page = pages[kind]
    assert page.lstrip().startswith("<!doctype html>")
    assert len(page.encode()) < 2_000_000
    elements = Elements(page)
    assert not {"link", "iframe", "object"} & set(elements.names)
    addresses = [
        value
        for attributes in elements.attributes
        for name, value in attributes.items()
        if name in ("src", "href", "xlink:href") and value
    ]
    assert addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert "url(http" not in page


@pytest.mark.parametrize("kind", ["good", "vsbc", "both"])
def test_a_page_says_what_its_numbers_mean_and_links_there(pages, kind):
    page = pages[kind]
    assert ("<dt>khat</dt>" in page) == (kind != "vsbc")
    assert ("<dt>calibration probability</dt>" in page) == (kind != "good")
    assert page.count('id="meaning"') == 1
    assert page.count('href="#meaning"') >= 2  # at the top, and below each table


@pytest.mark.parametrize("kind", ["good", "funnel", "vsbc", "both"])
def test_headings_are_in_order(pages, kind):
    levels = Elements(pages[kind]).levels
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("kind", ["good", "funnel", "vsbc", "both"])
def test_every_picture_has_a_text_in_its_place(pages, kind):
    elements = Elements(pages[kind])
    labels = [
        attributes.get("aria-label")
        for name, attributes in zip(elements.names, elements.attributes, strict=True)
        if name == "svg"
    ]
    assert len(labels) >= 5
    assert all(labels)
    assert len(set(labels)) == len(labels)


def test_the_order_is_verdict_scale_what_to_do_why_quantities_pairs_divergences(funnel, pages):
    page = pages["funnel"]
    parts = (
        funnel.verdict.sentence, "khat, the shape of the tail", "What to do", "<h3>Why",
        "The ratios", "Quantities", "Where q and the posterior differ most",
        "How far apart", "How it was made",
    )  # fmt: skip
    places = [page.index(part if "(" not in part else part.split("(")[0]) for part in parts]
    assert places == sorted(places)


def test_a_page_says_why_where_something_is_wrong(funnel, pages):
    page = pages["funnel"]
    assert "<h3>Why</h3>" in page
    for cause in funnel.explain().causes:
        assert unescape(page).count(cause.sentence) == 1
    assert "no gradients (no model)" in page
    assert "q is too narrow in" in pages["good"]  # good enough to use with its weights
    near = normal_check(sd=0.98)
    assert near.verdict.level == "good"
    assert "<h3>Why</h3>" not in report_html(check=near)


def test_the_page_shows_what_the_headline_names():
    """One quantity among many is too narrow, which no test of symmetry brings to the top."""
    right = {f"x[{i}]": (0.0, 1.0) for i in range(9)}
    page = report_html(calibration=calibration(1000, **right, scale=(0.0, 0.6)))
    assert "q is too narrow for scale" in page
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    assert captions[0].startswith("scale: no bias shown")
    assert "not all sizes cover what they claim. This quantity decides the verdict." in captions[0]
    assert sum("decides the verdict" in caption for caption in captions) == 1
    assert page.count("\N{BLACK RIGHT-POINTING TRIANGLE} scale") == 2  # histogram and ECDF


def test_the_page_of_a_calibration_says_the_direction_in_words(pages):
    page = pages["vsbc"]
    assert "q sits too high" in page
    assert "small when q sits too high" in page
    assert "the fit has converged" in page


def test_how_it_was_made_can_be_repeated(tmp_path):
    check = normal_check().with_command("vicheck check 'a file.csv' --report x.html")
    page = report_html(check=check)
    assert "vicheck check &#39;a file.csv&#39; --report x.html" in page
    assert check.provenance.fingerprint in page
    assert f"numpy {np.__version__}" in page
    some = calibration()
    assert "vicheck.vsbc(model, family=&#39;mean_field&#39;" in report_html(calibration=some)


@pytest.mark.slow
def test_a_fit_of_our_own_is_repeated_by_its_line(of_fit):
    again = eval(of_fit.provenance.code, {"vicheck": vicheck, "model": of_fit_model()})
    assert np.array_equal(again.log_ratios, of_fit.log_ratios)
    assert "vicheck.fit(model" in report_html(check=of_fit)
    assert "gradient on fresh draws" in report_html(check=of_fit)


def of_fit_model():
    from vicheck.paper import models

    return vicheck.from_numpyro(models.eight_schools_centred, **models.EIGHT_SCHOOLS)


@pytest.fixture(scope="module")
def of_fit():
    return vicheck.check(vicheck.fit(of_fit_model(), num_draws=64), num_draws=4000, seed=3)


def test_names_are_shown_as_text():
    z = np.random.default_rng(1).normal(size=(len(NASTY), 1000))
    log_q = -0.5 * (z**2).sum(axis=0)
    check = vicheck.check_draws(dict(zip(NASTY, z, strict=True)), 1.1 * log_q, log_q)
    page = report_html(
        check=replace(check, title=NASTY[0], notes=tuple(NASTY)),
        calibration=calibration(**dict.fromkeys(NASTY, (0.0, 1.0))),
    )
    assert "<script>alert" not in page
    assert "</script><b>" not in page
    for number in (0, 1):
        assert {row[0] for row in rows_of(page, number)} == set(NASTY)


def test_a_page_may_run_its_own_script_and_nothing_else(pages):
    page = pages["funnel"]
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert unescape(policy).startswith(f"default-src 'none'; script-src 'sha256-{digest}'; ")
    assert page.index("Content-Security-Policy") < page.index("<title>")


def test_thousands_of_parameters_are_all_there_in_less_than_two_megabytes():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(50, 4000))
    check = vicheck.check_draws({"lambda": z}, rng.normal(size=50), np.zeros(50))
    page = report_html(check=check)
    assert len(page.encode()) < 2_000_000
    rows = json.loads(re.search(r'application/json">(.*?)</script>', page, re.DOTALL).group(1))
    assert len(rows) == 4000
    assert page.count('<th scope="row"') == 2 * ROWS_SHOWN + len(check.divergences.renyi) + 5
    assert 'type="search"' in page


def test_rows_that_would_make_the_page_large_are_counted_and_left_out():
    rng = np.random.default_rng(1)
    names = [f"{'long' * 50}[{index}]" for index in range(6000)]
    z = rng.normal(size=(50, 6000))
    check = vicheck.check_draws(z, rng.normal(size=50), np.zeros(50), names=names)
    page = report_html(check=check)
    assert len(page.encode()) < 2_000_000
    rows = json.loads(re.search(r'application/json">(.*?)</script>', page, re.DOTALL).group(1))
    assert f"{6000 - len(rows)} more quantities are not on this page" in page


def test_undefined_statistics_are_shown_as_unknown():
    z = np.random.default_rng(1).normal(size=(1000, 2))
    log_p = np.zeros(1000)
    log_p[7] = np.nan
    page = report_html(check=vicheck.check_draws(z, log_p, np.zeros(1000)))
    assert "no verdict" in page
    assert "khat is undefined" in page
    assert ">nan<" not in page.lower()
    assert "NaN" not in re.search(r'application/json">(.*?)</script>', page, re.DOTALL).group(1)
    nothing = calibration(30, statuses=dict.fromkeys(range(30), "FAILED"))
    page = report_html(calibration=nothing)
    assert "no fit has a khat" in page
    assert "no verdict" in page


def test_constant_ratios_make_a_page():
    z = np.random.default_rng(1).normal(size=(1000, 2))
    page = report_html(check=vicheck.check_draws(z, np.zeros(1000), np.zeros(1000)))
    assert "all ratios are equal" in page
    assert "No picture: khat was not estimated" in page


def test_a_check_that_kept_no_draws_makes_a_page():
    check = normal_check()
    check = replace(check, values=check.values[:0])
    page = report_html(check=check)
    assert check.verdict.sentence.split("(")[0] in page
    assert "no draws were kept" in page
    assert "x[0]" in page


def rows_of(page, number=0):
    found = re.findall(r'application/json">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[number])


def test_both_parts_share_the_room_and_escapes_count():
    rng = np.random.default_rng(1)
    names = [f"{'<' * 60}{index}" for index in range(3000)]
    check = vicheck.check_draws(
        rng.normal(size=(50, 3000)), rng.normal(size=50), np.zeros(50), names=names
    )
    some = calibration(20, **dict.fromkeys(names, (0.0, 1.0)))
    page = report_html(check=check, calibration=some)
    assert len(page.encode()) < 2_000_000
    assert 50 < len(rows_of(page)) < 3000
    assert len(rows_of(page, 1)) == 200  # quantiles
    assert 50 < len(rows_of(page, 2)) < 3000


@pytest.mark.parametrize("num_datasets", [1, 19, 205, 297])
def test_any_number_of_datasets_makes_a_page(num_datasets):
    page = report_html(calibration=calibration(num_datasets))
    assert "nan" not in re.sub(r"<style>.*?</style>|<script.*?</script>", "", page, flags=re.DOTALL)


def test_a_quantity_without_probabilities_is_on_the_page_without_a_picture():
    whole = calibration(100)
    data = whole.data.copy(deep=True)
    data["probability"][:, 1] = np.nan
    page = report_html(calibration=vicheck.Calibration(data, whole.settings))
    assert "Histogram of the calibration probabilities of tau" in page
    assert "Histogram of the calibration probabilities of theta[0]" not in page
    row = next(row for row in rows_of(page) if row[0] == "theta[0]")
    assert set(row[2:]) == {None}


def test_numbers_are_shown_as_far_as_they_are_known():
    z = np.random.default_rng(1).normal(size=(4000, 1))
    log_q = -0.5 * z[:, 0] ** 2
    year = {"year": 2018.4 + 0.01 * z[:, 0]}
    page = report_html(check=vicheck.check_draws(year, log_q + 0.3 * z[:, 0], log_q))
    row = rows_of(page)[0]
    assert abs(float(row[3]) - 2018.4) < 0.001
    assert abs(float(row[5]) - 2018.403) < 0.001
    assert row[3] != row[5]
    assert show_to(5.0, 0.0) == "5"
    assert show_to(1234.5678, 0.02) == "1234.568"


def test_the_texts_of_pictures_are_those_of_their_numbers(pages):
    assert f"{show(normal_check().khat)} with 8000." in pages["good"]
    odd = calibration(50, tau=(1.0, 1.0))
    p = odd.probabilities.to_numpy()
    assert f"{(p < 0.5).sum()} in the lower half, {(p > 0.5).sum()} in the upper" in report_html(
        calibration=odd
    )


def test_few_draws_and_impossible_ones_make_a_page():
    for size in (1, 300):
        z = np.random.default_rng(1).normal(size=(size, 2))
        log_p = -0.5 * (z**2).sum(axis=1)
        for given in (log_p, np.full(size, -np.inf)):
            assert "<h1>" in report_html(check=vicheck.check_draws(z, given, 0.9 * log_p))


def test_held_out_data_and_other_optima_are_shown(of_fit):
    measure = Measure(-3.5, 0.1)
    held_out = replace(of_fit, predictive=Predictive(measure, measure, 7))
    assert "Log predictive density of 7 held-out points: VI -3.5" in report_html(check=held_out)
    pooled = PooledModes(
        0.1, measure, 0.2, np.array([0.8, 0.2]), np.zeros((2, 10)),
        ("mu",), np.array([0.5]), np.array([0.5]),
    )  # fmt: skip
    page = report_html(check=replace(of_fit, pooled=pooled))
    assert "share of the posterior" in page
    assert "20.0%" in page
    assert "misses another mode" in page
    advice = "What to do</h3>\n<p>Look at fit.solution.others"
    assert advice in page
    assert advice not in report_html(check=of_fit)


def test_a_color_in_a_name_stays_a_name():
    some = calibration(**{"#0072B2": (0.0, 1.0)})
    page = report_html(calibration=some)
    assert re.search(r"<text[^>]*>#0072B2</text>", page)


@pytest.mark.parametrize("kind", ["funnel", "both"])
def test_no_two_elements_have_the_same_id_but_shared_definitions(pages, kind):
    elements = Elements(pages[kind])
    ids = [attributes["id"] for attributes in elements.attributes if attributes.get("id")]
    assert not [each for each in ids if re.fullmatch(r"[a-z0-9]+_\d+", each)]


def test_the_other_kind_is_refused(funnel):
    with pytest.raises(TypeError, match=r"calibration must come from vicheck.vsbc, got Check"):
        report_html(check=funnel, calibration=funnel)


@pytest.fixture
def asked(monkeypatch):
    """Of what a page was asked for: one word stands for it. Others write real ones."""
    given = []
    monkeypatch.setattr(
        "vicheck.report.page.report_html", lambda **what: given.append(what) or "new"
    )
    return given


def test_writing_returns_the_path_and_replaces(tmp_path, asked):
    path = tmp_path / "page.html"
    path.write_text("old")
    check, some = normal_check(), calibration()
    assert check.report(path) == path
    assert path.read_text(encoding="utf-8") == "new"
    assert some.report(str(path), check=check) == Path(path)
    given = [(each["check"], each["calibration"]) for each in asked]
    assert given == [(check, None), (check, some)]
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.usefixtures("asked")
def test_a_path_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot write the report: .*nowhere"):
        normal_check().report(tmp_path / "nowhere" / "page.html")
    (tmp_path / "directory").mkdir()
    with pytest.raises(IsADirectoryError, match=r"cannot write the report: .*directory"):
        normal_check().report(tmp_path / "directory")


def test_neither_is_an_error():
    with pytest.raises(ValueError, match="a check or a calibration"):
        report_html()


def test_notebooks_show_a_card(funnel):
    card = funnel._repr_html_()
    assert card.lstrip().startswith("<div")
    assert funnel.verdict.hint.split("`")[0] in card
    assert "`" not in card
    assert "<script" not in card
    assert card.count("<tr>") == 4
    assert "q sits too high" in calibration(tau=(1.0, 1.0))._repr_html_()


def test_a_card_does_not_compute_moments_for_minutes(funnel, monkeypatch):
    monkeypatch.setattr("vicheck.report.notebook._MOST_NUMBERS", 10)
    fresh = replace(funnel)
    assert ".moments</code> computes their table" in fresh._repr_html_()
    assert "moments" not in vars(fresh)
    assert len(fresh.moments) == 3
    assert "<table>" in fresh._repr_html_()


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (-1.23456, "-1.23"), (123456.0, "1.23e+05"), (np.nan, None), (np.inf, "inf")],
)
def test_numbers_have_three_digits(number, text):
    assert show(number) == text


def test_a_rescue_has_its_trail_and_then_the_check_of_the_best():
    rescue = made_rescue()
    page = report_html(check=rescue.check, rescue=rescue)
    assert page.index("What was tried") < page.index("The best that was found: did it work?")
    assert unescape(page).count(rescue.code) == 1
    assert "mixture: from 0.91 to 1.8, not kept" in page
    assert "failed: ValueError: &lt;b&gt;no luck&lt;/b&gt;" in page
    assert "1,234,567" in page
    assert Elements(page).levels[:3] == [1, 2, 3]
    rows = re.findall(r'<th scope="row" class="text">([^<]*)</th>', page)
    assert rows[:5] == ["before", "converge", "adapt", "mixture", "reparametrise"]


def test_a_rescue_that_failed_and_one_by_sampling_say_so():
    failed = made_rescue(succeeded=False, sentence="Not rescued: nothing helped.")
    assert "not rescued</span> Not rescued: nothing helped." in report_html(
        check=failed.check, rescue=failed
    )
    sampled = sampled_rescue()
    page = report_html(check=sampled.check, rescue=sampled)
    assert '<div class="verdict usable">' in page
    assert '<td class="text">NUTS</td>' in page
