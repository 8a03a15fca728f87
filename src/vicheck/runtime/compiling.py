"""Compiled code: identified by what it computes, and kept for what was used last.

JAX keeps compiled code by the function it came from, for ever. That is not enough here. What a
model computes may change while its function stays the same, when a global or an attribute that it
reads gets another value; and fitting thousands of models, each a closure of its own, would fill the
memory with code that is never used again.
"""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache, partial, wraps
from typing import Any, Self, TypeVar, cast

import jax
import numpy as np

from vicheck.runtime.computation import Computation

__all__ = ["MOST_KEPT", "Recent", "Traced", "compiled", "is_large", "num_compiled", "num_kept"]

_F = TypeVar("_F", bound=Callable[..., Any])

MOST_KEPT = 64
"""Pieces of compiled code that are kept. A fit with its check needs five or so, each a few
megabytes and up to a hundred of the 65,530 memory maps that Linux lets a process have."""

_QUICKER = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_copy_insertion_use_region_analysis": True,
}
"""XLA's older code generator for CPUs: half the time to compile small models, as fast after that;
for large ones it makes code that takes twice as long. And a closer look at which copies of a loop's
state are needed: without it they take a tenth of the time of small fits."""
_LARGE = 2**12
"""A model with this many numbers in z and the data is large."""


class Traced:
    """Base of what code is compiled for: it can be traced, to see what it computes now."""

    computations: dict[Hashable, Hashable] | None = None
    """What was traced already, as long as nothing can change; None to look every time."""

    def snapshot(self) -> Self:
        """Return a copy that is traced once: for the length of one call of the user's."""
        taken = object.__new__(type(self))
        vars(taken).update(vars(self), computations={})
        return taken

    def __getstate__(self) -> dict[str, Any]:
        # What was traced in one process says nothing in another.
        state = dict(vars(self))
        return state | {"computations": {}} if "computations" in state else state

    def traces(self, use: str, data: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return the function behind a use, and the shapes of arguments to trace it with."""
        raise NotImplementedError

    def computation(self, use: str, data: Any) -> Hashable:
        """Return what a use computes now from data of such shapes; equal where it is the same."""
        return self.what_computes((use, _shapes_of(data)), lambda: self.traces(use, data))

    def what_computes(
        self, key: Hashable, traces: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    ) -> Hashable:
        """Trace a function, or remember what it computes."""
        known = self.computations
        if known is None:
            return _computed(*traces(), self)
        if key not in known:
            known[key] = _computed(*traces(), self)
        return known[key]


def compiled(*uses: str) -> Callable[[_F], _F]:
    """Compile a function whose first argument is static.

    That argument is a `Traced`, or a tuple that begins with one; the rest of the tuple is `Traced`
    as well, or compared by value. Data is the argument called ``data``, or ``shared`` with what
    ``own`` has for each of several fits. Code is shared by calls that compute the same on arrays of
    the same shapes.

    Parameters
    ----------
    *uses
        Which functions of the static argument are called: these are traced to see whether there is
        code for what they compute now. Without any, the whole function is traced.
    """

    def decorate(function: _F) -> _F:
        names = list(inspect.signature(function).parameters)
        shared = names.index("data" if "data" in names else "shared") - 1
        own = names.index("own") - 1 if "own" in names else None

        @wraps(function)
        def call(what: Any, *args: Any) -> Any:
            subject, *parts = what if isinstance(what, tuple) else (what,)
            data, shapes = args[shared], _shapes_of(args)
            if own is not None:
                data = data | jax.tree.map(lambda leaf: _shape_of(leaf, 1), args[own])
            computed: list[Hashable]
            if uses:
                computed = [subject.computation(use, data) for use in uses]
                computed += [_part_of(subject, part, data) for part in parts]
            else:
                key = (function.__qualname__, *parts, shapes)
                whole = partial(function, what)
                computed = [subject.what_computes(key, lambda: (whole, _abstract(args)))]
            static = _Static(function, tuple(computed), shapes, is_large(subject, data), what)
            return _KEPT.code_for(static)(static, *args)

        return cast(_F, call)

    return decorate


def _part_of(subject: Traced, part: Any, data: Any) -> Hashable:
    """Return what tells a further static argument apart from others."""
    if not isinstance(part, Traced):
        return part
    key = (part, _shapes_of(data))
    return subject.what_computes(key, lambda: part.traces("values", (subject, data)))


class _Static:
    """The static argument of compiled code, equal to others that compute the same."""

    def __init__(
        self, function: Any, computed: Hashable, shapes: Hashable, large: bool, what: Any
    ) -> None:
        self.function, self.large, self.what = function, large, what
        self._key = (function, computed, shapes, large)
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self._key == other._key


class _Kept:
    """Compiled code, each piece for one computation and one set of shapes; old ones are let go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._code: OrderedDict[_Static, Any] = OrderedDict()
        self.num_made = 0

    def __len__(self) -> int:
        return len(self._code)

    def code_for(self, static: _Static) -> Any:
        with self._lock:
            if static not in self._code:
                self._code[static] = _jitted(static)
                self.num_made += 1
                while len(self._code) > MOST_KEPT:
                    self._code.popitem(last=False)
            self._code.move_to_end(static)
            return self._code[static]


_KEPT = _Kept()


def num_compiled() -> int:
    """Return how many pieces of code this process has compiled so far."""
    return _KEPT.num_made


def num_kept() -> int:
    """Return how many pieces of compiled code are kept now."""
    return len(_KEPT)


def _jitted(static: _Static) -> Any:
    """Return a function of JAX's for one piece of code: no other way lets go of one alone."""
    function = static.function

    def run(static: _Static, *args: Any) -> Any:
        return function(static.what, *args)

    options = _QUICKER if not static.large and _has_options() else None
    return jax.jit(run, static_argnums=0, compiler_options=options)


class Recent:
    """What was done recently in this process: a set that forgets the oldest."""

    def __init__(self) -> None:
        self._keys: OrderedDict[Hashable, None] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._keys

    def add(self, key: Hashable) -> None:
        """Remember a key."""
        self._keys[key] = None
        while len(self._keys) > MOST_KEPT:
            self._keys.popitem(last=False)


def is_large(subject: Any, data: Any) -> bool:
    """Whether one evaluation of a model keeps a processor, and even several cores, busy."""
    size = subject.dim + sum(np.size(leaf) for leaf in jax.tree.leaves(data))
    return bool(size >= _LARGE)


def _computed(function: Callable[..., Any], args: tuple[Any, ...], subject: Any) -> Hashable:
    """Trace a function; where code is called that JAX does not see, tell subjects apart too."""
    # As a function of its own: JAX keeps what it has traced by the function.
    computation = Computation.of(jax.make_jaxpr(partial(function))(*args))
    gradient = b""
    if computation.own_rules and all(_is_float(leaf) for leaf in jax.tree.leaves(args[0])):
        gradient = Computation.of(jax.make_jaxpr(partial(_gradient, function))(*args)).digest
    return (computation.digest, gradient, subject if computation.opaque else None)


def _gradient(function: Callable[..., Any], first: Any, *rest: Any) -> Any:
    """Differentiate all that a function returns by its first argument."""
    value, pull_back = jax.vjp(lambda first: function(first, *rest), first)
    return value, pull_back(jax.tree.map(jax.numpy.ones_like, value))


def _is_float(leaf: Any) -> bool:
    return bool(jax.numpy.issubdtype(leaf.dtype, np.floating))


def _abstract(tree: Any) -> Any:
    return jax.tree.map(_shape_of, tree)


def _shape_of(leaf: Any, skipped: int = 0) -> Any:
    dtype = getattr(leaf, "dtype", None)
    if dtype is None:
        dtype = jax.dtypes.result_type(leaf)
    return jax.ShapeDtypeStruct(np.shape(leaf)[skipped:], dtype)  # type: ignore[no-untyped-call]


def _shapes_of(tree: Any) -> Hashable:
    leaves, structure = jax.tree.flatten(tree)
    each = ((np.shape(leaf), getattr(leaf, "dtype", type(leaf))) for leaf in leaves)
    return structure, tuple(each)


@lru_cache(maxsize=1)
def _has_options() -> bool:
    """Whether this XLA has the options: they are not part of its interface."""
    try:
        jax.jit(lambda x: x, compiler_options=_QUICKER).lower(0.0).compile()
    except Exception:
        return False
    return True
