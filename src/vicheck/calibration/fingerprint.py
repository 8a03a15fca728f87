"""Digests that tell models and fits apart by what they compute, so that results never mix."""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from functools import partial, singledispatchmethod
from typing import Any, cast

import jax
import numpy as np

from vicheck.model import Model
from vicheck.quantities import Quantities
from vicheck.runtime.computation import add_array, is_installed, text_of
from vicheck.runtime.tracing import Seen, trace

__all__ = ["fingerprint_of_code", "fingerprint_of_model"]

_DEEPEST = 20
"""How far values inside values are followed."""


def fingerprint_of_model(model: Model, quantities: Quantities) -> str:
    """Return a digest of the density, of how data is simulated, of the quantities and the data.

    Not of source code: what a model computes may depend on numbers and functions outside it.
    """
    program = model.program
    data = program.without_observations(model.data)
    digest = hashlib.sha256(f"{program.layout!r}{program.identity}".encode())
    # What the program has seen of itself is not traced again.
    of_quantities = trace(*quantities.traces("values", (program, data)), program)
    for seen in (
        program.computation("log_density", data),
        program.computation("simulate", model.data),
        of_quantities,
    ):
        digest.update(cast(Seen, seen).digest)
    for leaf in jax.tree.leaves(model.data):
        add_array(digest, leaf)
    return digest.hexdigest()[:16]


def fingerprint_of_code(function: Callable[..., Any]) -> str:
    """Return the name of a function and a digest of its code, with all values that it reads.

    Closures, defaults and globals count, and so do the functions it calls as far as they are the
    user's; those of installed packages count by name.
    """
    reader = _CodeReader()
    reader.read(function)
    return f"{_name_of(function)} {reader.digest.hexdigest()[:16]}"


class _CodeReader:
    """Reads functions and the values they use into one digest."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self._seen: dict[int, tuple[int, Any]] = {}

    def read(self, value: Any, depth: int = 0) -> None:
        """Read a value, whatever it is."""
        if isinstance(value, bool | int | float | complex | str | bytes | type(None)):
            self._add(type(value).__name__, repr(value))
            return
        if id(value) in self._seen:  # a function that calls itself, a list that holds itself
            self._add("again", self._seen[id(value)][0])
            return
        self._seen[id(value)] = (len(self._seen), value)
        if depth > _DEEPEST:
            self._add(_name_of(value))
        else:
            self._read(value, depth)

    @singledispatchmethod
    def _read(self, value: Any, depth: int) -> None:
        """Read an object of some class: its kind, and what it holds."""
        if isinstance(value, np.ndarray | np.generic | jax.Array) and value.dtype != object:
            add_array(self.digest, value)
            return
        self.read(type(value), depth + 1)
        held = getattr(value, "__dict__", None)
        if held:
            self.read(dict(sorted(held.items())), depth + 1)
        else:
            self._add(text_of(value))

    @_read.register
    def _(self, value: types.MethodType, depth: int) -> None:
        self._read_all((value.__func__, value.__self__), depth)

    @_read.register
    def _(self, value: partial, depth: int) -> None:  # type: ignore[type-arg]
        self._read_all((value.func, value.args, value.keywords), depth)

    @_read.register
    def _(self, value: Mapping, depth: int) -> None:  # type: ignore[type-arg]
        self._add("mapping", len(value))
        for key in value:
            self._read_all((key, value[key]), depth)

    @_read.register
    def _(self, value: list | tuple, depth: int) -> None:  # type: ignore[type-arg]
        self._add(type(value).__name__, len(value))
        self._read_all(value, depth)

    @_read.register
    def _(self, value: set | frozenset, depth: int) -> None:  # type: ignore[type-arg]
        self._add("set", *sorted(map(text_of, value)))

    @_read.register
    def _(self, value: types.ModuleType | types.BuiltinFunctionType, depth: int) -> None:
        self._add(_name_of(value))

    def _read_all(self, values: Iterable[Any], depth: int) -> None:
        for value in values:
            self.read(value, depth + 1)

    @_read.register
    def _(self, function: types.FunctionType, depth: int) -> None:
        self._add(_name_of(function))
        if is_installed(function.__code__.co_filename):
            return
        self.read(function.__code__, depth + 1)
        self._read_all((function.__defaults__, function.__kwdefaults__), depth)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            self._add(name)
            try:
                self.read(cell.cell_contents, depth + 1)
            except ValueError:  # not set yet
                self._add("empty")
        names = _names_in(function.__code__)
        for name in names:
            if name in function.__globals__:
                self._add(name)
                self._read_global(function.__globals__[name], names, depth)

    def _read_global(self, value: Any, names: Iterable[str], depth: int) -> None:
        """Read a value that code looks up, and of the user's modules what it may look up there."""
        self.read(value, depth + 1)
        if isinstance(value, types.ModuleType) and not _is_installed_module(value):
            for name in names:
                if name in vars(value):
                    self._add(name)
                    self.read(vars(value)[name], depth + 1)

    @_read.register
    def _(self, code: types.CodeType, depth: int) -> None:
        self._add(code.co_code.hex(), *code.co_names)
        self._read_all(code.co_consts, depth)

    @_read.register
    def _(self, kind: type, depth: int) -> None:
        self._add(_name_of(kind))
        if _is_installed_module(sys.modules.get(kind.__module__)):
            return
        for name, value in sorted(vars(kind).items()):
            if isinstance(value, types.FunctionType | staticmethod | classmethod | property):
                self._add(name)
                inner = value.fget if isinstance(value, property) else value
                self.read(getattr(inner, "__func__", inner), depth + 1)
            elif not name.startswith("__"):
                self._add(name)
                self.read(value, depth + 1)

    def _add(self, *values: Any) -> None:
        self.digest.update(" ".join(map(str, values)).encode("utf-8", "replace") + b"\n")


def _is_installed_module(module: types.ModuleType | None) -> bool:
    """Whether a module is Python's or an installed one; what is typed in a notebook has no file."""
    file = getattr(module, "__file__", None)
    if file:
        return is_installed(file)
    return getattr(module, "__name__", "") in sys.builtin_module_names


def _names_in(code: types.CodeType) -> list[str]:
    """Return the names that code and the functions inside it look up."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(_names_in(constant))
    return sorted(names)


def _name_of(value: Any) -> str:
    if isinstance(value, partial):
        return _name_of(value.func)
    named = value if hasattr(value, "__qualname__") else type(value)
    if isinstance(value, types.ModuleType):
        return value.__name__
    return f"{getattr(named, '__module__', '')}.{named.__qualname__}"
