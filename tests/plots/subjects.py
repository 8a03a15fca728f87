"""Checks whose figures are known beforehand.

They are made once in a process: most of the time of a page goes into what a check finds out once.
"""

from functools import cache

import numpy as np

import vicheck


@cache
def normal_check(sd=0.8, size=8000, dim=3):
    """Draws of N(0, sd^2) for a posterior N(0, 1)."""
    z = sd * np.random.default_rng(1).normal(size=(size, dim))
    log_p = (-0.5 * z**2 - 0.5 * np.log(2 * np.pi)).sum(axis=1)
    log_q = (-0.5 * (z / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)).sum(axis=1)
    return vicheck.check_draws(z, log_p, log_q)


@cache
def funnel_check(size=20_000):
    """A mean field for Neal's funnel in log tau and theta; mu is independent of both."""
    log_tau, theta, mu = np.random.default_rng(2).normal(size=(3, size))
    log_q = -0.5 * (log_tau**2 + theta**2 + mu**2)
    log_p = -0.5 * (log_tau**2 + (theta / np.exp(log_tau)) ** 2 + mu**2) - log_tau
    return vicheck.check_draws({"mu": mu, "tau": np.exp(log_tau), "theta": theta}, log_p, log_q)
