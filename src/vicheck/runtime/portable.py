"""Digests of values that mean the same in another process, or None where that is not known."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections import OrderedDict
from typing import Any

import jax
import numpy as np

from vicheck.runtime.computation import LIBRARIES

__all__ = ["Portable", "portable_digest"]

_PLAIN = (str, bytes, int, float, complex, bool, type(None), np.dtype, np.generic)


class Portable:
    """Base class of objects that say themselves what identifies them in another process."""

    def portable(self) -> Any:
        """Return values that identify this, or None if nothing does."""
        raise NotImplementedError


class _Unknown(Exception):  # noqa: N818 - never leaves this file
    """A value that another process could take for something else."""


def portable_digest(value: Any) -> str | None:
    """Return a digest that only equal values have, in any process; None if there is none.

    Values may be plain ones, tuples, lists, dictionaries and dataclasses of these, tree structures,
    and classes and functions of the libraries that are known by their versions. Code of the user's
    has no digest: its name may mean something else tomorrow.

    Examples
    --------
    >>> portable_digest((1, "a", jax.tree.structure({"x": 0}))) is None
    False
    >>> portable_digest(lambda x: x) is None
    True
    """
    digest = hashlib.blake2b(digest_size=20)
    try:
        _add(digest, value)
    except _Unknown:
        return None
    return digest.hexdigest()


def _add(digest: Any, value: Any) -> None:
    """Add a value: its kind, its length, its content, so that no two values run together."""
    if isinstance(value, enum.Enum):
        _add(digest, (_place_of(type(value)), value.name))
    elif isinstance(value, _PLAIN):
        text = repr(value).encode()
        digest.update(f"{type(value).__name__} {len(text)} ".encode() + text)
    elif isinstance(value, Portable):
        identity = value.portable()
        if identity is None:
            raise _Unknown
        _add(digest, identity)
    elif type(value) in (tuple, list):
        _add_all(digest, type(value).__name__, value)
    elif type(value) in (dict, OrderedDict):
        _add_all(digest, "dict", [part for pair in value.items() for part in pair])
    elif isinstance(value, jax.tree_util.PyTreeDef):
        _add_all(digest, "tree", [value.node_data(), *value.children()])
    elif isinstance(value, type):
        _add(digest, _place_of(value))
    elif dataclasses.is_dataclass(value):
        fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
        _add_all(digest, _place_of(type(value)), fields)
    elif callable(value) and hasattr(value, "__qualname__") and not _is_bound(value):
        _add(digest, _place_of(value))
    else:
        _add_node(digest, value)


def _add_node(digest: Any, value: Any) -> None:
    """Add what is a tree by itself, such as a transform of NumPyro's."""
    structure: Any
    leaves, structure = jax.tree.flatten(value)
    if structure.node_data() is None:
        raise _Unknown
    _add_all(digest, "node", [structure, *leaves])


def _add_all(digest: Any, kind: str, values: Any) -> None:
    digest.update(f"{kind} {len(values)} ".encode())
    for value in values:
        _add(digest, value)


def _is_bound(function: Any) -> bool:
    return getattr(function, "__self__", None) is not None or bool(
        getattr(function, "__closure__", None)
    )


def _place_of(definition: Any) -> str:
    """Return where a class or function is defined, which must be a library of a known version."""
    module, name = definition.__module__ or "", definition.__qualname__
    if module.partition(".")[0] not in (*LIBRARIES, "builtins") or "<" in name:
        raise _Unknown
    return f"{module}:{name}"
