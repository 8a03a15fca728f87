"""Mixtures of members of any families: one part for each mode, say."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from numpy.typing import NDArray

from vicheck.vi.families.family import Family

__all__ = ["Mixture"]


class Mixture(Family):
    """A mixture of approximations of the same z; ``parts`` are positive and sum to 1.

    The last number of the noise says which member a draw comes from: its normal distribution
    function, compared with the cumulated parts.
    """

    members: tuple[Family, ...]
    parts: jax.Array

    @property
    def dim(self) -> int:
        return self.members[0].dim

    @property
    def noise_dim(self) -> int:
        return max(member.noise_dim for member in self.members) + 1

    def transform(self, noise: jax.Array) -> jax.Array:
        candidates = [member.transform(noise[: member.noise_dim]) for member in self.members]
        return jnp.stack(candidates)[self.member_of(noise)]

    def member_of(self, noise: jax.Array) -> jax.Array:
        """Return which member the draw of some noise comes from."""
        inner_ends = jnp.cumsum(self.parts)[:-1]
        return jnp.searchsorted(inner_ends, ndtr(noise[-1]), side="right")

    def log_prob(self, z: jax.Array) -> jax.Array:
        return self.mixed(self.log_prob_of_members(z))

    def log_prob_of_members(self, z: jax.Array) -> jax.Array:
        """Return the log density of each member at one z."""
        return jnp.stack([member.log_prob(z) for member in self.members])

    def mixed(self, log_probs: jax.Array) -> jax.Array:
        """Return the log density of the mixture from those of its members, the last axis."""
        return jax.nn.logsumexp(log_probs, axis=-1, b=self.parts)

    def draw_noise(self, rng: np.random.Generator, num_draws: int) -> NDArray[np.float64]:
        """Return noise that shares the draws out in the given parts, as exactly as can be.

        In random order, so that any number of the first draws is a fair share too.
        """
        from scipy.special import ndtri

        parts = np.asarray(self.parts)
        normal = rng.standard_normal((num_draws, self.noise_dim - 1))
        ends = np.rint(np.cumsum(parts) * num_draws).astype(int)
        member = np.searchsorted(ends, np.arange(num_draws), side="right")
        member = np.random.default_rng(0).permutation(member)
        middles = np.cumsum(parts) - 0.5 * parts
        return np.column_stack([normal, ndtri(middles[member])])
