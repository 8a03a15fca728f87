import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicheck.indexing import Indexing

SHAPES = {"tau": (), "theta": (2,), "Sigma": (2, 1), "none": (0,)}


def test_python_counts_from_zero_as_arviz_prints():
    names = ("tau", "theta[0]", "theta[1]", "Sigma[0, 0]", "Sigma[1, 0]")
    assert Indexing.PYTHON.labels(SHAPES) == names


def test_stan_counts_from_one_without_spaces():
    names = ("tau", "theta[1]", "theta[2]", "Sigma[1,1]", "Sigma[2,1]")
    assert Indexing.STAN.labels(SHAPES) == names


@pytest.mark.parametrize("spelled", ["S[1,2]", "S[1, 2]", "S[1,  2]"])
def test_spaces_after_commas_do_not_matter(spelled):
    assert Indexing.PYTHON.spelled(spelled) == "S[1, 2]"
    assert Indexing.STAN.spelled(spelled) == "S[1,2]"


@given(st.sampled_from(Indexing), st.lists(st.integers(1, 4), max_size=3).map(tuple))
def test_labels_are_parsed_to_what_they_were_made_of(indexing, shape):
    parsed = [indexing.parsed(label) for label in indexing.labels({"a.b": shape})]
    assert parsed == [("a.b", index) for index in np.ndindex(*shape)]


@pytest.mark.parametrize("label", ["theta", "theta[0]", "theta[]", "theta[1.5]", "[1]", "theta[x]"])
def test_what_is_no_element_in_stan_keeps_its_name(label):
    assert Indexing.STAN.parsed(label) == (label, ())
