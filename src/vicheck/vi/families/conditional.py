"""A normal of most coordinates given a few others, which its mean and covariance follow.

In a hierarchical model a few coordinates, the *drivers*, decide how wide the others are, and given
these few the others are nearly normal. So q is any distribution of the drivers, times a normal, or
a t, of all others given the drivers: with a mean and a root of its precision that are smooth
functions of them.
"""

from __future__ import annotations

from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from numpy.typing import NDArray

from vicheck.vi.families.abilities import HasMoments
from vicheck.vi.families.family import Family
from vicheck.vi.families.students import Students
from vicheck.vi.interpolation import Interpolation

__all__ = ["Conditional", "as_numbers", "mean_and_root"]

Floats = NDArray[np.float64]

_MOMENT_DRAWS = 2**14


class Conditional(Family, HasMoments):
    """Drivers ``loc + scale @ x``, and all others ``mean(x) + inverse(root(x)).T @ u``.

    Its noise is x and u, two independent t, each of which may be split along its axes. Its moments
    are those it would have of normal noise: tails are there for the weights, and where widths
    follow a driver exponentially they would make all moments, and steps of chains, meaningless.
    """

    loc: jax.Array
    scale: jax.Array
    inverse: jax.Array
    """Of the scale."""
    log_volume: jax.Array
    """Logarithm of the determinant of the scale."""
    order: jax.Array
    """Permutation matrix that puts drivers and others where they belong in z."""
    others: Interpolation
    """Mean and root of the precision of the others, by x, as `as_numbers` writes them."""
    first: Students
    """Of x."""
    rest: Students
    """Of u."""

    @classmethod
    def of(
        cls,
        drivers: NDArray[np.intp],
        loc: Floats,
        scale: Floats,
        others: Interpolation,
        first: Any,
        rest: Any,
    ) -> Self:
        """Return the member with these parts, its noise two mixtures of t as arrays."""
        dim = len(drivers) + rest.dim
        places = np.concatenate([drivers, np.setdiff1d(np.arange(dim), drivers)])
        inverse, volume = np.linalg.inv(scale), np.linalg.slogdet(scale)[1]
        arrays: tuple[Any, ...] = (loc, scale, inverse, volume, np.eye(dim)[places], others)
        return cls(*arrays, *(Students.made_of(**vars(each)) for each in (first, rest)))

    def over(self, first: Any, rest: Any) -> Self:
        """Return the same map of other noise."""
        noise = tuple(Students.made_of(**vars(each)) for each in (first, rest))
        return eqx.tree_at(lambda q: (q.first, q.rest), self, noise)

    @property
    def dim(self) -> int:
        return int(self.order.shape[-1])

    @property
    def noise_dim(self) -> int:
        return self.first.noise_dim + self.rest.noise_dim

    def mapped(self, u: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the z that x and u, one after the other, become, and the log of its volume."""
        x, rest = jnp.split(u, [len(self.loc)])
        mean, root, log_det = mean_and_root(self.others.at(x), self.rest.dim)
        others = mean + solve_triangular(root, rest, trans="T", lower=True)
        both = jnp.concatenate([self.loc + self.scale @ x, others])
        return both @ self.order, self.log_volume - log_det

    def transform(self, noise: jax.Array) -> jax.Array:
        return self.transform_and_log_prob(noise)[0]

    def transform_and_log_prob(self, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        size = self.first.noise_dim
        first, log_first = self.first.transform_and_log_prob(noise[:size])
        rest, log_rest = self.rest.transform_and_log_prob(noise[size:])
        z, log_det = self.mapped(jnp.concatenate([first, rest]))
        return z, log_first + log_rest - log_det

    def log_prob(self, z: jax.Array) -> jax.Array:
        drivers, others = jnp.split(self.order @ z, [len(self.loc)])
        x = self.inverse @ (drivers - self.loc)
        mean, root, log_det = mean_and_root(self.others.at(x), self.rest.dim)
        log_noise = self.first.log_prob(x) + self.rest.log_prob(root.T @ (others - mean))
        return log_noise + log_det - self.log_volume

    def draw_noise(self, rng: np.random.Generator, num_draws: int) -> Floats:
        both = [each.draw_noise(rng, num_draws) for each in (self.first, self.rest)]
        return np.concatenate(both, axis=1)

    def sample_and_log_prob(self, key: jax.Array, num_draws: int) -> tuple[jax.Array, jax.Array]:
        keys = jax.random.split(key)
        first, log_first = self.first.sample_and_log_prob(keys[0], num_draws)
        rest, log_rest = self.rest.sample_and_log_prob(keys[1], num_draws)
        z, log_det = jax.vmap(self.mapped)(jnp.concatenate([first, rest], axis=1))
        return z, log_first + log_rest - log_det

    @property
    def mean(self) -> jax.Array:
        return self._middle().mean(axis=0)

    @property
    def sd(self) -> jax.Array:
        return self._middle().std(axis=0)

    def covariance(self) -> jax.Array:
        return jnp.cov(self._middle(), rowvar=False)

    def _middle(self) -> jax.Array:
        """Return draws of normal noise, always the same: there is no formula for the moments."""
        noise = jax.random.normal(jax.random.key(0), (_MOMENT_DRAWS, self.dim), float)
        return jax.vmap(self.mapped)(noise)[0]


def as_numbers(means: Floats, roots: Floats) -> Floats:
    """Return means and lower roots of precisions as numbers that may take any value.

    The diagonal as logarithms, and what is below it in units of the diagonal: how the mean of an
    entry follows those after it.

    Parameters
    ----------
    means, roots
        Shapes ``(n, r)`` and ``(n, r, r)``.
    """
    diagonal = np.einsum("nii->ni", roots)
    below = roots / diagonal[:, None, :]
    np.einsum("nii->ni", below)[:] = np.log(diagonal)
    return np.concatenate([means, below.reshape(len(means), -1)], axis=1)


def mean_and_root(numbers: Any, dim: int, xp: Any = jnp) -> tuple[Any, Any, Any]:
    """Return what `as_numbers` has written: mean, root, and the log of the root's determinant.

    By JAX, or by NumPy if that is ``xp``; the numbers may have leading axes.
    """
    mean, matrix = numbers[..., :dim], numbers[..., dim:]
    matrix = matrix.reshape(*matrix.shape[:-1], dim, dim)
    log_diagonal = xp.diagonal(matrix, axis1=-2, axis2=-1)
    unit = xp.where(xp.eye(dim, dtype=bool), 1.0, xp.tril(matrix))
    return mean, unit * xp.exp(log_diagonal)[..., None, :], log_diagonal.sum(-1)
