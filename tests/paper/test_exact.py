"""Quadratures against numbers nobody here computed, other quadratures, and NUTS."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import norm

from vicheck.paper.exact import linear_means, logistic_plane
from vicheck.paper.schools import FIG6_SCRIPT, PRINTED, SUPPLEMENT

REFERENCE = Path(__file__).parents[1] / "reference" / "eight_schools_stan.json"


@pytest.mark.parametrize(
    ("prior", "key"),
    [(PRINTED, "paper"), (SUPPLEMENT, "code_fig5"), (FIG6_SCRIPT, "code_fig6")],
    ids=["printed", "supplement", "script of figure 6"],
)
def test_eight_schools_agree_with_an_independent_quadrature(prior, key):
    exact = json.loads(REFERENCE.read_text())["reference_moments"][key]["exact_quadrature"]
    truth = prior.exact()
    assert truth.log_evidence == pytest.approx(exact["log_evidence"], abs=1e-4)
    names = {f"theta{i + 1}": f"theta[{i}]" for i in range(8)}
    names |= {name: name for name in ("mu", "tau", "log_tau")}
    for theirs, ours in names.items():
        assert truth.mean(ours) == pytest.approx(exact["mean"][theirs], abs=2e-3)
        assert truth.sd(ours) == pytest.approx(exact["sd"][theirs], abs=5e-3)


@pytest.mark.parametrize(
    ("name", "radius"), [("theta[0]", 60.0), ("theta_raw[3]", 8.0), ("mu", 30.0), ("log_tau", 14.0)]
)
def test_marginal_densities_of_eight_schools_have_the_moments_they_should(name, radius):
    truth = PRINTED.exact()
    grid = np.linspace(-radius, radius, 20_001)
    density = np.exp(truth.log_density(name, grid))
    step = grid[1] - grid[0]
    assert density.sum() * step == pytest.approx(1.0, abs=1e-3)
    assert (density @ grid) * step == pytest.approx(truth.mean(name), abs=2e-2)


def test_draws_of_eight_schools_have_the_moments_they_should():
    truth = PRINTED.exact()
    theta, log_tau = truth.sample("theta[0]", 100_000)
    assert theta.mean() == pytest.approx(truth.mean("theta[0]"), abs=0.1)
    assert log_tau.std() == pytest.approx(truth.sd("log_tau"), abs=0.02)


def test_theta_raw_is_theta_less_mu_over_tau():
    """Total expectation on draws of the joint posterior, made from the prior by importance."""
    truth = PRINTED.exact()
    rng = np.random.default_rng(0)
    size = 400_000
    mu, tau = 5 * rng.normal(size=size), np.abs(5 * rng.standard_cauchy(size))
    data = json.loads(REFERENCE.read_text())["data"]
    y, sigma = np.array(data["y"], float), np.array(data["sigma"], float)
    total = np.sqrt(sigma**2 + tau[:, None] ** 2)
    weights = np.exp(norm.logpdf(y, mu[:, None], total).sum(axis=1))
    weights /= weights.sum()
    raw = tau * (y[0] - mu) / total[:, 0] ** 2
    assert weights @ raw == pytest.approx(truth.mean("theta_raw[0]"), abs=0.01)


def test_linear_means_agree_with_brute_force():
    rng = np.random.default_rng(3)
    design = rng.normal(size=(30, 2))
    y = design @ np.array([0.5, -1.0]) + 0.7 * rng.normal(size=30)
    gram = design.T @ design
    estimate = np.linalg.solve(gram, design.T @ y)
    residual = ((y - design @ estimate) ** 2).sum()
    beta, sigma = linear_means(gram, 30, np.append(estimate, residual))
    # Importance sampling from wide proposals, with the model written down plainly.
    size = 400_000
    sigmas = np.exp(np.log(0.7) + 0.3 * rng.normal(size=size))
    betas = estimate + 0.4 * rng.normal(size=(size, 2))
    log_p = (
        norm.logpdf(betas).sum(axis=1)
        - 0.5 * np.log(sigmas)
        - 0.5 * sigmas
        + norm.logpdf(y, betas @ design.T, sigmas[:, None]).sum(axis=1)
    )
    log_q = norm.logpdf(betas, estimate, 0.4).sum(axis=1)
    log_q += norm.logpdf(np.log(sigmas), np.log(0.7), 0.3) - np.log(sigmas)
    weights = np.exp(log_p - log_q - (log_p - log_q).max())
    weights /= weights.sum()
    np.testing.assert_allclose(beta, weights @ betas, atol=0.005)
    assert sigma == pytest.approx(weights @ sigmas, abs=0.005)


def test_the_logistic_plane_agrees_with_adaptive_quadrature():
    rng = np.random.default_rng(4)
    design = rng.normal(size=(40, 2))
    outcome = rng.binomial(1, 1 / (1 + np.exp(-design @ np.array([1.0, 2.0]))))
    posterior = logistic_plane(design, outcome)

    def density(b, a):
        margins = (2 * outcome - 1) * (design @ np.array([a, b]))
        return np.exp(-np.logaddexp(0, -margins).sum() + 15)

    box = (-3.0, 6.0, -3.0, 9.0)
    total = dblquad(density, *box, epsrel=1e-4)[0]
    first = dblquad(lambda b, a: a * density(b, a), *box, epsrel=1e-4)[0] / total
    second = dblquad(lambda b, a: b**2 * density(b, a), *box, epsrel=1e-4)[0] / total
    assert posterior.mean[0] == pytest.approx(first, abs=2e-3)
    assert posterior.second_moment[1] == pytest.approx(second, rel=2e-3)


def test_separable_classes_have_no_posterior():
    design = np.array([[1.0, 0.3], [2.0, -0.2], [-1.0, 0.1], [-2.0, -0.4]])
    with pytest.raises(ValueError, match="separa"):
        logistic_plane(design, np.array([1, 1, 0, 0]))
