"""Reports as a reader sees them: in a window, on a telephone, at night, on paper, by keyboard."""

import re
from itertools import pairwise, product

import pytest

from tests.report.pages import (
    NASTY,
    NUMBER,
    WIDTHS,
    alternatives,
    column,
    contrasts,
    heading_levels,
    number_of_sheets,
    opened,
    outside,
    overflow,
    tab_to,
    write_reports,
)
from vicheck.report.tables import ROWS_SHOWN

pytestmark = pytest.mark.slow

LEVELS = {"good": "usable", "stan": "unreliable", "bad": "unreliable", "none": "none"}
ALL = ("good", "bad", "vsbc", "both", "large", "nasty", "rescue")


@pytest.fixture(scope="module")
def reports(browser, tmp_path_factory):
    return write_reports(tmp_path_factory.mktemp("reports"))


@pytest.fixture(scope="module", params=product(ALL, WIDTHS), ids=", ".join)
def seen(request, browser, reports):
    """Each page in each view, opened once for all tests that only look."""
    kind, view = request.param
    with opened(browser, reports[kind], view) as it:
        yield it


def test_nothing_goes_wrong_and_nothing_is_fetched(seen):
    assert seen.page.locator("h1").is_visible()
    assert seen.wrong == []
    assert seen.requests == [seen.address]


def test_nothing_lies_outside_of_the_window(seen):
    assert outside(seen.page) == []
    assert overflow(seen.page) <= 0


def test_headings_are_in_order(seen):
    levels = heading_levels(seen.page)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_every_picture_has_a_text_in_its_place(seen):
    texts = alternatives(seen.page)
    assert len(texts) >= 3
    assert all(texts)


@pytest.mark.parametrize("kind", LEVELS)
def test_a_page_opens_with_its_verdict(browser, reports, kind):
    with opened(browser, reports[kind]) as seen:
        verdict = seen.page.locator(".verdict").first
        assert verdict.get_attribute("class") == f"verdict {LEVELS[kind]}"
        box = verdict.bounding_box()
    assert box["y"] + box["height"] < 900


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", [*LEVELS, "vsbc", "both", "rescue"])
def test_every_text_can_be_read(browser, reports, kind, scheme):
    with opened(browser, reports[kind], color_scheme=scheme) as seen:
        found = contrasts(seen.page)
        page = seen.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert len(found) > 50
    assert [pair for pair in found if pair[1] < 4.5] == []
    assert (page == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.parametrize("kind", ALL)
def test_paper_has_at_most_two_sheets(browser, reports, kind):
    with opened(browser, reports[kind]) as seen:
        assert 1 <= number_of_sheets(seen.page) <= 2


@pytest.mark.parametrize("kind", ALL)
def test_a_file_has_less_than_two_megabytes(reports, kind):
    assert reports[kind].stat().st_size < 2_000_000


def test_a_table_is_sorted_by_keyboard(browser, reports):
    with opened(browser, reports["bad"]) as seen:
        page = seen.page
        head = page.locator("[data-table] thead th").first
        before = column(page, 0)
        assert head.get_attribute("aria-sort") is None
        assert tab_to(page, head.text_content())
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        ascending = column(page, 0)
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "descending"
        descending = column(page, 0)
    assert ascending == sorted(before)
    assert descending == ascending[::-1]
    assert before != ascending


def test_on_a_telephone_name_and_use_stay_in_sight(browser, reports):
    with opened(browser, reports["good"], "narrow") as seen:
        table = seen.page.locator("[data-table=quantities] .scroll")
        cells = seen.page.locator("[data-table=quantities] tbody tr:first-child > *")
        before = [cells.nth(place).bounding_box()["x"] for place in range(4)]
        table.evaluate("element => { element.scrollLeft = 150; }")
        after = [cells.nth(place).bounding_box()["x"] for place in range(4)]
        heads = seen.page.locator("[data-table=quantities] thead th").all_inner_texts()
        assert [head.split("\u2195")[0].strip() for head in heads[:3]] == [
            "quantity", "mean by", "sd by",
        ]  # fmt: skip
        assert after[:3] == before[:3]
        assert after[3] == before[3] - 150
        assert all(place["x"] + place["width"] <= 400 for place in [cells.nth(2).bounding_box()])


def test_texts_in_figures_are_as_large_as_those_of_the_page(browser, reports):
    """Between 0.7 and 1.3 times its letters, on a screen and on a telephone."""
    sizes = """() => [...document.querySelectorAll(".figures svg text")].map(
        (text) => parseFloat(getComputedStyle(text).fontSize)
            * Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b))"""
    for view in ("wide", "narrow"):
        with opened(browser, reports["good"], view) as seen:
            page = seen.page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)")
            found = seen.page.evaluate(sizes)
            assert found
            assert 0.7 * page < min(found) <= max(found) < 1.3 * page


def test_numbers_are_sorted_as_numbers_with_the_largest_first(browser, reports):
    with opened(browser, reports["bad"]) as seen:
        page = seen.page
        headings = page.locator("[data-table=quantities] thead th").all_text_contents()
        index = headings.index("khat")
        assert tab_to(page, "khat")
        page.keyboard.press("Enter")
        first = [float(text) for text in column(page, index)]
        page.keyboard.press("Enter")
        second = [float(text) for text in column(page, index)]
        page.get_by_role("button", name="Worst first").first.click()
        assert page.locator("[aria-sort]").count() == 0
    assert first == sorted(first, reverse=True)
    assert second == sorted(second)
    assert len(set(first)) > 1


def test_all_rows_are_sorted_and_not_only_those_that_are_shown(browser, reports):
    with opened(browser, reports["large"]) as seen:
        head = seen.page.locator("[data-table] thead th").first
        assert tab_to(seen.page, head.text_content())
        seen.page.keyboard.press("Enter")
        assert column(seen.page, 0) == [f"beta[{index}]" for index in range(ROWS_SHOWN)]
        seen.page.keyboard.press("Enter")
        names = column(seen.page, 0)
    assert names == [f"beta[{NUMBER - 1 - index}]" for index in range(ROWS_SHOWN)]


def test_the_search_box_finds_rows_among_thousands(browser, reports):
    with opened(browser, reports["large"]) as seen:
        page = seen.page
        assert len(column(page, 0)) == ROWS_SHOWN
        page.get_by_role("searchbox").first.press_sequentially("[299")
        expected = {"beta[299]", *(f"beta[299{digit}]" for digit in range(10))}
        assert set(column(page, 0)) == expected
        assert (
            page.get_by_role("status").first.text_content() == f"11 of 11 shown, of {NUMBER} in all"
        )
        page.get_by_role("searchbox").first.fill("no such name")
        assert column(page, 0) == []
        page.get_by_role("searchbox").first.fill("")
        assert len(column(page, 0)) == ROWS_SHOWN


def test_names_are_shown_as_texts_and_no_script_of_theirs_runs(browser, reports):
    with opened(browser, reports["nasty"]) as seen:
        page = seen.page
        for _ in range(2):  # the rows of the file, and those that the page makes itself
            assert set(column(page, 0)) == set(NASTY)
            page.locator("[data-table] thead button").first.click()
        assert "ran" not in page.title().split()
        assert page.locator("main img").count() == 0
        assert seen.wrong == []
        assert seen.requests == [reports["nasty"].as_uri()]


INJECTED = {
    "a script": "<script>document.title = 'ran'</script>",
    "one from elsewhere": "<script src=\"data:text/javascript,document.title = 'ran'\"></script>",
    "a handler": '<img src="data:," onerror="document.title = \'ran\'">',
    "a link that runs": '<a id="run" href="javascript:void(document.title = \'ran\')">x</a>',
}


@pytest.mark.parametrize("injected", INJECTED.values(), ids=INJECTED)
@pytest.mark.parametrize("policy", [True, False], ids=["with the policy", "without"])
def test_a_script_that_got_into_a_page_does_not_run(browser, reports, tmp_path, policy, injected):
    text = reports["bad"].read_text(encoding="utf-8").replace("</main>", f"</main>{injected}")
    if not policy:  # so that this test can fail
        text = re.sub(r"<meta http-equiv=[^>]*>", "", text, count=1)
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    with opened(browser, path) as seen:
        if 'id="run"' in injected:
            seen.page.locator("#run").click()
        if not policy:
            seen.page.wait_for_function("document.title === 'ran'")
        assert (seen.page.title() == "ran") is not policy
        assert bool(seen.wrong) is policy  # the browser says what it has refused


def test_a_page_cannot_call_home(browser, reports, tmp_path):
    tracker = (
        '<img src="https://example.org/seen.png"><style>@import "https://example.org/a";</style>'
    )
    text = reports["bad"].read_text(encoding="utf-8").replace("</main>", f"</main>{tracker}")
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    with opened(browser, path) as seen:
        refused = " ".join(seen.wrong)
    for address in ("https://example.org/seen.png", "https://example.org/a"):
        assert re.search(f"'{address}' violates the following Content Security Policy", refused)
