"""Settings, names, numbers and digits in a Stan CSV file."""

import numpy as np
import pytest

from vicheck.adapters.stan.csv_tables import parse_stan_csv

TEXT = """\
# method = variational
#   algorithm = fullrank (Default)
#   tol_rel_obj = 0.01
# algorithm = meanfield
# not a setting
# two words = 3
lp__,"theta.1",S[1,2]
0,1.25,-3

# Elapsed
1,1.5e-3,10
"""


def parsed(text=TEXT):
    return parse_stan_csv(text.encode(), "made.csv")


def test_settings_are_those_that_come_first():
    table = parsed()
    assert table.settings == {
        "method": "variational",
        "algorithm": "fullrank",
        "tol_rel_obj": "0.01",
    }
    assert "# Elapsed" in table.comments
    assert not table.is_cut


def test_names_numbers_and_lines():
    table = parsed()
    assert table.names == ["lp__", "theta.1", "S[1,2]"]
    np.testing.assert_array_equal(table.column("theta.1"), [1.25, 1.5e-3])
    assert table.lines == [8, 11]
    rest = table.rows(slice(1, None))
    np.testing.assert_array_equal(rest.numbers, [[1.0, 1.5e-3, 10.0]])
    assert rest.lines == [11]


@pytest.mark.parametrize(("value", "says_no"), [("0", True), ("FALSE", True), ("1", False)])
def test_settings_that_are_off(value, says_no):
    assert parsed(f"# jacobian = {value} (Default)\nx\n1\n").says_no("jacobian") == says_no
    assert not parsed().says_no("jacobian")


@pytest.mark.parametrize(
    ("number", "digits"),
    [("1", 1), ("-0.00120", 3), ("1.234567e-10", 7), ("1.23456789012345678", 15)],
)
def test_digits_and_what_they_round(number, digits):
    table = parsed(f"x\n{number}\n")
    assert table.digits == digits
    unit = 10.0 ** (np.floor(np.log10(abs(float(number)))) - digits + 1)
    np.testing.assert_allclose(table.rounding(table.numbers), [[unit / 2]])
    assert table.rounding(np.zeros(1)) == 0.0
