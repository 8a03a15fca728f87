"""The families by name: how each starts from the curvature of the posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from vicheck.vi.curvature import Curvature
from vicheck.vi.family import Family
from vicheck.vi.full_rank import FullRank
from vicheck.vi.low_rank import LowRank
from vicheck.vi.mean_field import MeanField

__all__ = ["FAMILIES", "Kind", "kind_of"]

FAMILIES = ("mean_field", "full_rank", "low_rank")

_MAX_FULL_RANK_DIM = 2000
"""A full covariance in this dimension takes 32 MB, and the solver holds some forty like it."""


@dataclass(frozen=True)
class Kind:
    """A family that has no parameters yet."""

    name: str
    rank: int = 0

    def noise_dim(self, dim: int) -> int:
        """Return how many standard normal numbers make one draw."""
        return dim + self.rank

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
