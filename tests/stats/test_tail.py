import numpy as np
import pytest

from vicheck.stats.tail import Tail, log_exceedances, select_tail


def by_sorting(values, tail_length):
    order = np.argsort(values, kind="stable")
    tail = order[-tail_length:]
    return Tail(values[order[-tail_length - 1]], values[tail], tail)


@pytest.mark.parametrize("num_values", [1000, 12, 3, 1], ids="{} values".format)
def test_rows_with_and_without_ties_are_selected_as_by_a_stable_sort(rng, num_values):
    rows = rng.integers(num_values, size=(20, 50)).astype(float)
    rows[0] = rng.standard_normal(50)
    tails = select_tail(rows, 11)
    expected = [by_sorting(row, 11) for row in rows]
    for name in Tail._fields:
        np.testing.assert_array_equal(
            getattr(tails, name), [getattr(tail, name) for tail in expected]
        )
        np.testing.assert_array_equal(
            getattr(select_tail(rows[3], 11), name), getattr(expected[3], name)
        )


def test_exceedances_of_a_row_do_not_depend_on_its_neighbours(rng):
    rows = rng.standard_normal((4, 50)) * [[1.0], [300.0], [5000.0], [1e-3]]
    together = log_exceedances(select_tail(rows, 11))
    alone = [log_exceedances(select_tail(row, 11)) for row in rows]
    np.testing.assert_array_equal(together, alone)
    assert np.isfinite(together).all()
