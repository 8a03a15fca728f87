"""A model of observed data and a replicate: prior once, both likelihoods, the rest as before."""

import numpy as np
import pytest
from scipy.stats import norm

import vicheck
from tests.calibration.problems import X, bounded_model, pair_model
from vicheck.calibration.replication import REPLICATE, ReplicatedProgram
from vicheck.model import Model

Y = np.array([3.0, -1.0, 0.5])
AGAIN = np.array([0.1, 0.2, 0.3])
B = np.array([0.4, -0.7])


@pytest.fixture
def both():
    model = pair_model(y=Y)
    return Model(ReplicatedProgram(model.program), model.data | {REPLICATE: {"y": AGAIN}})


def test_the_density_counts_prior_once_and_both_data():
    model, replicate = pair_model(y=Y), AGAIN
    program = ReplicatedProgram(model.program)
    both = Model(program, model.data | {REPLICATE: {"y": replicate}})
    b = np.array([0.4, -0.7])
    expected = norm.logpdf(b).sum() + norm.logpdf(np.stack([Y, replicate]), X @ b).sum()
    assert both.log_density(b) == pytest.approx(expected, rel=1e-12)
    assert both.coordinates == model.coordinates
    np.testing.assert_allclose(both.constrain(b)["total"], b.sum(), rtol=1e-12)
    np.testing.assert_array_equal(both.unconstrain({"b": b}), b)


def test_parameters_that_fall_where_z_rises_still_do():
    model = bounded_model().given({"y": Y})
    program = ReplicatedProgram(model.program)
    for name in ("top", "scale", "loc"):
        assert program.is_decreasing(name) == (name == "top")
        assert program.is_elementwise(name)


def test_the_likelihoods_of_both_are_told_apart(both):
    sites = both.program.log_likelihood(B, both.data)
    assert list(sites) == ["y", "y (replicate)"]
    np.testing.assert_allclose(sites["y"], norm.logpdf(Y, X @ B), rtol=1e-6)
    np.testing.assert_allclose(sites["y (replicate)"], norm.logpdf(AGAIN, X @ B), rtol=1e-6)


def test_equal_programs_have_equal_replicates(both):
    other = ReplicatedProgram(pair_model(y=Y).program)
    assert other.identity == both.program.identity
    assert other.layout == both.program.layout


def test_trouble_is_looked_for_with_both_data(both):
    text = both.program.locate_trouble(B, both.data | {REPLICATE: {"y": AGAIN * np.nan}})
    first, second = text.split(", or with the replicate in ")
    assert first != second


@pytest.mark.parametrize("part", ["observed", "replicate"])
def test_unsuitable_data_are_refused_in_either_part(both, part):
    wrong = np.zeros(7)
    data = both.data | ({"y": wrong} if part == "observed" else {REPLICATE: {"y": wrong}})
    both.program.check_data(both.data)
    with pytest.raises(vicheck.ModelError):
        both.program.check_data(data)
