"""Which code this is: a digest of vicheck's own sources."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

__all__ = ["digest_of_sources"]

_SUFFIXES = (".py", ".cpp", ".pyc")
_HEADER = 16
"""Bytes at the start of compiled code that hold times, not code (PEP 552)."""


@lru_cache(maxsize=1)
def digest_of_sources() -> str:
    """Return a digest of all code of the installed package, also from within a zip file.

    A version number does not tell two states of a working copy apart; this does. Where sources are
    absent the compiled files stand for them; where there are no files at all, nothing is known
    beyond the version.

    Examples
    --------
    >>> len(digest_of_sources())
    16
    """
    return _digest_of(files("vicheck"))


def _digest_of(package: Traversable) -> str:
    digest = hashlib.sha256()
    for name, file in sorted(_code_in(package, ""), key=lambda pair: pair[0]):
        content = file.read_bytes()
        if name.endswith(".pyc"):
            content = content[_HEADER:]
        digest.update(f"{name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]


def _code_in(directory: Traversable, within: str) -> Iterator[tuple[str, Traversable]]:
    """Yield names and files of code; Python's cache of it is left out."""
    for entry in directory.iterdir():
        name = f"{within}{entry.name}"
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _code_in(entry, f"{name}/")
        elif name.endswith(_SUFFIXES):
            yield name, entry
