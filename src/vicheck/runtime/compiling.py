"""Compiled code, identified by what it computes; only the most recently used is kept.

JAX keeps compiled code forever, keyed by the function it was compiled from. That does not work
here. What a model computes may change while its function stays the same, if a global or an
attribute that it reads gets another value. And fitting thousands of models, each a new closure,
would fill the memory with code that is never used again.
"""

from __future__ import annotations

import gc
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial, wraps
from typing import Any, NamedTuple, TypeVar, cast

import jax
import numpy as np

from vicheck.runtime.computation import Computation
from vicheck.runtime.in_one_piece import can_be_in_one_piece, tracing
from vicheck.runtime.jax_settings import double_precision
from vicheck.runtime.kept_code import forget, keep, key_of, load_kept
from vicheck.runtime.recent import Recent
from vicheck.runtime.tracing import Traced, abstract, shape_of, shapes_of

__all__ = [
    "MOST_KEPT",
    "Recent",
    "ahead",
    "compiled",
    "is_large",
    "num_compiled",
    "num_kept",
    "size_of",
]

_F = TypeVar("_F", bound=Callable[..., Any])

MOST_KEPT = 64
"""Number of pieces of compiled code that are kept. A fit and its check need about five, each with a
few megabytes and up to a hundred of the 65,530 memory maps that Linux allows a process."""

_QUICKER = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_copy_insertion_use_region_analysis": True,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_backend_optimization_level": 1,
    "xla_llvm_disable_expensive_passes": True,
}
"""XLA's older code generator for CPUs compiles small models in half the time, and their code is as
fast; for large models its code takes twice as long. The second option analyses more closely which
copies of a loop's state are needed; without it, copies take a tenth of the time of small fits. The
third has LLVM take code whole, not in 32 parts: a tenth to a quarter less of its time. The fourth
optimises less than usual: compiling takes a tenth less, and the loop over the fits of `vsbc` runs a
tenth to a quarter faster; other code as fast as before. The fifth leaves out passes of LLVM that
take another tenth of the time, and nothing runs slower for it."""
_UNOPTIMISED = {"xla_backend_optimization_level": 0}
_LARGE = 2**12
"""A model is large if z and the data together have at least this many numbers."""


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
            data, shapes = args[shared], shapes_of(args)
            if own is not None:
                data = data | jax.tree.map(lambda leaf: shape_of(leaf, 1), args[own])
            computed: list[Hashable]
            if uses:
                computed = [subject.computation(use, data) for use in uses]
                computed += [_part_of(subject, part, data) for part in parts]
            else:
                key = (function.__qualname__, *parts, shapes)
                whole = partial(function, what)
                computed = [subject.cached_computation(key, lambda: (whole, abstract(args)))]
            large = is_large(subject, data)
            static = _Static(function, tuple(computed), shapes, large, rarely, what)
            return _CODE.code_for(static)

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
    key = (part, shapes_of(data))
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
        self.key = (function, computed, shapes, large)
        self._hash = hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self.key == other.key


_AHEAD: ContextVar[bool] = ContextVar("vicheck_ahead", default=False)


@contextmanager
def ahead() -> Iterator[None]:
    """Within, code that is not there yet is compiled in the background, each piece in a thread.

    Zeros stand for what it would return, until it is called outside. So what needs several pieces
    is traced by one thread, in the order in which it calls them, while XLA compiles the first of
    them on the other cores. Traces in several threads would take turns with the interpreter, and
    the piece that takes longest to compile would wait for all of them. Nor is garbage collected
    meanwhile: a look at all objects of JAX takes as long as to trace the largest piece.
    """
    token, collecting = _AHEAD.set(True), gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        _AHEAD.reset(token)
        if collecting:
            gc.enable()


_Ready = tuple[Callable[..., Any], str]
"""Code, and where it was found: "" if it is new."""


class _Begun(NamedTuple):
    """Code that is compiled in the background."""

    ready: Future[_Ready]
    zeros: Any
    """In the shapes of what it returns."""


class _Code:
    """A piece of compiled code, found in the user's cache directory or compiled when first called.

    It is a function of its own, the only way to free one alone.
    """

    def __init__(self, static: _Static) -> None:
        self._lock = threading.Lock()
        self._static = static
        self._run: Callable[..., Any] | None = None
        self._begun: _Begun | None = None
        self._on_trial = ""
        """Where it was found, until it has run once."""

    def __call__(self, *args: Any) -> Any:
        run = self._run
        if run is None and _AHEAD.get():
            with self._lock:
                if self._run is None and self._begun is None:
                    self._begin(args)
                if self._begun is not None:
                    return self._begun.zeros
        if run is None:
            run = self._prepare(args)
        return self._try(run, args) if self._on_trial else run(*args)

    def _begin(self, args: tuple[Any, ...]) -> None:
        """Find the code, or trace it and go on in the background."""
        found = _found_or_traced(self._static, args)
        if isinstance(found, _Uncompiled):
            pool = ThreadPoolExecutor(1, "vicheck-compiling")
            zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), found.returned)
            self._begun = _Begun(pool.submit(found.compile), zeros)
            pool.shutdown(wait=False)
        else:
            self._run, self._on_trial = found

    def _prepare(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        with self._lock:
            if self._run is None:
                self._run, self._on_trial = self._ready(args)
            return self._run

    def _ready(self, args: tuple[Any, ...]) -> _Ready:
        begun, self._begun = self._begun, None
        return _found_or_compiled(self._static, args) if begun is None else begun.ready.result()

    def _try(self, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Run what was found for the first time; if it does not, compile it after all."""
        place, self._on_trial = self._on_trial, ""
        try:
            return jax.block_until_ready(run(*args))  # type: ignore[no-untyped-call]
        except jax.errors.JaxRuntimeError:
            forget(place)
            with self._lock:
                self._run, _ = _found_or_compiled(self._static, args)
            return self._run(*args)


def _found_or_compiled(static: _Static, args: tuple[Any, ...]) -> _Ready:
    """Return code for arguments of these shapes."""
    found = _found_or_traced(static, args)
    return found.compile() if isinstance(found, _Uncompiled) else found


def _found_or_traced(static: _Static, args: tuple[Any, ...]) -> _Ready | _Uncompiled:
    """Return code for arguments of these shapes if it was found, or else what is to be compiled.

    If the key says all that it depends on in terms that other processes share, nothing has to be
    traced to find it there. If not, as with classes of the user's, everything is traced, and the
    operations are the key, unless JAX cannot see all of them.
    """
    place = key_of(*static.key)
    found = load_kept(place, args) if place else None
    if found is not None:
        return found, place
    with tracing(allowed=True) as pieces:
        traced = _jitted(static).trace(*args)
    if not place:
        whole = Computation.of(traced.jaxpr)
        place = "" if whole.opaque else key_of(whole.digest, static.large)
        returned = jax.tree.structure(traced.out_info)
        found = load_kept(place, args, returned) if place else None
        if found is not None:
            return found, place
    return _Uncompiled(static, args, traced.lower(), traced.out_info, pieces.used, place)


class _Uncompiled(NamedTuple):
    """What is to be compiled."""

    static: _Static
    args: tuple[Any, ...]
    lowered: jax.stages.Lowered
    returned: Any
    """The shapes of what it returns."""
    in_one_piece: bool
    """Whether it is to be, if XLA can do that."""
    place: str
    """Where to keep it: "" if it cannot be kept."""

    def compile(self) -> _Ready:
        """Compile it, in any thread."""
        with double_precision():
            lowered = self.lowered
            code = _in_one_piece_if_possible(lowered) if self.in_one_piece else lowered.compile()
            if code is None:
                with tracing(allowed=False):
                    lowered = _jitted(self.static).trace(*self.args).lower()
                code = lowered.compile()
            if self.place:
                keep(self.place, lowered, code)
        return code, ""


def _in_one_piece_if_possible(lowered: jax.stages.Lowered) -> jax.stages.Compiled | None:
    """Compile what is to be in one piece; return None where XLA cannot do it."""
    if not can_be_in_one_piece(lowered):
        return None
    try:
        return lowered.compile()
    except jax.errors.JaxRuntimeError:
        return None


class _CodeCache:
    """Compiled code, one piece per computation and set of shapes; the oldest are dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._code: OrderedDict[_Static, _Code] = OrderedDict()
        self.num_compiled = 0

    def __len__(self) -> int:
        return len(self._code)

    def code_for(self, static: _Static) -> _Code:
        with self._lock:
            if static not in self._code:
                self._code[static] = _Code(static)
                self.num_compiled += 1
                while len(self._code) > MOST_KEPT:
                    self._code.popitem(last=False)
            self._code.move_to_end(static)
            return self._code[static]


_CODE = _CodeCache()


def num_compiled() -> int:
    """Return how many pieces of code this process has compiled so far, or found compiled."""
    return _CODE.num_compiled


def num_kept() -> int:
    """Return how many pieces of compiled code are kept at the moment."""
    return len(_CODE)


def _jitted(static: _Static) -> Any:
    function, what = static.function, static.what

    def run(*args: Any) -> Any:
        return function(what, *args)

    options = None
    if not static.large and _has_options():
        options = _QUICKER | _UNOPTIMISED if static.rarely else _QUICKER
    return jax.jit(run, compiler_options=options)


def is_large(subject: Any, data: Any) -> bool:
    """Whether one evaluation of a model is enough work for several cores."""
    return size_of(subject, data) >= _LARGE


def size_of(subject: Any, data: Any) -> int:
    """Return how many numbers z and the data have together: about the work of an evaluation."""
    return int(subject.dim + sum(np.size(leaf) for leaf in jax.tree.leaves(data)))


@lru_cache(maxsize=1)
def _has_options() -> bool:
    """Whether this XLA has the options, which are not part of its public interface."""
    try:
        jax.jit(lambda x: x, compiler_options=_QUICKER | _UNOPTIMISED).lower(0.0).compile()
    except Exception:
        return False
    return True
