"""Lines with commas: what is read, and where it says the trouble is."""

import csv

import numpy as np
import pytest

from vicheck.errors import InputFileError
from vicheck.files.csv_reader import parse_csv, parse_number


def parsed(text, name="a.csv"):
    return parse_csv(text if isinstance(text, bytes) else text.encode(), name)


def test_lines_keep_their_numbers_and_comments_go_apart():
    file = parsed("# first\nx,y\n\n  # second\n1,2\n")
    assert [(line.number, line.text) for line in file.lines] == [(2, "x,y"), (5, "1,2")]
    assert file.comments == ["# first", "# second"]
    assert not file.is_cut
    assert parsed("x\n1").is_cut


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_line_ends_and_byte_order_marks(end, encoding):
    file = parsed(end.join(["x,y", "1,2", "3,4", ""]).encode(encoding))
    assert file.cells(file.lines[0]) == ["x", "y"]
    np.testing.assert_array_equal(file.numbers(file.lines[1:], [1, 0]), [[2.0, 1.0], [4.0, 3.0]])
    assert not file.is_cut


def test_quoted_cells_may_hold_commas():
    file = parsed('"a, b", c\n"x, y","1.5"\n')
    assert file.cells(file.lines[0]) == ["a, b", "c"]
    file.require_width(file.lines, 2)
    np.testing.assert_array_equal(file.numbers(file.lines[1:], [1]), [[1.5]])


def test_a_comma_in_quotes_does_not_make_up_for_a_missing_cell():
    file = parsed('x,y\n"1,2"\n')
    with pytest.raises(InputFileError, match=r"^a.csv, line 2: expected 2 values, got 1$"):
        file.require_width(file.lines, 2)


def test_columns_that_are_not_asked_for_may_hold_anything():
    file = parsed("note,x\nwords,1\n,-inf\n")
    np.testing.assert_array_equal(file.numbers(file.lines[1:], [1]), [[1.0], [-np.inf]])


def test_no_lines_give_no_rows():
    assert parsed("x,y\n").numbers([], [0, 1]).shape == (0, 2)


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        ("1,2\n# c\n3,oops\n", None, "line 4, column 2: 'oops' is not a number"),
        ("1,2\n3,\n", None, "line 3, column 2: '' is not a number"),
        ("1_000,2\n", ["x", "y"], r"line 2, column 1 \(x\): '1_000' is not a number"),
        ("1,2 # two\n", None, "line 2, column 2: '2 # two' is not a number"),
    ],
)
def test_what_is_not_a_number_is_located(rows, labels, message):
    file = parsed(f"x,y\n{rows}")
    with pytest.raises(InputFileError, match=f"^a.csv, {message}$"):
        file.numbers(file.lines[1:], [0, 1], labels)


def test_ragged_lines_are_located_and_a_short_end_explained():
    file = parsed("x,y\n1,2\n3\n4,5,6\n7\n")
    with pytest.raises(InputFileError, match=r"line 3: expected 2 values, got 1$"):
        file.require_width(file.lines, 2, short_end=": cut off")
    with pytest.raises(InputFileError, match=r"line 4: expected 2 values, got 3$"):
        file.require_width(file.lines[3:4], 2, short_end=": cut off")
    with pytest.raises(InputFileError, match=r"line 5: expected 2 values, got 1: cut off$"):
        file.require_width(file.lines[4:], 2, short_end=": cut off")


def test_no_text_and_no_lines():
    with pytest.raises(InputFileError, match=r"^b is no text: it starts with b'\\xff\\xfe"):
        parsed(b"\xff\xfe\x00", "b")
    with pytest.raises(InputFileError, match=r"^b is no such file: it starts"):
        parse_csv(b"\xff", "b", not_text="is no such file")
    with pytest.raises(InputFileError, match="holds no data, only comments"):
        parsed("# nothing\n\n").require_lines()


@pytest.fixture
def limit():
    """The limit of csv that a process begins with: it is one for all, and libraries lift it."""
    before = csv.field_size_limit(131_072)
    yield
    csv.field_size_limit(before)


@pytest.mark.usefixtures("limit")
def test_a_cell_that_is_too_long_is_located():
    file = parsed("x\n" + "1" * 200_000 + "\n")
    with pytest.raises(InputFileError, match=r"a.csv, line 2: field larger than field limit"):
        file.cells(file.lines[1])


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("3", 3), ("-3.0", -3.0), ("1e3", 1000.0), ("inf", np.inf), (" 7 ", 7),
        ("99999999999999999999", 1e20), ("9" * 5000, np.inf),
    ],
)  # fmt: skip
def test_numbers(cell, number):
    value = parse_number(cell)
    assert value == number
    assert type(value) is type(number)


@pytest.mark.parametrize("cell", ["", "x", "1_0", "1,5", "0x10", "--1"])
def test_text_is_no_number(cell):
    assert parse_number(cell) is None
