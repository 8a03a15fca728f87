"""Stacking weights against closed forms and ArviZ, and PSIS-LOO against ArviZ and a closed form."""

import numpy as np
import pytest
from scipy import stats

from vicheck.stats.psis import psis_quietly
from vicheck.stats.stacking import khat_is_high, psis_loo, stacking_weights


def gap(elpd, weights):
    """How far the mean log density is from its maximum, at most: by concavity."""
    densities = np.exp(elpd - elpd.max(axis=1, keepdims=True))
    return (densities / (densities @ weights)[:, None]).mean(axis=0).max() - 1.0


def test_observations_that_only_one_predicts_are_counted():
    elpd = np.where(np.arange(3) == np.repeat([0, 1, 2], [5, 3, 2])[:, None], -1.0, -800.0)
    np.testing.assert_allclose(stacking_weights(elpd), [0.5, 0.3, 0.2], atol=1e-8)


def test_two_that_predict_all_observations_otherwise():
    """The gradient is zero where 2 a / (b + a w) = a / (1 - b - a w), with a = 0.8 and b = 0.1."""
    elpd = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    weight = (2.0 / 3.0 - 0.1) / 0.8
    np.testing.assert_allclose(stacking_weights(elpd), [weight, 1.0 - weight], atol=1e-8)


def test_the_best_of_all_gets_all():
    elpd = -np.arange(12.0).reshape(4, 3)
    assert stacking_weights(elpd).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("scale", [1e-3, 0.3, 3.0, 300.0])
@pytest.mark.parametrize(("size", "count"), [(2, 2), (5, 6), (300, 4), (4000, 6)])
def test_nothing_is_missing_from_the_maximum(size, count, scale):
    elpd = scale * np.random.default_rng(size).normal(size=(size, count))
    weights = stacking_weights(elpd)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights >= 0.0).all()
    assert gap(elpd, weights) < 1e-6


def test_copies_share_and_nobody_else_changes():
    elpd = np.random.default_rng(1).normal(size=(50, 2))
    first, second = stacking_weights(elpd)
    np.testing.assert_allclose(
        stacking_weights(elpd[:, [0, 0, 1]]), [first / 2, first / 2, second], atol=1e-6
    )


def test_one_has_all_and_nan_has_none():
    assert stacking_weights(np.full((3, 1), -np.inf)).tolist() == [1.0]
    assert np.isnan(stacking_weights(np.array([[0.0, np.nan], [0.0, 0.0]]))).all()
    assert np.isnan(stacking_weights(np.array([[-np.inf, -np.inf], [0.0, 0.0]]))).all()
    elpd = np.array([[-1.0, -np.inf], [-np.inf, -2.0]])
    np.testing.assert_allclose(stacking_weights(elpd), 0.5)


@pytest.fixture(scope="module")
def posteriors():
    """Draws from two posteriors of a normal mean; the second believes in another noise."""
    rng = np.random.default_rng(3)
    y = rng.standard_t(3, size=30)
    sds = (0.7, 2.5)
    draws = [stats.norm(y.mean(), sd / np.sqrt(30)).rvs((4, 500), random_state=rng) for sd in sds]
    return y, [stats.norm.logpdf(y, mu[..., None], sd) for mu, sd in zip(draws, sds, strict=True)]


@pytest.mark.slow  # importing ArviZ takes seconds
@pytest.mark.filterwarnings("ignore::Warning")  # ArviZ 0.23 uses what pandas will drop
def test_as_arviz_does_it(posteriors):
    arviz = pytest.importorskip("arviz")
    _, likelihoods = posteriors
    by_arviz = {
        name: arviz.loo(
            arviz.from_dict(posterior={"mu": each[..., 0]}, log_likelihood={"y": each}),
            pointwise=True,
            reff=1.0,
        )
        for name, each in zip("ab", likelihoods, strict=True)
    }
    ours = [psis_loo(np.zeros(2000), each.reshape(2000, -1)) for each in likelihoods]
    for loo, name in zip(ours, "ab", strict=True):
        np.testing.assert_allclose(loo.elpd, by_arviz[name].loo_i, rtol=1e-6)
        np.testing.assert_allclose(loo.khat, by_arviz[name].pareto_k, atol=1e-6)
        assert not loo.is_high.any()
    weights = arviz.compare(by_arviz, method="stacking").loc[["a", "b"], "weight"]
    ours_stacked = stacking_weights(np.stack([loo.elpd for loo in ours], axis=1))
    assert 0.05 < ours_stacked[0] < 0.95
    np.testing.assert_allclose(ours_stacked, weights, atol=1e-3)


def test_draws_of_an_approximation_are_corrected():
    """The posterior of a normal mean without one observation is known; q is too narrow by 20%."""
    rng = np.random.default_rng(4)
    y = rng.normal(size=8)
    z = stats.norm(y.mean() + 0.1, 0.8 / np.sqrt(8)).rvs(40_000, random_state=rng)
    terms = stats.norm.logpdf(y, z[:, None])
    log_ratios = terms.sum(axis=1) - stats.norm.logpdf(z, y.mean() + 0.1, 0.8 / np.sqrt(8))
    rest = (y.sum() - y) / 7
    exact = stats.norm.logpdf(y, rest, np.sqrt(1.0 + 1.0 / 7.0))
    np.testing.assert_allclose(psis_loo(log_ratios, terms).elpd, exact, atol=0.03)


def test_blocks_of_observations_change_nothing(posteriors, monkeypatch):
    each = posteriors[1][0].reshape(2000, -1)
    whole = psis_loo(np.zeros(2000), each)
    monkeypatch.setattr("vicheck.stats.stacking._NUMBERS", 7000)
    for one, other in zip(whole, psis_loo(np.zeros(2000), each), strict=True):
        np.testing.assert_array_equal(one, other)


def test_khat_counts_where_ratios_are_large():
    u = np.random.default_rng(0).uniform(size=4000)
    heavy, light = -0.9 * np.log(u), -0.2 * np.log(u)
    z = stats.norm.ppf(u)
    flat = -0.3 * z**2 + 0.1 * np.abs(z) ** 3  # a maximum at zero, and a few ratios beyond it
    rows = np.stack([heavy, light, flat, np.full(4000, np.nan)])
    smoothed = psis_quietly(rows)
    assert (smoothed.khat[[0, 2]] > smoothed.threshold).all()
    assert khat_is_high(rows, smoothed).tolist() == [True, False, False, True]
    assert khat_is_high(heavy, psis_quietly(heavy)).item()
