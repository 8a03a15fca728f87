"""The numbers behind the figures of a calibration."""

import numpy as np
import pytest

from tests.calibration.made import calibration
from tests.plots.subjects import normal_check
from vicheck.plots import datasets_data, ecdf_difference_data, histograms_data

BIASED = {"tau": (1.0, 1.0), "mu": (0.0, 1.0), "phi": (-0.7, 1.0)}


@pytest.fixture(scope="module")
def biased():
    return calibration(**BIASED)


def test_histograms_count_every_dataset_and_mirror(biased):
    by_name = {one.name: one for one in histograms_data(biased)}
    assert list(by_name) == ["tau", "phi", "mu"]  # worst first
    for name, one in by_name.items():
        p = biased.probabilities.sel(quantity=name).to_numpy()
        assert one.counts.sum() == 500
        assert one.counts[0] == (p < 0.05).sum()
        assert one.mirrored.tolist() == one.counts[::-1].tolist()
        assert one.low < 25 < one.high
    assert by_name["tau"].direction == "over"
    assert by_name["tau"].counts[0] > 100  # q sits too high: small probabilities
    assert by_name["phi"].direction == "under"
    assert by_name["phi"].counts[-1] > 50
    assert by_name["mu"].direction == "none"
    assert by_name["tau"].bias == pytest.approx(1.0, abs=0.15)


RIGHT = {f"x[{i}]": (0.0, 1.0) for i in range(12)}


@pytest.mark.parametrize(
    ("name", "wrong", "code"),
    [("narrow", (0.0, 0.7), "wrong-scale"), ("high", (0.5, 1.0), "bias-found")],
)
def test_what_the_headline_names_comes_first_and_is_marked(name, wrong, code):
    """A quantity that is symmetric and not uniform has no small p-value to bring it up."""
    made = calibration(1000, **RIGHT, **{name: wrong})
    assert made.verdict.decided_by == code
    assert name in str(made.verdict)
    assert made.deciding_quantity == name
    for data in (histograms_data(made, most=3), ecdf_difference_data(made, most=3)):
        assert [one.decides for one in data] == [True, False, False]
        assert data[0].name == name
    assert made.worst_first.index[0] == name
    assert made.tests.index[-1] == name


def test_where_no_quantity_decides_none_is_marked():
    made = calibration(1000, seed=3, **RIGHT)
    assert made.verdict.level == "good"
    assert made.deciding_quantity == ""
    assert not any(one.decides for one in histograms_data(made))


def test_few_datasets_have_few_bins():
    assert len(histograms_data(calibration(60))[0].counts) == 6
    assert len(histograms_data(calibration(5))[0].counts) == 4


def test_the_ecdf_is_above_zero_where_q_sits_too_high(biased):
    over, under, right = ecdf_difference_data(biased)
    p = biased.probabilities.sel(quantity="tau").to_numpy()
    middle = len(over.points) // 2
    assert over.points[middle] == 0.5
    assert over.difference[middle] == pytest.approx((p <= 0.5).mean() - 0.5)
    assert over.difference.max() > 0.3
    assert under.difference.min() < -0.2
    assert (over.inside, under.inside, right.inside) == (False, False, True)
    assert over.difference[0] == over.difference[-1] == 0.0
    assert (right.lower <= right.difference).all()
    assert (right.difference <= right.upper).all()


def test_quantities_can_be_named(biased):
    assert [one.name for one in histograms_data(biased, ["mu", "tau"])] == ["mu", "tau"]
    assert [one.name for one in ecdf_difference_data(biased, most=1)] == ["tau"]


@pytest.mark.parametrize(
    ("quantities", "most", "message"),
    [
        (["nu"], 6, "quantities has nu, but the calibration has: tau, mu"),
        ([3], 6, "quantities has 3"),
        ("tau", 6, "a list of names, got the string 'tau'"),
        ([], 6, "at least one name"),
        (None, 0, "most must be at least 1, got 0"),
    ],
)
def test_what_is_not_there_cannot_be_drawn(biased, quantities, most, message):
    with pytest.raises((TypeError, ValueError), match=message):
        histograms_data(biased, quantities, most)


@pytest.mark.parametrize("data", [histograms_data, ecdf_difference_data, datasets_data])
def test_anything_but_a_calibration_is_refused(data):
    with pytest.raises(TypeError, match=r"calibration must come from vicheck.vsbc, got Check"):
        data(normal_check())


def test_the_halves_of_a_histogram_are_counted_whatever_its_bins(biased):
    one = histograms_data(calibration(50, tau=(1.0, 1.0)))[0]
    assert len(one.counts) % 2 == 1
    assert one.num_below + one.num_above == 50


def test_datasets_have_their_statuses_and_sorted_khats():
    some = calibration(statuses={3: "FAILED", 4: "FAILED", 5: "STALLED"})
    data = datasets_data(some)
    assert data.statuses == {"CONVERGED": 497, "FAILED": 2, "STALLED": 1}
    assert data.khat.size == 498
    assert (np.diff(data.khat) >= 0).all()
    assert data.threshold == pytest.approx(2 / 3)
    assert data.num_undefined == 0
