"""Tables in terminals of any width."""

import pytest

from vicheck.cli.tables import fit_table

ROWS = [
    "                                    vi_mean  vi_sd       use",
    "a_quantity_with_a_long_name[0, 11]     1.05   0.04   neither",
    "a_quantity_with_a_long_name[0, 12]     -2.5   0.14        vi",
    "b                                      0.27  0.119      psis",
]


def words(rows):
    return [row.split()[-3:] for row in rows]


def test_what_fits_stays_as_it_is():
    assert fit_table(ROWS, len(ROWS[0])) == ROWS


def test_long_names_are_cut_in_the_middle():
    rows = fit_table(ROWS, 50)
    assert max(map(len, rows)) == 50
    assert words(rows) == words(ROWS)
    assert rows[1].startswith("a_quantity_..name[0, 11] ")
    assert len({row[:24] for row in rows}) == len(rows)


def test_columns_that_are_too_many_go_below():
    rows = fit_table(ROWS, 30)
    assert max(map(len, rows)) <= 30
    gap = rows.index("")
    above, below = rows[:gap], rows[gap + 1 :]
    assert above[0].split() == ["vi_mean", "vi_sd"]
    assert below[0].split() == ["use"]
    assert [row[:12] for row in above] == [row[:12].ljust(12) for row in below]
    assert [row.split()[-1] for row in below[1:]] == ["neither", "vi", "psis"]


@pytest.mark.parametrize("width", range(1, 70))
def test_nothing_is_lost_at_any_width(width):
    cells = [cell for row in ROWS for cell in row.split()[-3:]]
    shown = [cell for row in fit_table(ROWS, width) for cell in row.split()]
    assert all(shown.count(cell) >= cells.count(cell) for cell in cells)
