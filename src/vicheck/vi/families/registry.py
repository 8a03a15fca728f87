"""The families by name: how each starts from the curvature of the posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from vicheck.vi.curvature import Curvature
from vicheck.vi.families.family import Family
from vicheck.vi.families.full_rank import FullRank
from vicheck.vi.families.low_rank import LowRank
from vicheck.vi.families.mean_field import MeanField
from vicheck.vi.solvers.deterministic.noise import CHUNK

__all__ = [
    "FAMILIES",
    "MAX_DENSE_DIM",
    "MAX_FIXED_FULL_RANK_DIM",
    "Kind",
    "kind_of",
    "richer_than",
]

FAMILIES = ("mean_field", "full_rank", "low_rank")

MAX_DENSE_DIM = 256
"""Up to this dimension the whole Hessian is used, above it an estimate of its diagonal."""

MAX_FIXED_FULL_RANK_DIM = 512
"""Fixed draws have to span a full covariance: in this dimension that takes the better part of a
minute and a gigabyte, and both grow faster than its square."""
_MAX_FULL_RANK_DIM = 2000
"""A full covariance in this dimension takes 32 MB, and a solver holds some forty like it."""


@dataclass(frozen=True)
class Kind:
    """A family that has no parameters yet."""

    name: str
    rank: int = 0

    def noise_dim(self, dim: int) -> int:
        """Return how many standard normal numbers make one draw."""
        return dim + self.rank

    def num_draws(self, dim: int) -> int:
        """Return how many fixed draws a fit begins with: a power of 2.

        A family with correlations can turn its scale so that it grows where no draw sees it, unless
        the draws span its noise. Half of them mirror the others; with twice as many directions as
        numbers in the noise their second moments are made exact (`standardised`), and a
        Gaussian posterior is found as it is. Independent scales cannot be turned. Where
        dimensions are too many for that, the draws span the factor of low rank.
        """
        if self.name == "mean_field":
            return CHUNK
        spanned = self.noise_dim(dim) if self.is_dense(dim) else 2 * self.rank
        return max(CHUNK, 2 ** math.ceil(math.log2(4 * spanned)))

    def is_dense(self, dim: int) -> bool:
        """Whether matrices of this dimension are held and factored."""
        return self.name == "full_rank" or dim <= MAX_DENSE_DIM

    @property
    def needs_directions(self) -> bool:
        """Whether q has no correlations of its own along which its mean could move."""
        return self.name != "full_rank"

    def start(self, z: Any, curvature: Curvature, shrink: Any = 1.0) -> Family:
        """Return the member that matches the curvature at z, its scales shrunk by a factor."""
        scale = shrink / jnp.sqrt(curvature.precisions)
        if self.name == "mean_field":
            return MeanField(z, jnp.log(scale))
        roots = shrink * jnp.asarray(curvature.directions)
        if self.name == "full_rank":
            return FullRank(z, _lower_triangular(roots))
        return LowRank(z, jnp.log(scale), _widest(roots, scale, self.rank))

    def moved_to(self, q: Family, z: Any) -> Family:
        """Return q with another mean."""
        return eqx.tree_at(lambda member: member.loc, q, z)


def kind_of(name: str, dim: int, rank: int | None) -> Kind:
    """Return the family of a name, or say what the names are."""
    if name not in FAMILIES:
        raise ValueError(f"family must be one of {', '.join(FAMILIES)}, got {name!r}")
    if name != "low_rank" and rank is not None:
        raise ValueError(f"rank goes with family='low_rank', got family={name!r}")
    if name == "full_rank" and dim > _MAX_FULL_RANK_DIM:
        raise ValueError(
            f"family='full_rank' takes at most {_MAX_FULL_RANK_DIM} parameters, the model has "
            f"{dim}: use 'low_rank' or 'mean_field'"
        )
    if name != "low_rank":
        return Kind(name)
    rank = min(5, dim) if rank is None else rank
    if not 1 <= rank <= dim:
        raise ValueError(f"rank must lie between 1 and the {dim} parameters, got {rank}")
    return Kind(name, rank)


def richer_than(name: str, dim: int) -> str:
    """Return the family to try next where one is too poor, or nothing."""
    if name != "full_rank" and dim <= MAX_FIXED_FULL_RANK_DIM:
        return "full_rank"
    return "low_rank" if name == "mean_field" else ""


def _lower_triangular(roots: jax.Array) -> jax.Array:
    """Return the Cholesky factor of ``roots @ roots.T`` without forming that product."""
    if roots.ndim == 1:
        return jnp.diag(roots)
    upper = jnp.linalg.qr(roots.T, mode="r")
    return upper.T * jnp.sign(jnp.diagonal(upper))


def _widest(roots: jax.Array, scale: jax.Array, rank: int) -> jax.Array:
    """Return the directions in which the posterior is widest, compared with its own scales."""
    if roots.ndim == 1:
        # No directions are known. Zero would be a saddle point, so a little of everything.
        noise = np.random.default_rng(0).standard_normal((len(scale), rank))
        return 0.1 * scale[:, None] * noise / np.sqrt(rank)
    widths = jnp.square(roots / scale[:, None]).sum(axis=0)
    return roots[:, jnp.argsort(-widths)[:rank]]
