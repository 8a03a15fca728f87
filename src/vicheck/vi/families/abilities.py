"""What some families can do beyond drawing and evaluating: each ability is a class to inherit from.

Code that can use an ability asks for it with ``isinstance`` and has another way for families
without it, which is here as well where several places need it.
"""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.vi.families.family import Family

__all__ = ["HasEntropy", "HasMarginals", "HasMoments", "HasRoots", "entropy_of"]


class HasEntropy(eqx.Module):
    """A family with an entropy in closed form."""

    @abc.abstractmethod
    def entropy(self) -> jax.Array:
        """Entropy in nats."""


class HasMarginals(eqx.Module):
    """A family with exact marginal distributions."""

    @abc.abstractmethod
    def marginal_cdf(self, z: jax.Array) -> jax.Array:
        """Probability, exact, that each coordinate lies below ``z``, shape ``(..., d)``."""

    @abc.abstractmethod
    def marginal(self, index: int) -> Any:
        """Return the distribution of one coordinate, as a frozen one of SciPy's."""


class HasMoments(eqx.Module):
    """A family with means and covariances in closed form."""

    @property
    @abc.abstractmethod
    def mean(self) -> jax.Array:
        """Mean of each coordinate."""

    @property
    @abc.abstractmethod
    def sd(self) -> jax.Array:
        """Marginal standard deviation of each coordinate."""

    @abc.abstractmethod
    def covariance(self) -> jax.Array:
        """Covariance matrix, shape ``(d, d)``."""


class HasRoots(eqx.Module):
    """A family whose covariance is a diagonal plus a product: draws are whitened by it."""

    @abc.abstractmethod
    def roots(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return, on the host, what the covariance is made of: ``diag(D)^2 + F F'``.

        D has shape ``(d,)`` and F, of as many columns as need be, shape ``(d, k)``. Where there is
        nothing on the diagonal D is empty.
        """


def entropy_of(q: Family, noise: jax.Array) -> jax.Array:
    """Return the entropy of q: exact, or the mean of ``-log_q`` at draws made from the noise.

    The estimate has the right expectation, and so has its gradient with respect to q's parameters.
    ``noise`` has shape ``(n, k)``.
    """
    if isinstance(q, HasEntropy):
        return q.entropy()
    _, log_q = jax.vmap(q.transform_and_log_prob)(noise)
    return -log_q.mean()
