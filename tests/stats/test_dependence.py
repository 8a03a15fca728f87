"""Which pairs depend on each other otherwise under the posterior than under q."""

import numpy as np
import pytest

from vicheck.stats.dependence import pair_shifts


def weights_of(log_ratios):
    return log_ratios - np.logaddexp.reduce(log_ratios)


@pytest.fixture
def z():
    return np.random.default_rng(3).normal(size=(20_000, 4))


def test_a_correlation_is_found_with_its_size(z):
    rho = 0.5
    quadratic = (z[:, 1] ** 2 - 2 * rho * z[:, 1] * z[:, 3] + z[:, 3] ** 2) / (1 - rho**2)
    log_ratios = -0.5 * quadratic + 0.5 * (z[:, 1] ** 2 + z[:, 3] ** 2)
    first, second, size = pair_shifts(z, weights_of(log_ratios))[0]
    assert (first, second) == (1, 3)
    assert size == pytest.approx(rho, abs=0.05)


def test_a_funnel_is_found_though_nothing_is_correlated(z):
    log_ratios = -0.5 * (z[:, 2] / np.exp(0.7 * z[:, 0])) ** 2 - 0.7 * z[:, 0] + 0.5 * z[:, 2] ** 2
    log_weights = weights_of(np.minimum(log_ratios, 5.0))
    weights = np.exp(log_weights)
    assert abs((weights * z[:, 0] * z[:, 2]).sum()) < 0.1
    first, second, size = pair_shifts(z, log_weights)[0]
    assert (first, second) == (0, 2)
    assert size > 0.3


def test_the_scale_does_not_matter(z):
    log_ratios = z[:, 0] * z[:, 1] - 0.5 * z[:, 0] ** 2
    stretched = z.copy()
    stretched[:, 0] = np.exp(stretched[:, 0])
    stretched[:, 1] = stretched[:, 1] ** 3
    assert pair_shifts(stretched, weights_of(log_ratios)) == pair_shifts(z, weights_of(log_ratios))


def test_a_shift_alone_is_no_dependence(z):
    log_ratios = 0.8 * z[:, 0] + 0.8 * z[:, 1]
    assert pair_shifts(z, weights_of(log_ratios))[0].size < 0.1


def test_every_pair_comes_once_and_in_order(z):
    found = pair_shifts(z, weights_of(z[:, 0] * z[:, 1] - z[:, 0] ** 2))
    assert len({(pair.first, pair.second) for pair in found}) == len(found) == 6
    sizes = [pair.size for pair in found]
    assert sizes == sorted(sizes, reverse=True)


def test_what_does_not_vary_or_is_not_finite_is_left_out(z):
    z[:, 0] = 1.0
    z[5, 1] = np.nan
    found = pair_shifts(z, np.full(len(z), -np.log(len(z))))
    assert [(pair.first, pair.second) for pair in found] == [(2, 3)]


def test_without_weights_or_pairs_there_is_nothing(z):
    assert pair_shifts(z, np.full(len(z), np.nan)) == []
    assert pair_shifts(z[:, :1], np.full(len(z), -np.log(len(z)))) == []
