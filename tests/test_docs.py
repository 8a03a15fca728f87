"""The documentation: all pages are on the site, all names in the API, all commands true."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import vicheck
from vicheck.judging.findings import CATALOGUE

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
SHOWN = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), re.S | re.M)
    )
]


def pages_of(nav):
    """Return the files that a part of the navigation leads to."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in pages_of(part)]


def test_every_page_is_in_the_navigation_once():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    there = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
    assert sorted(pages_of(site["nav"])) == there
    assert site["strict"] is True


def test_every_public_name_is_on_a_page_of_the_api():
    text = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    shown = re.findall(r"^::: vicheck\.(\w+)$", text, re.M)
    assert sorted(shown) == sorted(set(vicheck.__all__) - {"__version__"})
    assert "vicheck.__version__" in text


def test_the_table_of_public_names_has_each_of_them_once():
    table = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:\[`(\w+)`\]\((\w+\.md)\)|`(\w+)`) \| (.+) \|$", table, re.M)
    assert sorted(linked or plain for linked, _, plain, _ in rows) == sorted(vicheck.__all__)
    for name, page, _, _ in rows:
        if page:
            assert f"::: vicheck.{name}\n" in (DOCS / "api" / page).read_text(encoding="utf-8")


def test_every_finding_is_explained_on_a_page():
    pages = (DOCS / name for name in ("reading-khat.md", "reading-vsbc.md"))
    text = " ".join(page.read_text("utf-8") for page in pages)
    assert set(CATALOGUE) <= set(re.findall(r"`([a-z-]+)`", text))


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == vicheck.__version__
    assert citation["license"] == "BSD-3-Clause"
    assert "did it work" in citation["preferred-citation"]["title"]


@pytest.mark.parametrize("block", SHOWN)
def test_the_command_line_prints_what_is_shown(block):
    command, expected = block.split("\n", 1)
    program, *arguments = command.removeprefix("$ ").split()
    assert program == "vicheck"
    run = [sys.executable, "-c", "from vicheck.cli import main; main()", *arguments]
    printed = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert printed.returncode in (0, 1, 2)
    assert printed.stdout == expected


GALLERY = sorted(page for page in (DOCS / "gallery").glob("*.md") if page.stem != "index")


@pytest.mark.parametrize("page", GALLERY, ids=lambda page: page.stem)
def test_a_page_of_the_gallery_has_the_picture_it_ends_with_on_top(page):
    text = page.read_text(encoding="utf-8")
    assert re.match(rf"# .+\n\n!\[[^\]]+\]\({page.stem}\.png\)\n", text)
    assert page.with_suffix(".png").stat().st_size > 0
    last = re.findall(r"^>>> (.*)$", text, re.M)[-1]
    assert re.match(r"figure = vicheck\.plots\.\w+\(", last)  # docs/pictures/make.py saves it


def test_the_gallery_has_six_pages_and_its_table_all_of_them():
    overview = (DOCS / "gallery" / "index.md").read_text(encoding="utf-8")
    linked = re.findall(r"\((\w+)\.md\)", overview)
    assert sorted(linked) == [page.stem for page in GALLERY]
    assert len(GALLERY) == 6
