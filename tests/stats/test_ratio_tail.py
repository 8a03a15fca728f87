"""How draws in the tail differ, which pairs matter, and what a far region is."""

import numpy as np
import pytest
from scipy import stats

from tests.stats import targets
from vicheck.stats.ratio_tail import far_region, tail_contrast, worst_pairs
from vicheck.stats.standardised import compressed, from_moments, from_ranks


@pytest.fixture
def e(rng):
    return rng.standard_normal((4096, 5))


def test_the_tail_is_compared_with_the_rest(e):
    tail = tail_contrast(e, 2.0 * e[:, 3])
    assert tail.is_tail.sum() == 192  # three roots of the number of draws
    assert np.argmax(np.abs(tail.shift)) == 3
    assert tail.shift[3] > 2.0
    assert tail.spread[3] < 0.5
    assert tail.spread[0] > 0.8


def test_the_worst_pair_of_a_correlation(e):
    ratios, slopes = targets.correlation(e[:, :2])
    slopes = np.pad(slopes, ((0, 0), (0, 3)))
    tail = tail_contrast(e, ratios)
    for given in (slopes, None):
        pairs = worst_pairs(e, *compressed(ratios, given), np.arange(5), tail.is_tail)
        assert {pairs.first[0], pairs.second[0]} == {0, 1}
        assert pairs.cross[0] > 0.3
        assert pairs.tail_correlation[0] > 0.5


def test_the_scale_comes_first_in_a_pair_of_a_funnel(e):
    ratios, slopes = targets.funnel(e[:, [4, 1]])
    spread = np.zeros_like(e)
    spread[:, [4, 1]] = slopes
    tail = tail_contrast(e, ratios)
    pairs = worst_pairs(e, *compressed(ratios, spread), np.arange(5), tail.is_tail)
    assert (pairs.first[0], pairs.second[0]) == (4, 1)
    assert pairs.scaling[0] > 0.1


def test_noise_has_no_pairs(e, rng):
    ratios = rng.standard_normal(len(e))
    pairs = worst_pairs(e, ratios, None, np.arange(5), tail_contrast(e, ratios).is_tail)
    assert len(pairs.first) == 0


@pytest.mark.parametrize("dim", [1, 5])
def test_a_mode_beyond_a_valley_is_a_far_region(rng, dim):
    e = rng.standard_normal((20_000, dim))
    log_q = stats.norm.logpdf(e).sum(axis=1)
    far = stats.norm.logpdf(e[:, 0], 3.5, 0.5) + stats.norm.logpdf(e[:, 1:]).sum(axis=1)
    log_p = np.logaddexp(np.log(0.7) + log_q, np.log(0.3) + far)
    region = far_region(e, log_p, log_p - log_q)
    assert region is not None
    assert np.argmax(np.abs(region.direction)) == 0
    assert 2.5 < region.distance < 4.0
    assert 0.15 < region.mass < 0.45


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["heavy_tails", "skewness", "correlation", "funnel", "shifted"])
def test_a_tail_is_no_far_region(kind, seed):
    e = np.random.default_rng(seed).standard_normal((8192, 5))
    ratios, _ = getattr(targets, kind)(e)
    assert far_region(e, ratios + stats.norm.logpdf(e).sum(axis=1), ratios) is None


def test_ranks_do_not_depend_on_the_scale(e):
    values = np.exp(e * [0.1, 1.0, 2.0, 3.0, 0.5])
    np.testing.assert_array_equal(from_ranks(values).e, from_ranks(e).e)
    assert np.abs(from_ranks(values).e - e).max() < 1.0  # but for the rarest, it is the noise


@pytest.mark.parametrize("by_ranks", [True, False])
def test_correlations_of_q_are_taken_out(e, by_ranks):
    root = np.linalg.cholesky(0.8 * np.ones((5, 5)) + 0.2 * np.eye(5))
    z = e @ root.T * 3.0 + 1.0
    standard = (
        from_ranks(z)
        if by_ranks
        else from_moments(z, np.zeros_like(z), np.ones(5), 9.0 * root @ root.T)
    )
    assert np.abs(np.cov(standard.e, rowvar=False) - np.eye(5)).max() < 0.1
    own = [np.corrcoef(standard.e[:, i], z[:, i])[0, 1] for i in range(5)]
    assert min(own) > 0.7  # each keeps its name


def test_slopes_are_by_standardised_draws(e):
    root = np.linalg.cholesky(0.5 * np.ones((5, 5)) + 0.5 * np.eye(5))
    z = e @ root.T
    # Of r = z_0, whose standard coordinates have the slopes of a linear function.
    slopes = np.zeros_like(z)
    slopes[:, 0] = 1.0
    standard = from_moments(z, slopes, np.zeros(5), root @ root.T)
    np.testing.assert_allclose((standard.e * standard.slopes).sum(axis=1), z[:, 0])


def test_compressed_ratios_have_the_slopes_of_what_they_are():
    x = np.linspace(-30.0, 30.0, 2001)
    ratios, slopes = compressed(np.sinh(x / 10.0), (np.cosh(x / 10.0) / 10.0)[:, None])
    np.testing.assert_allclose(np.gradient(ratios, x)[1:-1], slopes[1:-1, 0], rtol=1e-3)
