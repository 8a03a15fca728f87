"""The regression by sufficient statistics is the regression."""

import jax
import numpy as np
import pytest

import vicheck
from vicheck.paper.linear_statistics import LeastSquares, linear_by_statistics
from vicheck.paper.models import linear


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    design = rng.normal(size=(50, 3))
    y = design @ np.array([1.0, -2.0, 0.5]) + 0.3 * rng.normal(size=50)
    gram = design.T @ design
    estimate = np.linalg.solve(gram, design.T @ y)
    residual = ((y - design @ estimate) ** 2).sum()
    return design, y, gram, np.append(estimate, residual)


def test_the_log_density_is_that_of_all_outcomes(problem):
    design, y, gram, statistics = problem
    full = vicheck.from_numpyro(linear, design, y)
    short = vicheck.from_numpyro(
        linear_by_statistics, gram, 50, statistics, observed=("statistics",)
    )
    z = np.random.default_rng(1).normal(size=(20, 4))
    np.testing.assert_allclose(short.log_density(z), full.log_density(z), rtol=1e-12)


def test_simulated_statistics_have_the_law_of_those_of_simulated_outcomes(problem):
    design, _, gram, _ = problem
    beta, sigma = np.array([0.2, 0.4, -0.6]), 1.5
    with jax.enable_x64(True):
        law = LeastSquares(jax.numpy.asarray(beta), sigma, jax.numpy.asarray(gram), 50)
        simulated = np.asarray(law.sample(jax.random.key(0), (20_000,)))
    rng = np.random.default_rng(2)
    y = design @ beta + sigma * rng.normal(size=(20_000, 50))
    estimates = np.linalg.solve(gram, design.T @ y.T).T
    residuals = ((y - estimates @ design.T) ** 2).sum(axis=1)
    plain = np.column_stack([estimates, residuals])
    errors = plain.std(axis=0) / np.sqrt(20_000)
    assert (np.abs(simulated.mean(axis=0) - plain.mean(axis=0)) < 6 * errors).all()
    np.testing.assert_allclose(
        np.cov(simulated[:, :3].T), np.cov(plain[:, :3].T), rtol=0.08, atol=2e-3
    )
    assert simulated[:, 3].std() == pytest.approx(plain[:, 3].std(), rel=0.05)
