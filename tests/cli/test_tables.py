"""Tables in terminals of any width."""

import pytest

from vicheck.cli.tables import fit_table
from vicheck.report.text import Column, TextTable

TABLE = TextTable(
    (
        "a_quantity_with_a_long_name[0, 11]",
        "a_quantity_with_a_long_name[0, 12]",
        "another quantity, with spaces",
        "b",
    ),
    (
        Column("vi_mean", ("1.05", "-2.5", "3", "0.27"), is_number=True),
        Column("vi_sd", ("0.04", "0.14", "1e+03", "0.119"), is_number=True),
        Column("use", ("neither", "vi", "vi", "psis"), is_number=False),
    ),
)
ROWS = TABLE.lines()


def words(rows):
    return [row.split()[-3:] for row in rows]


def test_what_fits_stays_as_it_is():
    assert fit_table(TABLE, len(ROWS[0])) == ROWS


def test_long_names_are_cut_in_the_middle():
    rows = fit_table(TABLE, 50)
    assert max(map(len, rows)) == 50
    assert words(rows) == words(ROWS)
    assert rows[1].startswith("a_quantity_w..name[0, 11] ")
    assert rows[3].startswith("another quan..with spaces ")
    assert len({row[:25] for row in rows}) == len(rows)


def test_columns_that_are_too_many_go_below():
    rows = fit_table(TABLE, 30)
    assert max(map(len, rows)) <= 30
    gap = rows.index("")
    above, below = rows[:gap], rows[gap + 1 :]
    assert above[0].split() == ["vi_mean", "vi_sd"]
    assert below[0].split() == ["use"]
    assert [row[:12] for row in above] == [row[:12].ljust(12) for row in below]
    assert [row.split()[-1] for row in below[1:]] == ["neither", "vi", "vi", "psis"]


@pytest.mark.parametrize("width", range(1, 70))
def test_nothing_is_lost_at_any_width(width):
    cells = [cell for row in ROWS for cell in row.split()[-3:]]
    shown = [cell for row in fit_table(TABLE, width) for cell in row.split()]
    assert all(shown.count(cell) >= cells.count(cell) for cell in cells)


def test_a_table_without_rows_has_its_header():
    assert fit_table(TextTable((), (Column("use", (), is_number=False),)), 2) == [" use"]
