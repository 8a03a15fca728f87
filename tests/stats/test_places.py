"""Places at which to look at a function."""

import numpy as np
import pytest

from vicheck.stats.places import far_apart, strewn


@pytest.mark.parametrize("dim", [1, 2, 6])
def test_places_are_as_many_as_asked_for_all_around_and_one_in_the_middle(dim):
    places = strewn(6 + 6 * dim, dim, np.random.default_rng(0))
    assert places.shape == (6 + 6 * dim, dim)
    distance = np.linalg.norm(places, axis=1)
    assert distance.min() < 0.5
    assert distance.max() < 3.0 + dim
    assert (places.min(axis=0) < -0.5).all()
    assert (places.max(axis=0) > 0.5).all()
    np.testing.assert_array_equal(places, strewn(6 + 6 * dim, dim, np.random.default_rng(0)))


def test_the_farthest_come_first_and_none_is_near_another():
    pool = np.array([[0.0], [1.0], [1.01], [5.0], [4.9], [-3.0]])
    assert far_apart(pool, np.zeros((1, 1)), 3, 0.1).ravel().tolist() == [5.0, -3.0, 1.01]
    assert far_apart(pool, np.zeros((1, 1)), 9, 0.5).ravel().tolist() == [5.0, -3.0, 1.01]
    assert far_apart(pool, pool, 9, 0.5).shape == (0, 1)
