"""Draws of a Gaussian behind constraints, and their densities."""

import numpy as np
from scipy import stats

LOC = np.array([0.3, -1.0, 0.5, -0.4, 0.2])
FACTOR = np.diag([0.5, 2.0, 0.3, 0.8, 0.4])
CORRELATED = FACTOR + np.tril(np.full((5, 5), 0.15), -1)


def made_up(factor=FACTOR, size=400, seed=1):
    """Draws of two free parameters, one more, a positive one and a probability; and p and q."""
    eta = np.random.default_rng(seed).normal(size=(size, 5))
    z = LOC + eta @ factor.T
    log_p = stats.t(5).logpdf((z - LOC) / np.diag(factor)).sum(axis=1)
    return z, log_p, -0.5 * (eta**2).sum(axis=1)


def constrained(z):
    return np.column_stack([z[:, :3], np.exp(z[:, 3]), 1.0 / (1.0 + np.exp(-z[:, 4]))])


def constant_of(factor):
    return -np.log(np.diag(factor)).sum() - len(factor) * np.log(2 * np.pi) / 2
