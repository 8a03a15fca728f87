"""The search for modes, which needs a model and where an approximation already is."""

import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.draws import Approximation
from vicheck.model import double_precision
from vicheck.vi.density import Density
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.modes import (
    MAX_EVALUATIONS,
    Place,
    climb_from_starts,
    is_far,
    random_starts,
    search_beyond,
    search_modes,
)

CENTRES = np.array([[0.0, 0.0], [3.0, 0.0], [-2.0, -3.0]])
LOG_WEIGHTS = np.log([0.6, 0.3, 0.1])
SD = 0.2


def three_modes(x):
    squares = jnp.sum(((x - CENTRES) / SD) ** 2, axis=1)
    return jnp.logaddexp.reduce(LOG_WEIGHTS - 0.5 * squares)


@pytest.fixture(scope="module")
def model():
    return vicheck.from_log_density(three_modes, np.zeros(2))


HERE = Place(np.zeros(2), np.full(2, SD))


def test_the_other_modes_are_found_the_highest_first(model):
    modes = search_modes(model, HERE, num_starts=20)
    np.testing.assert_allclose([mode.z for mode in modes], CENTRES[1:], atol=0.02)
    np.testing.assert_allclose([mode.log_p for mode in modes], LOG_WEIGHTS[1:], atol=0.01)


def test_an_approximation_says_itself_where_it_is(model):
    q = MeanField(np.zeros(2), np.full(2, np.log(SD)))
    for mode, other in zip(
        search_modes(model, q, num_starts=20),
        search_modes(model, HERE, num_starts=20),
        strict=True,
    ):
        np.testing.assert_array_equal(mode.z, other.z)


class Elsewhere(Approximation):
    """A q of another library, close to the first mode."""

    def draws(self, num_draws, seed=0):
        z = SD * np.random.default_rng(seed).normal(size=(num_draws, 2))
        return vicheck.Draws({"x": z}, np.zeros(num_draws), np.zeros(num_draws), q=self)


@pytest.mark.parametrize("around", [Elsewhere(), Elsewhere().draws(500)], ids=["q", "draws"])
def test_a_fit_made_elsewhere_says_where_it_is_by_its_draws(around):
    model = vicheck.from_log_density(lambda theta: three_modes(theta["x"]), {"x": np.zeros(2)})
    modes = search_modes(model, around, num_starts=20)
    np.testing.assert_allclose([mode.z for mode in modes], CENTRES[1:], atol=0.02)


def test_what_a_wide_approximation_covers_is_not_another_mode(model):
    assert search_modes(model, Place(np.zeros(2), np.ones(2)), num_starts=20) == []


def test_the_seed_decides(model):
    one, same, other = (
        [mode.z.tolist() for mode in search_modes(model, HERE, num_starts=3, seed=seed)]
        for seed in (0, 0, 5)
    )
    assert one == same
    assert one != other


def test_the_callers_precision_is_left_alone(model):
    search_modes(model, HERE)
    assert jnp.ones(1).dtype == jnp.float32


ERRORS = {
    "starts": ({"num_starts": 0}, HERE, "num_starts must be at least 1, got 0"),
    "mean": ({}, Place(np.zeros(3), np.ones(2)), r"a mean of shape \(2,\).*got shape \(3,\)"),
    "sd": ({}, Place(np.zeros(2), 1.0), r"a sd of shape \(2,\), .*got shape \(\)"),
    "negative": ({}, Place([0, 0], [1, -1]), r"finite means and positive sds, .*sd=\[ 1. -1.\]"),
    "infinite": (
        {},
        Place([0, np.inf], [1, 1]),
        r"finite means and positive sds, got mean=\[ 0. inf",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_bad_arguments(model, case):
    options, around, message = ERRORS[case]
    with pytest.raises(ValueError, match=message):
        search_modes(model, around, **options)


def test_a_climb_that_does_not_arrive_is_nan():
    """Up a slope without an end; and from a start of NaN."""
    model = vicheck.from_log_density(lambda x: jnp.sum(x) + 0.0 * jnp.sum(x**2), np.zeros(2))
    starts = np.array([[0.0, 0.0], [np.nan, 1.0]])
    with double_precision():
        ends = climb_from_starts(Density(model.program, {}, {}), starts, np.ones(2))
    assert np.isnan(ends).all()
    assert MAX_EVALUATIONS == 60  # as the docstring of search_modes says


def test_climbs_along_directions_and_along_axes_end_at_the_same_mode(model):
    starts = np.array([[2.5, 0.5], [-2.5, -2.0]])
    turned = SD * np.array([[0.8, -0.6], [0.6, 0.8]])
    with double_precision():
        for directions in (np.full(2, SD), turned):
            ends = climb_from_starts(Density(model.program, {}, {}), starts, directions)
            np.testing.assert_allclose(ends, CENTRES[1:], atol=0.05)


def test_far_is_measured_in_the_sds_of_each_place():
    places = [Place(np.zeros(2), np.array([1.0, 0.1])), Place(np.full(2, 10.0), np.ones(2))]
    assert not is_far(np.array([3.9, 0.39]), places)
    assert is_far(np.array([3.9, 0.41]), places)
    assert is_far(np.array([1.1, 0.0]), places, sds=1.0)
    assert not is_far(np.array([10.0, 13.0]), places)


def test_ends_are_followed_up_once_and_only_far_from_what_is_known():
    ends = np.array([[1.0], [np.nan], [20.0], [21.0], [50.0], [70.0], [90.0]])
    visited = []

    def settle(end, known):
        visited.append((float(end[0]), len(known)))
        if end[0] == 50.0:
            return None  # not converged
        if end[0] == 70.0:
            return Place(np.array([20.5]), np.ones(1))  # came back to a known one
        return Place(end, np.ones(1))

    first = Place(np.zeros(1), np.ones(1))
    known = search_beyond(ends, first, settle, lambda place: place)
    assert [float(place.mean[0]) for place in known] == [0.0, 20.0, 90.0]
    assert visited == [(20.0, 1), (50.0, 2), (70.0, 2), (90.0, 2)]


def test_random_starts_are_over_dispersed_and_those_of_the_seed():
    starts = random_starts(1000, 2, seed=3)
    assert starts.shape == (1000, 2)
    assert np.abs(starts).max() <= 4.0
    assert np.abs(starts).mean() == pytest.approx(2.0, abs=0.1)
    np.testing.assert_array_equal(starts, random_starts(1000, 2, seed=3))
