"""Densities that were given the wrong way round, and those that only look odd."""

import numpy as np
import pytest
import scipy.stats

import vicheck
from vicheck.stats.swapped import are_swapped


def normal(z, mean, sd):
    return scipy.stats.norm(mean, sd).logpdf(z).sum(axis=1)


def cases(dim, num_draws, rng):
    """Yield draws of q with log_p and log_q, and whether q is a normal, by name."""
    z = rng.normal(size=(num_draws, dim))
    q = normal(z, 0.0, 1.0)
    yield "p is wider", z, normal(z, 0.0, 1.7) - 300.0, q, True
    yield "p is narrower", z, normal(z, 0.0, 0.6) + 300.0, q, True
    yield "p is shifted and skew", z, scipy.stats.gumbel_r.logpdf(z).sum(axis=1), q, True
    positive = np.exp(z)
    p = scipy.stats.gamma(2.0).logpdf(positive).sum(axis=1) + z.sum(axis=1)
    yield "on a log scale", positive, p - 50.0, q, True
    yield "q lacks its constant", z, normal(z, 0.0, 1.7), q + 10.0, True
    t = z * np.sqrt(5.0 / rng.chisquare(5.0, size=(num_draws, 1)))
    log_t = scipy.stats.multivariate_t(np.zeros(dim), np.eye(dim), df=5).logpdf(t)
    yield "q is a t", t, normal(t, 0.0, 1.0), log_t.reshape(num_draws), False
    centre = 2.0 * rng.choice([-1.0, 1.0], size=(num_draws, 1))
    apart = z + centre
    parts = normal(apart, 2.0, 1.0), normal(apart, -2.0, 1.0)
    mixture = np.logaddexp(*parts) - np.log(2.0)
    yield "q is a mixture", apart, normal(apart, 0.0, np.sqrt(5.0)), mixture, False


@pytest.mark.parametrize("dim", [1, 3, 10])
def test_swapped_densities_are_found_and_others_are_not_suspected(dim):
    rng = np.random.default_rng(dim)
    found, tried = 0, 0
    for _ in range(20):
        for name, draws, log_p, log_q, is_normal in cases(dim, 1000, rng):
            assert not are_swapped(log_p, log_q, draws), name
            if is_normal:
                tried += 1
                found += are_swapped(log_q, log_p, draws)
    assert found >= 0.95 * tried


def test_the_verdict_says_so_and_what_to_do():
    z = np.random.default_rng(1).normal(size=(2000, 2))
    log_p, log_q = normal(z, 0.0, 1.7) - 200.0, normal(z, 0.0, 1.0)
    verdict = vicheck.check_draws(z, log_p=log_q, log_q=log_p).verdict
    assert verdict.decided_by == "swapped-densities"
    assert verdict.level == "none"
    assert "Exchange log_p and log_q" in verdict.hint
    assert vicheck.check_draws(z, log_p, log_q).verdict.decided_by != "swapped-densities"


def test_nothing_is_said_of_columns_that_are_more_than_the_parameters():
    z = np.random.default_rng(1).normal(size=(2000, 2))
    columns = np.column_stack([z, z[:, 0] ** 2])
    assert not are_swapped(normal(z, 0.0, 1.0), normal(z, 0.0, 1.7), columns)
    assert not are_swapped(np.empty(0), np.empty(0), np.empty((0, 0)))
