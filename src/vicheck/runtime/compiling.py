"""Compiled code, identified by what it computes; only the most recently used is kept.

JAX keeps compiled code forever, keyed by the function it was compiled from. That does not work
here. What a model computes may change while its function stays the same, if a global or an
attribute that it reads gets another value. And fitting thousands of models, each a new closure,
would fill the memory with code that is never used again.
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
"""Number of pieces of compiled code that are kept. A fit and its check need about five, each with a
few megabytes and up to a hundred of the 65,530 memory maps that Linux allows a process."""

_QUICKER = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_copy_insertion_use_region_analysis": True,
}
"""XLA's older code generator for CPUs compiles small models in half the time, and their code is as
fast; for large models its code takes twice as long. The second option analyses more closely which
copies of a loop's state are needed; without it, copies take a tenth of the time of small fits."""
_UNOPTIMISED = {"xla_backend_optimization_level": 0}
_LARGE = 2**12
"""A model is large if z and the data together have at least this many numbers."""


class Traced:
    """Base class of objects that code is compiled for: tracing shows what they compute now."""

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

    def computation(self, use: str, data: Any) -> Hashable:
        """Return a key for what a use computes now from data of these shapes."""
        return self.cached_computation((use, _shapes_of(data)), lambda: self.traces(use, data))

    def cached_computation(
        self, key: Hashable, traces: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    ) -> Hashable:
        """Trace a function, unless its computation is known already."""
        known = self.computations
        if known is None:
            return _trace(*traces(), self)
        if key not in known:
            known[key] = _trace(*traces(), self)
        return known[key]


def compiled(*uses: str, rarely: bool = False) -> Callable[[_F], _F]:
    """Compile a function whose first argument is static.

    That argument is a `Traced`, or a tuple that begins with one; the other items of the tuple are
    `Traced` too, or compared by value. The data are the argument called ``data``, or ``shared``
    together with ``own``, the data of each of several fits. Calls that compute the same on arrays
    of the same shapes share code.

    Parameters
    ----------
    *uses
        Which functions of the static argument are called. These are traced to see whether there is
        code for what they compute now. If none are given, the whole function is traced.
    rarely
        Whether the code of a small model runs so rarely that compiling it takes longer: then it is
        not optimised.
    """

    def decorate(function: _F) -> _F:
        names = list(inspect.signature(function).parameters)
        shared = names.index("data" if "data" in names else "shared") - 1
        own = names.index("own") - 1 if "own" in names else None

        def prepared(what: Any, *args: Any) -> Callable[..., Any]:
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
                computed = [subject.cached_computation(key, lambda: (whole, _abstract(args)))]
            static = _Static(
                function, tuple(computed), shapes, is_large(subject, data), rarely, what
            )
            return partial(_CODE.code_for(static), static)

        @wraps(function)
        def call(what: Any, *args: Any) -> Any:
            return prepared(what, *args)(*args)

        # For many calls with arrays of the same shapes: what is computed is looked at once.
        call.prepared = prepared  # type: ignore[attr-defined]
        return cast(_F, call)

    return decorate


def _part_of(subject: Traced, part: Any, data: Any) -> Hashable:
    """Return a key that identifies a further static argument."""
    if not isinstance(part, Traced):
        return part
    key = (part, _shapes_of(data))
    return subject.cached_computation(key, lambda: part.traces("values", (subject, data)))


class _Static:
    """The static argument of compiled code; equal if it computes the same."""

    def __init__(
        self,
        function: Any,
        computed: Hashable,
        shapes: Hashable,
        large: bool,
        rarely: bool,
        what: Any,
    ) -> None:
        self.function, self.large, self.rarely, self.what = function, large, rarely, what
        self._key = (function, computed, shapes, large)
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self._key == other._key


class _CodeCache:
    """Compiled code, one piece per computation and set of shapes; the oldest are dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._code: OrderedDict[_Static, Any] = OrderedDict()
        self.num_compiled = 0

    def __len__(self) -> int:
        return len(self._code)

    def code_for(self, static: _Static) -> Any:
        with self._lock:
            if static not in self._code:
                self._code[static] = _jitted(static)
                self.num_compiled += 1
                while len(self._code) > MOST_KEPT:
                    self._code.popitem(last=False)
            self._code.move_to_end(static)
            return self._code[static]


_CODE = _CodeCache()


def num_compiled() -> int:
    """Return how many pieces of code have been compiled in this process so far."""
    return _CODE.num_compiled


def num_kept() -> int:
    """Return how many pieces of compiled code are kept at the moment."""
    return len(_CODE)


def _jitted(static: _Static) -> Any:
    """Return a jitted function of its own for each piece, the only way to free one alone."""
    function = static.function

    def run(static: _Static, *args: Any) -> Any:
        return function(static.what, *args)

    options = None
    if not static.large and _has_options():
        options = _QUICKER | _UNOPTIMISED if static.rarely else _QUICKER
    return jax.jit(run, static_argnums=0, compiler_options=options)


class Recent:
    """Keys of recent work in this process: a set that forgets the oldest."""

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
    """Whether one evaluation of a model is enough work for several cores."""
    size = subject.dim + sum(np.size(leaf) for leaf in jax.tree.leaves(data))
    return bool(size >= _LARGE)


def _trace(function: Callable[..., Any], args: tuple[Any, ...], subject: Any) -> Hashable:
    """Return a key for what a function computes; with the subject if JAX cannot see all of it."""
    # A new partial each time, because JAX caches traces by function.
    computation = Computation.of(jax.make_jaxpr(partial(function))(*args))
    gradient = b""
    if computation.own_rules and all(_is_float(leaf) for leaf in jax.tree.leaves(args[0])):
        gradient = Computation.of(jax.make_jaxpr(partial(_gradient, function))(*args)).digest
    return (computation.digest, gradient, subject if computation.opaque else None)


def _gradient(function: Callable[..., Any], first: Any, *rest: Any) -> Any:
    """Differentiate everything a function returns with respect to its first argument."""
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
    """Whether this XLA has the options, which are not part of its public interface."""
    try:
        jax.jit(lambda x: x, compiler_options=_QUICKER | _UNOPTIMISED).lower(0.0).compile()
    except Exception:
        return False
    return True
