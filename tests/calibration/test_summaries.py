"""Averages and quantiles over datasets, some of which have no number."""

import numpy as np
import pytest

from vicheck.calibration.summaries import average, summarise_khat


def test_an_average_leaves_out_what_is_unknown():
    terms = np.array([1.0, np.nan, 3.0, 2.0])
    found = average(terms)
    assert found.mean == 2.0
    assert found.num_used == 3
    assert found.low < 2.0 < found.high
    assert found.high - 2.0 == pytest.approx(2.0 - found.low)
    assert found.largest_share == 0.5


def test_shares_are_those_of_absolute_values():
    assert average(np.array([-9.0, 1.0])).largest_share == 0.9


def test_an_average_of_nothing_is_unknown():
    found = average(np.full(3, np.nan))
    assert found.num_used == 0
    assert np.isnan(found.mean)


def test_infinite_terms_have_an_infinite_mean_and_no_share():
    found = average(np.array([np.inf, 1.0, 2.0]))
    assert found.mean == np.inf
    assert np.isnan(found.largest_share)


def test_khat_is_summarised_where_it_is_defined():
    khat = np.array([0.1, 0.2, np.nan, 0.3, np.inf])
    found = summarise_khat(khat, 1000)
    assert found.median == 0.25
    assert found.low == pytest.approx(0.115)
    assert found.high == np.inf
    assert found.threshold == pytest.approx(2 / 3)
    assert found.share_above == 0.25
    assert (found.num_used, found.num_undefined) == (4, 1)


def test_a_khat_at_the_threshold_is_above_it():
    threshold = summarise_khat(np.zeros(1), 1000).threshold
    assert summarise_khat(np.array([threshold]), 1000).share_above == 1.0


def test_without_any_khat_nothing_is_claimed():
    found = summarise_khat(np.full(4, np.nan), 10)
    assert np.isnan([found.median, found.low, found.high, found.share_above]).all()
    assert (found.num_used, found.num_undefined) == (0, 4)
