"""The families by name: the only list of them. It loads no JAX; a family is loaded when chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from numbers import Integral
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from vicheck.errors import ArgumentError

if TYPE_CHECKING:
    from vicheck.vi.curvature import Curvature
    from vicheck.vi.families.family import Family

__all__ = [
    "Entry",
    "Kind",
    "canonical",
    "entry_of",
    "family_names",
    "kind_of",
    "others_for",
    "register",
    "richer_than",
    "unregister",
]


@dataclass(frozen=True)
class Entry:
    """A family in the list, with what has to be known before it is loaded."""

    name: str
    family: str | type[Family]
    """The class, or where it is: ``"module:class"``."""
    summary: str = ""
    """What it is, in a few words, for help texts."""
    default_rank: int | None = None
    """Rank where none is given; None for a family without one. Its ``start`` takes ``rank``."""
    max_dim: int | None = None
    """Most parameters that it takes, whatever the solver."""
    richer: tuple[str, ...] = ()
    """Families to try where this one is too poor, the best first."""
    in_stan: bool = False
    """Whether Stan's algorithm knows it."""

    def load(self) -> type[Family]:
        """Return the class of the family."""
        if not isinstance(self.family, str):
            return self.family
        module, name = self.family.split(":")
        family: type[Family] = getattr(import_module(module), name)
        return family

    def takes(self, dim: int) -> bool:
        """Whether a model of this dimension can be fitted."""
        return self.max_dim is None or dim <= self.max_dim


_ENTRIES = {
    entry.name: entry
    for entry in (
        Entry(
            "mean_field",
            "vicheck.vi.families.mean_field:MeanField",
            "independent normals",
            richer=("full_rank", "low_rank"),
            in_stan=True,
        ),
        Entry(
            "full_rank",
            "vicheck.vi.families.full_rank:FullRank",
            "a normal with any covariance",
            # In this dimension a full covariance takes 32 MB, and a solver holds some forty.
            max_dim=2000,
            in_stan=True,
        ),
        Entry(
            "low_rank",
            "vicheck.vi.families.low_rank:LowRank",
            "a normal with correlations along a few directions",
            default_rank=5,
            richer=("full_rank",),
        ),
        Entry(
            "bent",
            "vicheck.vi.families.bent:Bent",
            "a normal that is skewed, heavy-tailed and bent",
            max_dim=200,
        ),
    )
}


def family_names() -> tuple[str, ...]:
    """Return the names of all families, the simplest first, then those that were registered."""
    return tuple(_ENTRIES)


_ALIASES = {
    "advi": "mean_field",
    "meanfield": "mean_field",
    "fullrank": "full_rank",
    "fullrank_advi": "full_rank",
    "lowrank": "low_rank",
}
"""What Stan and PyMC call a family, and names that are nearly ours. Results carry our own."""


def canonical(name: str) -> str:
    """Return our own name of a family, where others call it otherwise."""
    if name in _ENTRIES or not isinstance(name, str):
        return name
    plainly = name.lower().replace("-", "_")
    known = _ALIASES.get(plainly, plainly)
    return known if known in _ENTRIES else name


def entry_of(name: str) -> Entry:
    """Return what is known of a family, by any of its names, or say what the names are."""
    name = canonical(name)
    if name not in _ENTRIES:
        raise ArgumentError("family", f"must be one of {', '.join(_ENTRIES)}, got {name!r}")
    return _ENTRIES[name]


def register(
    name: str,
    family: type[Family],
    *,
    summary: str = "",
    default_rank: int | None = None,
    max_dim: int | None = None,
    richer: tuple[str, ...] = (),
) -> None:
    """Add a family of your own to the list, under a name that `vicheck.fit` then takes.

    Workers in other processes have a list of their own: register in a module that they import too.

    Parameters
    ----------
    name
        A new name, which no family goes by elsewhere.
    family
        A class derived from `vicheck.vi.families.family.Family` that has ``start``.
    summary, default_rank, max_dim, richer
        See `Entry`.
    """
    from vicheck.vi.families.family import Family

    if not (isinstance(family, type) and issubclass(family, Family)):
        raise TypeError(f"family must be a class derived from Family, got {family!r}")
    if family.start.__func__ is Family.start.__func__:  # type: ignore[attr-defined]
        raise TypeError(
            f"family must say where a fit starts, but {family.__name__} has no class method `start`"
        )
    entry = Entry(name, family, summary, default_rank, max_dim, richer)
    if _ENTRIES.get(name, entry) != entry:
        raise ValueError(f"name must be new, but there is a family called {name!r} already")
    if canonical(name) != name:
        problem = f"name must be new, but {name!r} is what others call {canonical(name)!r}"
        raise ValueError(problem)
    for other in richer:
        entry_of(other)
    _ENTRIES[name] = entry


def unregister(name: str) -> None:
    """Take a registered family off the list."""
    if isinstance(entry_of(name).family, str):
        raise ValueError(f"name must be of a registered family, and {name!r} is vicheck's own")
    del _ENTRIES[name]


@dataclass(frozen=True)
class Kind:
    """A family that has no parameters yet, with its options."""

    entry: Entry
    rank: int | None = None

    @property
    def name(self) -> str:
        """Name of the family."""
        return self.entry.name

    def start(self, z: Any, curvature: Curvature, shrink: Any = 1.0) -> Family:
        """Return the member that matches the curvature at z, its scales shrunk by a factor."""
        options = {} if self.rank is None else {"rank": self.rank}
        return self.entry.load().start(z, curvature, shrink, **options)

    def starts(self, z: Any, curvature: Curvature, shrink: Any) -> Family:
        """Return members for several fits: all arrays have a leading axis over them."""
        if isinstance(self.entry.family, str):  # vicheck's own take them all at once
            spread = shrink.reshape(-1, *(1,) * (curvature.directions.ndim - 1))
            smaller = curvature._replace(
                directions=spread * curvature.directions,
                precisions=curvature.precisions / shrink[:, None] ** 2,
            )
            return self.start(z, smaller)
        import jax
        import numpy as np

        each = [
            self.start(*jax.tree.map(itemgetter(i), (z, curvature, shrink))) for i in range(len(z))
        ]
        members: Family = jax.tree.map(lambda *leaves: np.stack(leaves), *each)
        return members

    def is_dense(self, dim: int) -> bool:
        """Whether matrices of this dimension are held and factored."""
        return self.entry.load().is_dense(dim)

    @property
    def needs_directions(self) -> bool:
        """Whether steps of the mean are taken along directions that the solver provides."""
        return self.entry.load().needs_directions()

    @property
    def has_marginals(self) -> bool:
        """Whether marginal distribution functions are exact."""
        from vicheck.vi.families.abilities import HasMarginals

        return issubclass(self.entry.load(), HasMarginals)

    def shapes(self, dim: int) -> Family:
        """Return a member that has shapes and types in place of parameters."""
        return _shapes(self, dim)

    def noise_dim(self, dim: int) -> int:
        """Return how many standard normal numbers make one draw."""
        return self.shapes(dim).noise_dim

    def num_draws(self, dim: int) -> int:
        """Return how many fixed draws a fit begins with: a power of 2."""
        from vicheck.vi.solvers.deterministic.noise import FEWEST

        return max(FEWEST, 2 ** math.ceil(math.log2(self.shapes(dim).num_fixed_draws)))


@lru_cache(maxsize=64)
def _shapes(kind: Kind, dim: int) -> Family:
    import jax
    import numpy as np

    from vicheck.runtime.jax_settings import double_precision
    from vicheck.vi.curvature import Curvature

    def of(*shape: int) -> Any:
        return jax.ShapeDtypeStruct(shape, np.float64)  # type: ignore[no-untyped-call]

    with double_precision():
        member = kind.start(np.zeros(dim), Curvature(np.ones(dim), np.ones(dim)))
        shapes: Family = jax.tree.map(lambda leaf: of(*np.shape(leaf)), member)
        if not isinstance(kind.entry.family, str):  # not vicheck's own
            draw = jax.eval_shape(lambda q, noise: q.transform(noise), shapes, of(shapes.noise_dim))
            _require_shape(kind, "transform", draw.shape, (dim,))
            log_q = jax.eval_shape(lambda q, z: q.log_prob(z), shapes, draw)
            _require_shape(kind, "log_prob", log_q.shape, ())
    return shapes


def _require_shape(
    kind: Kind, method: str, shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    if shape != expected:
        problem = f"must have a {method} that returns shape {expected}, got {shape}"
        hint = "sum over the coordinates" if method == "log_prob" else ""
        raise ArgumentError("family", problem, value=kind.name, hint=hint)


def kind_of(name: str, dim: int, rank: int | None) -> Kind:
    """Return the family of a name with its rank, or say what the names are."""
    entry = entry_of(name)
    if entry.default_rank is None and rank is not None:
        takers = [each.name for each in _ENTRIES.values() if each.default_rank is not None]
        problem = f"goes with family={_alternatives(takers)}, got family={name!r}"
        raise ArgumentError("rank", problem)
    if not entry.takes(dim):
        raise ArgumentError(
            "family",
            f"takes at most {entry.max_dim} parameters, the model has {dim}",
            value=name,
            hint=f"use {others_for(dim)}",
        )
    if entry.default_rank is None:
        return Kind(entry)
    rank = min(entry.default_rank, dim) if rank is None else rank
    if not isinstance(rank, Integral):
        raise ArgumentError("rank", f"must be an integer, got {rank!r}")
    if not 1 <= rank <= dim:
        raise ArgumentError("rank", f"must lie between 1 and the {dim} parameters, got {rank}")
    return Kind(entry, rank)


def others_for(dim: int) -> str:
    """Return the families that take a model of this dimension, as part of a sentence."""
    names = [each.name for each in _ENTRIES.values() if each.takes(dim)]
    return _alternatives(names[::-1])


def richer_than(name: str, dim: int) -> str:
    """Return the family to try next where one is too poor, or nothing."""
    for richer in entry_of(name).richer:
        if richer in _ENTRIES and _ENTRIES[richer].takes(dim):
            return richer
    return ""


def _alternatives(names: list[str]) -> str:
    return " or ".join(", ".join(map(repr, names)).rsplit(", ", 1))
