"""Posteriors of the paper's small models by quadrature: the truth to hold estimates against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from scipy.stats import norm

__all__ = ["EightSchools", "LogisticPosterior", "eight_schools", "linear_means", "logistic_plane"]

Floats = NDArray[np.float64]


def linear_means(gram: Floats, num_rows: int, statistics: Floats) -> tuple[Floats, float]:
    """Return the posterior means of beta and sigma in the linear regression of section 4.1.

    Given sigma beta is normal, and in the eigenvectors of X'X its entries are independent; what is
    left is an integral over log sigma.
    """
    estimate, residual = statistics[:-1], statistics[-1]
    freedom = num_rows - len(estimate)
    sizes, vectors = np.linalg.eigh(gram)
    turned = vectors.T @ estimate
    middle, width = 0.5 * np.log(residual / freedom), 1 / np.sqrt(2 * freedom)
    log_sigma = middle + width * np.linspace(-12, 12, 2001)
    variance = np.exp(2 * log_sigma)[:, None] / sizes  # of the estimate, in each direction
    log_density = (
        -freedom * log_sigma
        - residual / (2 * np.exp(2 * log_sigma))
        - 0.5 * (np.log1p(variance) + turned**2 / (1 + variance)).sum(axis=1)
        + 0.5 * log_sigma  # Gamma(1/2, 1/2), with the Jacobian of the logarithm
        - 0.5 * np.exp(log_sigma)
    )
    weights = np.exp(log_density - logsumexp(log_density))
    beta = vectors @ (weights @ (turned / (1 + variance)))
    return beta, float(weights @ np.exp(log_sigma))


@dataclass(frozen=True)
class LogisticPosterior:
    """A posterior of two coefficients as points of a plane with weights."""

    points: Floats
    weights: Floats

    @property
    def mean(self) -> Floats:
        """Posterior means."""
        return self.weights @ self.points

    @property
    def second_moment(self) -> Floats:
        """Posterior means of squares."""
        return self.weights @ self.points**2

    @property
    def correlation(self) -> float:
        """Posterior correlation of the two."""
        deviations = self.points - self.mean
        covariance = (deviations * self.weights[:, None]).T @ deviations
        return float(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]))

    def log_predictive_density(self, design: Floats, outcome: Floats) -> float:
        """Mean log density of new data."""
        keep = self.weights > 1e-12
        probability = expit((2 * outcome - 1)[:, None] * (design @ self.points[keep].T))
        return float(np.log(probability @ self.weights[keep]).mean())


def logistic_plane(design: Floats, outcome: Floats, size: int = 161) -> LogisticPosterior:
    """Return the posterior of logistic regression on two covariates with a flat prior.

    A grid in the axes of the curvature at the mode, wide enough that its border holds nothing.

    Raises
    ------
    ValueError
        When the classes can be separated, so that there is no posterior.
    """
    signs = 2 * outcome - 1

    def log_density(points: Floats) -> Floats:
        margins = (design * signs[:, None]) @ points.T
        return -np.logaddexp(0.0, -margins).sum(axis=0)

    optimum = minimize(lambda beta: -log_density(beta[None])[0], np.zeros(2), method="BFGS")
    chances = expit(design @ optimum.x)
    curvature = (design * (chances * (1 - chances))[:, None]).T @ design
    if not np.linalg.eigvalsh(curvature).min() > 1e-6:
        raise ValueError("the classes can be separated: a flat prior gives no posterior")
    axes = np.linalg.cholesky(np.linalg.inv(curvature))
    radius = 6.0
    while radius < 100:
        ticks = np.linspace(-radius, radius, size)
        plane = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1)
        points = optimum.x + plane.reshape(-1, 2) @ axes.T
        values = log_density(points)
        weights = np.exp(values - logsumexp(values))
        border = np.abs(plane).max(axis=-1).ravel() > ticks[-2]
        if weights[border].sum() < 1e-8:
            return LogisticPosterior(points, weights)
        radius *= 1.5
    raise ValueError(
        "the posterior has tails too long for a grid: the classes are all but separable"
    )


@dataclass(frozen=True)
class EightSchools:
    """The posterior of eight schools: all else is normal given tau, which lies on a grid."""

    log_tau: Floats
    log_weights: Floats
    """Log of the posterior probability of each point of the grid."""
    means: dict[str, Floats]
    """Of a coordinate given tau."""
    sds: dict[str, Floats]
    log_evidence: float

    @property
    def weights(self) -> Floats:
        """Posterior probability of each point of the grid."""
        return np.exp(self.log_weights)

    def mean(self, name: str) -> float:
        """Posterior mean of a coordinate."""
        return float(self.weights @ self.means[name])

    def sd(self, name: str) -> float:
        """Posterior standard deviation of a coordinate."""
        square = self.weights @ (self.sds[name] ** 2 + self.means[name] ** 2)
        return float(np.sqrt(square - self.mean(name) ** 2))

    def log_density(self, name: str, at: Floats) -> Floats:
        """Log of the exact marginal density of a coordinate."""
        if name == "log_tau":
            step = self.log_tau[1] - self.log_tau[0]
            return np.interp(at, self.log_tau, self.log_weights - np.log(step), -np.inf, -np.inf)
        # Every tenth point of tau's grid is enough for a mixture of normals this wide.
        parts = (self.log_weights, self.means[name], self.sds[name])
        log_weights, means, sds = (part[::10] for part in parts)
        grid = np.linspace(at.min(), at.max(), 1000)
        terms = norm.logpdf(grid[:, None], means, sds) + log_weights + np.log(10)
        return CubicSpline(grid, logsumexp(terms, axis=1))(at)

    def sample(self, name: str, num_draws: int, seed: int = 0) -> tuple[Floats, Floats]:
        """Draw a coordinate together with log tau."""
        rng = np.random.default_rng(seed)
        rows = rng.choice(len(self.weights), num_draws, p=self.weights)
        noise = rng.standard_normal(num_draws)
        return self.means[name][rows] + self.sds[name][rows] * noise, self.log_tau[rows]


def eight_schools(
    y: Floats, sigma: Floats, mu_scale: float, log_prior: Callable[[Floats], Floats]
) -> EightSchools:
    """Return the posterior for any prior of tau, given as a log density.

    Parameters
    ----------
    y, sigma
        Estimated effects and their standard errors.
    mu_scale
        Standard deviation of mu's normal prior.
    log_prior
        Log density of tau at an array of values.
    """
    log_tau = np.linspace(-14.0, 7.0, 6001)
    tau = np.exp(log_tau)[:, None]
    total = sigma**2 + tau**2
    precision = (1 / total).sum(axis=1) + mu_scale**-2
    mu = (y / total).sum(axis=1) / precision
    log_density = (
        norm.logpdf(y, 0.0, np.sqrt(total)).sum(axis=1)
        + 0.5 * mu**2 * precision
        - 0.5 * np.log(mu_scale**2 * precision)
        + log_prior(tau[:, 0])
        + log_tau
    )
    pull = tau**2 / total  # how far the data pull a school away from mu
    theta = pull * y + (1 - pull) * mu[:, None]
    theta_variance = pull * sigma**2 + (1 - pull) ** 2 / precision[:, None]
    raw = tau * (y - mu[:, None]) / total
    raw_variance = sigma**2 / total + (tau / total) ** 2 / precision[:, None]
    means = {"mu": mu, "tau": tau[:, 0], "log_tau": log_tau}
    sds = {"mu": precision**-0.5, "tau": np.zeros(len(tau)), "log_tau": np.zeros(len(tau))}
    for index in range(len(y)):
        means |= {f"theta[{index}]": theta[:, index], f"theta_raw[{index}]": raw[:, index]}
        sds |= {
            f"theta[{index}]": np.sqrt(theta_variance[:, index]),
            f"theta_raw[{index}]": np.sqrt(raw_variance[:, index]),
        }
    total_mass = logsumexp(log_density)
    return EightSchools(
        log_tau=log_tau,
        log_weights=log_density - total_mass,
        means=means,
        sds=sds,
        log_evidence=float(total_mass + np.log(log_tau[1] - log_tau[0])),
    )
