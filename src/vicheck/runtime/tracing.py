"""What functions compute now, seen by tracing them.

What a model computes may change while its function stays the same, if a global or an attribute
that it reads gets another value. So each call of the user's traces it again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Self, cast

import jax
import numpy as np

from vicheck.runtime.computation import Computation
from vicheck.runtime.jax_settings import double_precision
from vicheck.runtime.portable import Portable, portable_digest
from vicheck.runtime.recent import Recent

__all__ = [
    "Seen",
    "Traced",
    "abstract",
    "abstract_key",
    "abstract_vector",
    "shape_of",
    "shapes_of",
    "trace",
    "trace_outline",
]


class Traced(Portable):
    """Base class of objects that code is compiled for: tracing shows what they compute now."""

    def portable(self) -> None:
        """Return None: what another process would compute with it is not known."""

    computations: dict[Hashable, Hashable] | None = None
    """Earlier traces, valid while nothing can change; None to trace every time."""

    def snapshot(self) -> Self:
        """Return a copy that is traced only once, for the duration of one call by the user."""
        copy = object.__new__(type(self))
        vars(copy).update(vars(self), computations={})
        return copy

    def __getstate__(self) -> dict[str, Any]:
        # Traces made in one process are not valid in another.
        state = dict(vars(self))
        return state | {"computations": {}} if "computations" in state else state

    def traces(self, use: str, data: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return the function behind a use, and abstract arguments to trace it with."""
        raise NotImplementedError

    def outline(self, use: str, data: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
        """Return a function that is traced faster than a use and decides what the use computes.

        That is: two uses whose outlines do the same operations, and return trees of the same
        structure, do the same operations themselves. None if there is no such function.
        """
        return None

    def computation(self, use: str, data: Any) -> Hashable:
        """Return a key for what a use computes now from data of these shapes."""
        key, known = (use, shapes_of(data)), self.computations
        if known is not None and key in known:
            return known[key]
        outlined = trace_outline(self.outline(use, data))
        whole: tuple[Any, ...] = (type(self), key, outlined)
        seen = None if outlined is None else _OUTLINED.get(whole)
        if seen is None:
            seen = trace(*self.traces(use, data), self)
            if outlined is not None and seen.is_plain:
                _OUTLINED.add(whole, seen)
        if known is not None:
            known[key] = seen
        return cast(Hashable, seen)

    def runs_unseen_code(self, use: str, data: Any) -> bool:
        """Whether a use calls code that JAX cannot see, such as functions on the host."""
        seen: Any = self.computation(use, data)
        return seen.subject is not None

    def cached_computation(
        self, key: Hashable, traces: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    ) -> Hashable:
        """Trace a function, unless its computation is known already."""
        known = self.computations
        if known is None:
            return trace(*traces(), self)
        if key not in known:
            known[key] = trace(*traces(), self)
        return known[key]


@dataclass(frozen=True)
class Seen(Portable):
    """What tracing has shown of a function: a key for what it computes."""

    digest: bytes
    gradient: bytes
    returned: Hashable
    """The tree that it returns: equal operations may have other names."""
    subject: Any
    """What the function belongs to, if JAX cannot see all that it does; else None."""
    known_rules: bool

    @property
    def is_plain(self) -> bool:
        """Whether the operations say everything: no code that JAX cannot see, no own rules."""
        return self.subject is None and not self.gradient

    def portable(self) -> Any:
        """Return the digests and the tree, if they say everything."""
        if self.subject is not None or not self.known_rules:
            return None
        return self.digest, self.gradient, self.returned


def trace(function: Callable[..., Any], args: tuple[Any, ...], subject: Any) -> Seen:
    """Return a key for what a function computes; with the subject if JAX cannot see all of it."""
    # A new partial each time, because JAX caches traces by function.
    operations, returned = jax.make_jaxpr(partial(function), return_shape=True)(*args)
    computation = Computation.of(operations)
    gradient = b""
    if computation.own_rules and all(_is_float(leaf) for leaf in jax.tree.leaves(args[0])):
        gradient = Computation.of(jax.make_jaxpr(partial(_gradient, function))(*args)).digest
    unseen = subject if computation.opaque else None
    structure = jax.tree.structure(returned)
    return Seen(computation.digest, gradient, structure, unseen, computation.known_rules)


def trace_outline(
    outline: tuple[Callable[..., Any], tuple[Any, ...]] | None,
) -> tuple[Hashable, ...] | None:
    """Return a key for an outline; None if it does not decide everything."""
    if outline is None:
        return None
    function, args = outline
    returned: list[Hashable] = []

    def flat(*args: Any) -> Any:
        leaves, structure = jax.tree.flatten(function(*args))
        returned[:] = structure, tuple(map(_type_of, leaves))
        return leaves

    try:
        computation = Computation.of(jax.make_jaxpr(flat)(*args))
        # Classes of the user's, of distributions say, may compute what the outline does not show.
        decides = not computation.opaque and not computation.own_rules and _is_known(returned[0])
    except Exception:  # if it is the model's fault, tracing the use says so
        return None
    return (computation.digest, *returned) if decides else None


@lru_cache(maxsize=64)
def _is_known(structure: Hashable) -> bool:
    """Whether a tree has nodes of known libraries only."""
    return portable_digest(structure) is not None


_OUTLINED = Recent()
"""What was seen of uses with these outlines."""


def _gradient(function: Callable[..., Any], first: Any, *rest: Any) -> Any:
    """Differentiate everything a function returns with respect to its first argument."""
    value, pull_back = jax.vjp(lambda first: function(first, *rest), first)
    return value, pull_back(jax.tree.map(jax.numpy.ones_like, value))


def _is_float(leaf: Any) -> bool:
    return bool(jax.numpy.issubdtype(leaf.dtype, np.floating))


def abstract(tree: Any) -> Any:
    """Return a tree of shapes and types in place of arrays, to trace with."""
    return jax.tree.map(shape_of, tree)


def abstract_vector(size: int) -> Any:
    """Return the shape and type of a vector in double precision."""
    return jax.ShapeDtypeStruct((size,), np.float64)  # type: ignore[no-untyped-call]


@lru_cache(maxsize=1)
def abstract_key() -> Any:
    """Return the shape and type of a key for random numbers; to make one takes compiled code."""
    with double_precision():
        return jax.eval_shape(jax.random.key, 0)


def shape_of(leaf: Any, skipped: int = 0) -> Any:
    """Return the shape and type of an array, or of its parts along the first axes."""
    dtype = getattr(leaf, "dtype", None)
    if dtype is None:
        dtype = jax.dtypes.result_type(leaf)
    return jax.ShapeDtypeStruct(np.shape(leaf)[skipped:], dtype)  # type: ignore[no-untyped-call]


def shapes_of(tree: Any) -> Hashable:
    """Return a key for the structure of a tree, and the shapes and types of its arrays."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple(map(_type_of, leaves))


def _type_of(leaf: Any) -> Hashable:
    dtype = getattr(leaf, "dtype", None)
    if dtype is None:
        return np.shape(leaf), type(leaf)
    # The types of keys of random number generators are JAX's own.
    kind = dtype if isinstance(dtype, np.dtype) else str(dtype)
    return leaf.shape, kind, getattr(leaf, "weak_type", False)
