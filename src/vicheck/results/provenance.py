"""How a result came about: what is needed to tell it from others and to make it again."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from vicheck.results.record import Record

__all__ = ["Provenance", "fingerprint_of_arrays", "installed_version", "python_call", "versions_of"]


@dataclass(frozen=True, eq=False, repr=False)
class Provenance(Record):
    """What a result rests on: the same for the same computation, so without dates and times."""

    settings: dict[str, Any]
    """Options and seeds by name."""
    subject: str
    """What the fingerprint identifies: "data", "draws" or "model and data"."""
    fingerprint: str
    """Distinguishes one subject from another; empty if there is none."""
    versions: dict[str, str]
    """Versions of Python and of the libraries that computed the numbers."""
    code: str = ""
    """A line of Python that repeats the computation, if there is one."""


def fingerprint_of_arrays(arrays: Mapping[str, Any]) -> str:
    """Return a short digest of named arrays: names, shapes, types and values.

    Examples
    --------
    >>> fingerprint_of_arrays({"y": np.arange(3.0)})
    'fce000f101edfcbb'
    """
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        digest.update(f"{name} {array.shape} {array.dtype.str}".encode("utf-8", "replace"))
        if array.dtype.hasobject:  # whose bytes are addresses
            digest.update(repr(array.tolist()).encode("utf-8", "replace"))
        else:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def versions_of(*libraries: str) -> dict[str, str]:
    """Return the versions of Python, of vicheck and of installed libraries, without loading them.

    Examples
    --------
    >>> list(versions_of("numpy", "no-such-library"))
    ['python', 'vicheck', 'numpy']
    """
    known = {name: installed_version(name) for name in ("vicheck", *libraries)}
    installed = {name: number for name, number in known.items() if number is not None}
    return {"python": platform.python_version()} | installed


@cache
def installed_version(name: str) -> str | None:
    """Return the version of a package, without loading it; None where it is not installed.

    It is looked up once: that of what a process has loaded does not change.
    """
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def python_call(function: str, *arguments: str, **options: Any) -> str:
    """Write a call as it would be typed.

    Examples
    --------
    >>> python_call("vicheck.fit", "model", family="mean_field", seed=0)
    "vicheck.fit(model, family='mean_field', seed=0)"
    """
    named = (f"{name}={value!r}" for name, value in options.items())
    return f"{function}({', '.join([*arguments, *named])})"
