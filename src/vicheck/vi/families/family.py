"""What every family of approximations offers; a member of a family is a value, never changed.

A family is written by saying how noise becomes a draw (`transform`), what its density is
(`log_prob`) and where a fit starts (`start`). Everything else has a default here. What only some
families have, such as an entropy in closed form, is in `vicheck.vi.families.abilities`.
"""

from __future__ import annotations

import abc
import math
from typing import TYPE_CHECKING, Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

if TYPE_CHECKING:
    from vicheck.vi.charts.chart import Chart
    from vicheck.vi.curvature import Curvature

__all__ = ["MAX_DENSE_DIM", "Family", "moved"]

MAX_DENSE_DIM = 256
"""Up to this dimension the whole Hessian is used, above it an estimate of its diagonal."""
_PROBES = 64
"""Draws from which the units of a step are estimated."""


class Family(eqx.Module):
    """An approximation q of the flat unconstrained vector z, made from standard normal noise.

    Its leaves are its parameters: all of them real numbers, free to take any value.
    """

    @property
    @abc.abstractmethod
    def dim(self) -> int:
        """Length of z."""

    @property
    def noise_dim(self) -> int:
        """How many standard normal numbers make one draw; by default as many as z has."""
        return self.dim

    @abc.abstractmethod
    def transform(self, noise: jax.Array) -> jax.Array:
        """Turn standard normal noise, shape ``(k,)``, into a draw, shape ``(d,)``."""

    @abc.abstractmethod
    def log_prob(self, z: jax.Array) -> jax.Array:
        """Log density at one z, shape ``(d,)``."""

    @classmethod
    def start(cls, z: Any, curvature: Curvature, shrink: Any = 1.0) -> Self:
        """Return the member a fit starts from.

        Parameters
        ----------
        z
            Where it is to lie, shape ``(d,)``.
        curvature
            Of the posterior there: scales are about ``1 / sqrt(curvature.precisions)``.
        shrink
            Factor by which the scales are to be smaller.
        """
        raise TypeError(f"{cls.__name__} cannot be fitted: it has no class method `start`")

    def transform_and_log_prob(self, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return a draw and its log density; families override it where this saves work."""
        z = self.transform(noise)
        return z, self.log_prob(z)

    def draw_noise(self, rng: np.random.Generator, num_draws: int) -> NDArray[np.float64]:
        """Return noise for a number of draws, shape ``(num_draws, k)``."""
        return rng.standard_normal((num_draws, self.noise_dim))

    def sample_and_log_prob(self, key: jax.Array, num_draws: int) -> tuple[jax.Array, jax.Array]:
        """Draw from q: draws of shape ``(num_draws, d)`` and their log densities."""
        noise = jax.random.normal(key, (num_draws, self.noise_dim), float)
        return jax.vmap(self.transform_and_log_prob)(noise)

    # How a solver moves about in the family.

    @classmethod
    def is_dense(cls, dim: int) -> bool:
        """Whether matrices of this dimension are held and factored."""
        return dim <= MAX_DENSE_DIM

    @classmethod
    def needs_directions(cls) -> bool:
        """Whether steps of the mean are taken along directions that the solver provides."""
        return False

    @property
    def num_fixed_draws(self) -> int:
        """How many fixed draws the optimum needs; solvers round it up.

        A family with correlations can turn its scale so that it grows where no draw sees it, unless
        the draws span its noise. Half of them mirror the others; with twice as many directions as
        numbers in the noise their second moments are made exact, and a Gaussian posterior is
        recovered exactly.
        """
        return 4 * self.noise_dim

    @property
    def step_dim(self) -> int:
        """How many numbers describe a step to another member of the family."""
        return sum(math.prod(np.shape(leaf)) for leaf in jax.tree.leaves(self))

    @property
    def num_shifts(self) -> int:
        """How many entries of a step, the first ones, move q without changing its shape."""
        return 0

    def units(self) -> jax.Array:
        """Return the directions to take a step along where the solver has none.

        By default one number for each parameter: a change of the parameter by so much moves draws
        by about one sd of q, in the root mean square over draws and summed over coordinates.
        """
        parameters, rebuild = ravel_pytree(self)
        keys = jax.random.split(jax.random.key(0))
        noise = jax.random.normal(keys[0], (_PROBES, self.noise_dim), float)
        signs = jax.random.rademacher(keys[1], (_PROBES, self.dim), float)
        sd = jax.vmap(self.transform)(noise).std(axis=0)

        def reach(e: jax.Array, sign: jax.Array) -> jax.Array:
            # Squared, a random combination of the coordinates' changes has the expectation of
            # their sum of squares, at the price of one derivative.
            _, pull_back = jax.vjp(lambda at: rebuild(at).transform(e) / sd, parameters)
            return jnp.square(pull_back(sign)[0])

        reached = jax.vmap(reach)(noise, signs).mean(axis=0)
        return jnp.where(reached > 0.0, 1.0 / jnp.sqrt(jnp.where(reached > 0.0, reached, 1.0)), 1.0)

    def displaced(self, step: jax.Array, directions: jax.Array) -> Self:
        """Return the member a step away, measured in standard deviations; zero is no step.

        ``directions`` are those of `units` or, for a family that `needs_directions`, others. The
        gradient of an objective with respect to the step, at zero, is its gradient in units of
        standard deviations.
        """
        parameters, rebuild = ravel_pytree(self)
        member: Self = rebuild(parameters + directions * step)
        return member

    def chart(self, directions: Any) -> Chart:
        """Return how a solver moves about in the family, around anchors.

        ``self`` holds the anchors, its arrays with a leading axis over them, and so do
        ``directions``. By default JAX derives everything from the other methods.
        """
        from vicheck.vi.charts.traced import TracedChart

        return TracedChart(self, directions if self.needs_directions() else None)

    def correction(self, step: jax.Array, excess: jax.Array) -> jax.Array | float:
        """Return what makes the mean of a quadratic function over the noise its expectation.

        For the member a step away, as `Chart.correction` does; by default families do without.
        ``excess`` is the function's Hessian times what the second moments of the noise lack to the
        identity, entry by entry, shape ``(d, d)``.
        """
        return 0.0

    def projected(self, gradient: Self) -> Self:
        """Return a gradient, by parameters, without entries that have to stay as they are."""
        return gradient

    def entry_name(
        self, entry: int, gradient: NDArray[np.float64], coordinates: tuple[str, ...]
    ) -> str:
        """Name what an entry of a step changes: by default a parameter of the family.

        Parameters
        ----------
        entry
            Index of the step's entry that has the largest gradient.
        gradient
            All of the gradient, by the step.
        coordinates
            Names of the entries of z.
        """
        for path, leaf in jax.tree_util.tree_flatten_with_path(self)[0]:
            size = math.prod(np.shape(leaf))
            if entry < size:
                index = ", ".join(map(str, np.unravel_index(entry, np.shape(leaf))))
                name = jax.tree_util.keystr(path).removeprefix(".")
                return f"q's {name}[{index}]" if index else f"q's {name}"
            entry -= size
        raise IndexError(f"entry must be less than {self.step_dim}")


def moved(loc: jax.Array, step: jax.Array, directions: jax.Array) -> jax.Array:
    """Move a location along scaled axes, or along the columns of a matrix."""
    return loc + (directions * step if directions.ndim == 1 else directions @ step)
