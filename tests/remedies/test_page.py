"""The page *When it fails* says what the remedies say."""

from pathlib import Path

import pytest

from vicheck.remedies import AFTER_CALIBRATION, AFTER_CHECK
from vicheck.remedies.page import remedies_table, statuses_table
from vicheck.results.status import FitStatus

PAGE = Path(__file__).parents[2] / "docs" / "when-it-fails.md"


@pytest.mark.parametrize(
    "table",
    [
        remedies_table(AFTER_CHECK),
        remedies_table(AFTER_CALIBRATION),
        statuses_table("stochastic"),
    ],
    ids=["after a check", "after a calibration", "statuses"],
)
def test_the_page_has_the_tables_that_the_remedies_make(table):
    assert f"\n\n{table}\n\n" in PAGE.read_text(encoding="utf-8")


def test_the_tables_have_a_row_for_each():
    assert len(remedies_table(AFTER_CHECK).splitlines()) == 2 + len(AFTER_CHECK)
    assert len(statuses_table("stochastic").splitlines()) == 1 + len(FitStatus)
