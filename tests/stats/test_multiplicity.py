"""Adjusted p-values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from vicheck.stats.multiplicity import benjamini_hochberg, holm

PLAIN = [0.001, 0.2, 0.03, 0.03, 0.5, 0.9, 0.0004]
WITH_NA = [0.01, np.nan, 0.04, 0.03, np.nan, 0.8]

# R 4.2.2:
# p <- c(0.001, 0.2, 0.03, 0.03, 0.5, 0.9, 0.0004); p.adjust(p, "holm"); p.adjust(p, "BH")
# q <- c(0.01, NA, 0.04, 0.03, NA, 0.8); p.adjust(q, "holm"); p.adjust(q, "BH")
REFERENCE = [
    (holm, PLAIN, [0.006, 0.6, 0.15, 0.15, 1.0, 1.0, 0.0028]),
    (benjamini_hochberg, PLAIN, [0.0035, 0.28, 0.0525, 0.0525, 0.5833333333, 0.9, 0.0028]),
    (holm, WITH_NA, [0.04, np.nan, 0.09, 0.09, np.nan, 0.8]),
    (benjamini_hochberg, WITH_NA, [0.04, np.nan, 0.05333333333, 0.05333333333, np.nan, 0.8]),
]

BOTH = pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
p_values = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@pytest.mark.parametrize(("adjust", "given_values", "expected"), REFERENCE)
def test_values_of_p_adjust_in_r(adjust, given_values, expected):
    np.testing.assert_allclose(adjust(given_values), expected, rtol=1e-9)


@BOTH
@given(p=p_values)
def test_adjusted_values_are_larger_in_the_same_order_and_at_most_one(adjust, p):
    adjusted = adjust(p)
    assert np.all(adjusted >= p)
    assert np.all(adjusted <= 1.0)
    assert np.all(np.diff(adjusted[np.argsort(p)]) >= 0.0)


@BOTH
@given(p=p_values, data=st.data())
def test_order_and_missing_values_do_not_matter(adjust, p, data):
    order = data.draw(st.permutations(range(len(p))))
    adjusted = adjust(p)
    np.testing.assert_array_equal(adjust(np.array(p)[order]), adjusted[order])
    with_nan = adjust([np.nan, *p, np.nan])
    assert np.isnan(with_nan[[0, -1]]).all()
    np.testing.assert_array_equal(with_nan[1:-1], adjusted)


@given(p=p_values)
def test_between_bonferroni_and_each_other(p):
    bonferroni = np.minimum(1.0, np.array(p) * len(p))
    tiny = 1e-12
    assert np.all(benjamini_hochberg(p) <= holm(p) * (1 + tiny) + 1e-300)
    assert np.all(holm(p) <= bonferroni)


@given(p=p_values)
def test_benjamini_hochberg_agrees_with_scipy(p):
    np.testing.assert_allclose(benjamini_hochberg(p), false_discovery_control(p), rtol=1e-12)


@given(p=p_values, level=st.floats(0.001, 0.5))
def test_holm_rejects_what_its_steps_reject(p, level):
    """Step down: compare the smallest with level / m, the next with level / (m - 1), and so on."""
    factors = np.arange(len(p), 0, -1)
    passed = np.logical_and.accumulate(np.sort(p) * factors <= level)
    assert np.sum(holm(p) <= level) == passed.sum()


@BOTH
def test_edge_cases(adjust):
    assert adjust([]).tolist() == []
    assert np.isnan(adjust([np.nan, np.nan])).all()
    assert adjust([0.3]).tolist() == [0.3]
    assert adjust([0.0, 1.0]).tolist() == [0.0, 1.0]
    given_values = np.array([0.01, 0.02])
    adjust(given_values)
    assert given_values.tolist() == [0.01, 0.02]


@BOTH
def test_wrong_input_is_named(adjust):
    with pytest.raises(ValueError, match=r"p_values must lie between 0 and 1, got .* from -1 to 2"):
        adjust([-1.0, 0.5, 2.0, np.nan])
    with pytest.raises(TypeError, match="p_values must be real numbers, got dtype"):
        adjust(["a"])
