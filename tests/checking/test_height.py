"""How much of the posterior lies where draws lie, for the mixture with other modes."""

import numpy as np
import pytest

from vicheck.checking.modes import _height
from vicheck.draws import Draws


def wide(dim=20, factor=1.6):
    """Draws of a wide normal for a posterior N(0, I) of mass 1."""
    x = factor * np.random.default_rng(3).normal(size=(20_000, dim))
    constant = -0.5 * dim * np.log(2.0 * np.pi)
    log_q = constant - dim * np.log(factor) - 0.5 * np.square(x / factor).sum(axis=1)
    return Draws({"x": x}, constant - 0.5 * np.square(x).sum(axis=1), log_q)


def test_the_weights_tell_the_height_where_they_work():
    draws = wide()
    assert _height(draws, weights_work=True) == pytest.approx(0.0, abs=0.1)
    assert _height(draws, weights_work=False) < -5.0


def test_a_ratio_that_is_no_number_counts_as_none():
    draws = wide()
    before = _height(draws, weights_work=True)
    draws.log_p[0] = np.nan
    assert _height(draws, weights_work=True) == pytest.approx(before, abs=0.01)
