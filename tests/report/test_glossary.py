"""What a report says about its numbers: for the parts it has, with pages that are there."""

import re
from pathlib import Path

import pytest

from vicheck.report.glossary import OF_CALIBRATIONS, OF_CHECKS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("entry", [*OF_CHECKS, *OF_CALIBRATIONS], ids=lambda entry: entry.term)
def test_the_page_of_an_entry_is_there(entry):
    page, _, anchor = entry.page.partition("#")
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    anchors = {
        re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^##+ (.+)$", text, re.M)
    }
    assert anchor in anchors or not anchor
