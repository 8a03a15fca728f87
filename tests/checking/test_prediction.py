"""Held-out log predictive density against its closed form."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

import vicheck
from vicheck.checking import prediction
from vicheck.checking.prediction import predictive_density

Y = np.array([1.0, 2.0, 3.0, 2.0])
HELD_OUT = np.array([2.5, 0.0, 4.0])


def normal(y=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


@pytest.fixture(scope="module")
def fit():
    return vicheck.fit(vicheck.from_numpyro(normal, y=Y))


def exact(y):
    """Posterior of mu: normal; a new point adds its own variance."""
    variance = 1.0 / (1.0 / 100.0 + len(Y))
    return stats.norm.logpdf(y, variance * Y.sum(), np.sqrt(variance + 1.0)).sum()


def test_it_is_the_exact_density(fit):
    """The posterior is Gaussian, so q is exact, and VI and PSIS agree with the formula."""
    found = predictive_density(fit.model, fit.q, {"y": HELD_OUT}, seed=1)
    assert found.num_points == 3
    for measure in (found.vi, found.psis):
        assert abs(measure.value - exact(HELD_OUT)) < 5 * measure.mcse
        assert 0.0 < measure.mcse < 0.1


def test_the_same_seed_gives_the_same_bits(fit):
    one, two, other = (
        predictive_density(fit.model, fit.q, {"y": HELD_OUT}, seed=seed) for seed in (1, 1, 2)
    )
    assert one.vi.value == two.vi.value != other.vi.value


def test_with_many_points_there_are_fewer_draws(fit, monkeypatch):
    monkeypatch.setattr(prediction, "_NUMBERS", 600)
    few = predictive_density(fit.model, fit.q, {"y": HELD_OUT}, seed=1)
    assert few.vi.mcse > predictive_density(fit.model, fit.q, {"y": HELD_OUT[:1]}, seed=1).vi.mcse
    assert abs(few.vi.value - exact(HELD_OUT)) < 5 * few.vi.mcse


def test_unknown_data_are_refused(fit):
    with pytest.raises(vicheck.ModelError, match="data has x, but the model's data are: y"):
        predictive_density(fit.model, fit.q, {"x": HELD_OUT})
