"""Reports opened in a browser, and what is asked of them there."""

import re
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import vicheck
from tests.calibration.made import calibration
from tests.plots.rescues import made_rescue
from tests.plots.subjects import normal_check
from vicheck.paper import models

WIDTHS = {"wide": 1280, "narrow": 400, "print": 733}
"""Pixels; A4 without its margins is as wide as the last."""
STAN = Path(__file__).parents[1] / "reference" / "stan_csv" / "eight_schools_ncp_meanfield.csv"
NUMBER = 3000
"""Of parameters on a page with many."""
NASTY = (
    "<script>document.title = 'ran'</script>",
    "<img src=x onerror=\"document.title = 'ran'\">",
    "θ̂ パラメータ",
    "a" * 200,
)

# Elements outside of the window, and not in a box of their own that scrolls (or in a picture,
# which is cut off at its edge).
_OUTSIDE = """() => {
  const width = document.scrollingElement.clientWidth;
  const boxed = (element) => {
    for (let box = element.parentElement; box; box = box.parentElement) {
      const overflow = getComputedStyle(box).overflowX;
      if (["auto", "scroll"].includes(overflow) || box instanceof SVGSVGElement) return true;
    }
    return false;
  };
  return [...document.body.querySelectorAll("*")].filter((element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && (box.right > width + 0.5 || box.left < -0.5) && !boxed(element);
  }).map((element) => element.outerHTML.slice(0, 80));
}"""

# Each text that is seen, with the contrast of WCAG 2 between its colour and what lies behind it.
_CONTRASTS = """() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const over = (color, below) => {
    pen.fillStyle = `rgb(${below.join(",")})`;
    pen.fillRect(0, 0, 1, 1);
    pen.fillStyle = color;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    return over(getComputedStyle(element).backgroundColor, behind(element.parentElement));
  };
  const light = (color) => {
    const [r, g, b] = color.map((part) => part / 255).map(
      (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.textContent.trim();
    if (!text || !element.getClientRects().length || element.tagName === "SCRIPT") continue;
    const style = getComputedStyle(element);
    const background = behind(element);
    const ink = over(element instanceof SVGElement ? style.fill : style.color, background);
    const [low, high] = [light(ink), light(background)].sort((a, b) => a - b);
    found.push([text.slice(0, 60), (high + 0.05) / (low + 0.05)]);
  }
  return found;
}"""

_ALTERNATIVES = """() => [...document.querySelectorAll("img, svg, [role=img]")]
  .filter((picture) => !picture.parentElement.closest("svg, [aria-hidden=true]"))
  .map((picture) => (picture.getAttribute("aria-label") || picture.getAttribute("alt") ||
    picture.querySelector(":scope > title")?.textContent || "").trim())"""


def schools_check():
    """A real fit that is bad: the centred eight schools, with their funnel."""
    model = vicheck.from_numpyro(models.eight_schools_centred, **models.EIGHT_SCHOOLS)
    return vicheck.check(vicheck.fit(model))


def large_check(number=NUMBER):
    """Thousands of parameters, of which the last is the worst."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(200, number))
    return vicheck.check_draws({"beta": z}, -0.1 * z[:, -1] ** 2, np.zeros(200))


def nasty_check():
    """A check whose names would do harm if they were not shown as texts."""
    z = np.random.default_rng(1).normal(size=(len(NASTY), 1000))
    log_q = -0.5 * (z**2).sum(axis=0)
    return vicheck.check_draws(dict(zip(NASTY, z, strict=True)), 1.1 * log_q, log_q)


def undefined_check():
    """A check without a verdict: one density is no number."""
    z = np.random.default_rng(1).normal(size=(1000, 2))
    log_p = np.zeros(1000)
    log_p[7] = np.nan
    return vicheck.check_draws(z, log_p, np.zeros(1000))


def write_reports(directory):
    """Write a page of each kind, and return their paths."""
    bad, some = schools_check(), calibration(tau=(1.0, 1.0), mu=(0.0, 1.0))
    return {
        "good": normal_check().report(directory / "good.html"),
        "bad": bad.report(directory / "bad.html"),
        "vsbc": some.report(directory / "vsbc.html"),
        "both": bad.report(directory / "both.html", calibration=some),
        "stan": vicheck.check(vicheck.read_stan_csv(STAN)).report(directory / "stan.html"),
        "none": undefined_check().report(directory / "none.html"),
        "large": large_check().report(directory / "large.html"),
        "nasty": nasty_check().report(directory / "nasty.html"),
        "rescue": made_rescue().report(directory / "rescue.html"),
    }


@contextmanager
def opened(browser, path, view="wide", **options):
    """Open a page, and note what goes wrong and what is asked of the network."""
    size = {"width": WIDTHS[view], "height": 900}
    context = browser.new_context(viewport=size, offline=True, **options)
    context.set_default_timeout(20_000)
    wrong, requests = [], []
    context.on("request", lambda request: requests.append(request.url))
    page = context.new_page()
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    if view == "print":
        page.emulate_media(media="print")
    try:
        page.goto(path.as_uri())
        yield SimpleNamespace(page=page, wrong=wrong, requests=requests, address=path.as_uri())
    finally:
        context.close()


def outside(page):
    """Return the beginnings of elements that lie outside of the window."""
    return page.evaluate(_OUTSIDE)


def overflow(page):
    """Return by how many pixels the page can be scrolled to the side."""
    return page.evaluate(
        "() => document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
    )


def contrasts(page):
    """Return pairs of a text and its contrast."""
    return page.evaluate(_CONTRASTS)


def alternatives(page):
    """Return the text that stands for each picture, empty where there is none."""
    return page.evaluate(_ALTERNATIVES)


def heading_levels(page):
    """Return the levels of all headings that are seen, in order."""
    tags = page.eval_on_selector_all(
        "h1, h2, h3, h4, h5, h6",
        "all => all.filter(each => each.getClientRects().length).map(each => each.tagName)",
    )
    return [int(tag[1]) for tag in tags]


def number_of_sheets(page):
    """Return how many sheets of A4 the page prints on."""
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4", prefer_css_page_size=True)))


def column(page, index):
    """Return the texts of a column of the first table that can be sorted."""
    rows = page.locator("[data-table]").first.locator("tbody tr")
    return rows.evaluate_all("(rows, index) => rows.map(r => r.cells[index].textContent)", index)


def tab_to(page, heading, most=100):
    """Press Tab until the button of a column has the focus, and return whether it ever had."""
    for _ in range(most):
        page.keyboard.press("Tab")
        focused = page.evaluate("() => document.activeElement.closest('thead th')?.textContent")
        if focused == heading:
            return True
    return False
