"""Arrays from NumPy's files, whoever wrote them: none gets more memory than it can fill."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import UnreadableError

__all__ = ["NPY_MAGIC", "NpzFile", "explained", "most_expanded", "read_npy"]

NPY_MAGIC = b"\x93NUMPY"

_LENGTH_BYTES = {1: 2, 2: 4}
"""Bytes of the header's length, by version; version 3 is for the names of fields alone."""
_LONGEST_HEADER = 1000
_HEADER = re.compile(
    rb"\{'descr': '(?P<dtype>[<>|=][a-zA-Z]\d{0,9})', 'fortran_order': (?P<order>True|False), "
    rb"'shape': \((?P<shape>[\dL, ]*)\),? *\}\s*"
)
_PLAIN_KINDS = "biufcSU"
_LAST_CHARACTER = 0x10FFFF

_MOST_EXPANDED, _MOST_TIMES = 2**30, 100
"""What all members of an archive that are read may expand to: bytes, or lengths of the file,
whichever is more. Numbers seldom shrink to a tenth, zeros to a thousandth."""


def read_npy(content: bytes) -> NDArray[Any]:
    """Return the array of numbers or text in the content of a ``.npy`` file.

    Only the header that NumPy and its imitators write is understood, by a pattern: nothing in it
    is evaluated, and nothing is allocated before its claims are held against the file's length.

    Raises
    ------
    UnreadableError
        If it holds anything else, Python objects or records among it.
    """
    dtype, shape, order, start = _header(content)
    needed, there = prod(shape) * dtype.itemsize, len(content) - start
    if needed > there:
        raise UnreadableError(
            f"claims to hold {needed} bytes of numbers or text, but {there} are there"
        )
    with explained():
        flat = np.frombuffer(content, dtype, prod(shape), start) if needed else np.empty(0, dtype)
        array = flat.reshape(shape, order=order).astype(dtype.newbyteorder("="))
    if dtype.kind == "U" and array.size:
        letters = flat.view(np.dtype(np.uint32).newbyteorder(dtype.byteorder))
        if letters.max() > _LAST_CHARACTER:
            raise UnreadableError("has text of characters that do not exist")
    return array


def _header(content: bytes) -> tuple[np.dtype[Any], tuple[int, ...], Any, int]:
    """Return type, shape, order and where the numbers begin."""
    if not content.startswith(NPY_MAGIC):
        raise UnreadableError("is not a NumPy array")
    width = _LENGTH_BYTES.get(content[6]) if len(content) > 8 else None
    if width is None:
        raise UnreadableError("has a header that is cut off, or of an unknown version")
    start = 8 + width
    length = int.from_bytes(content[8:start], "little")
    match = _HEADER.fullmatch(content[start : start + min(length, _LONGEST_HEADER)])
    if match is None or len(match[0]) != length:
        raise UnreadableError("has a header that is damaged, or not that of plain numbers or text")
    code = match["dtype"].decode()
    if code[1] == "O":
        raise UnreadableError("holds Python objects, which are not read")
    with explained():
        dtype = np.dtype(code)
        parts = (part.strip(" L") for part in match["shape"].decode().split(","))
        shape = tuple(int(part) for part in parts if part)
    if dtype.kind not in _PLAIN_KINDS or not dtype.itemsize:
        raise UnreadableError(f"holds neither numbers nor text, but type {code}")
    return dtype, shape, "F" if match["order"] == b"True" else "C", start + length


class NpzFile:
    """The arrays in the content of a ``.npz`` file, read one by one.

    Attributes
    ----------
    names
        Those of the arrays.

    Raises
    ------
    UnreadableError
        If it is no such file, or names a member twice.
    """

    def __init__(self, content: bytes) -> None:
        with explained():
            self._archive = ZipFile(io.BytesIO(content))
        self._members = self._archive.infolist()
        counts = Counter(member.filename for member in self._members)
        for name, count in counts.items():
            if count > 1:
                raise UnreadableError(f"has {count} members called {name!r}")
        self.names = [
            member.filename.removesuffix(".npy")
            for member in self._members
            if member.filename.endswith(".npy")
        ]
        self._by_name = {member.filename: member for member in self._members}
        self._left = most_expanded(len(content))

    @property
    def is_stored(self) -> bool:
        """Whether nothing in it is compressed."""
        return all(member.compress_type == ZIP_STORED for member in self._members)

    @property
    def others(self) -> list[str]:
        """Names of the members that are no arrays."""
        return [name for name in self._by_name if not name.endswith(".npy")]

    def read(self, name: str) -> NDArray[Any]:
        """Return an array, or raise `UnreadableError`."""
        return read_npy(self.read_member(f"{name}.npy"))

    def read_member(self, name: str) -> bytes:
        """Return a member's bytes, or raise `UnreadableError`."""
        if name not in self._by_name:
            raise UnreadableError(f"has no member {name!r}")
        member = self._by_name[name]
        self._require_room(member)
        with explained():
            return self._archive.read(member)

    def _require_room(self, member: ZipInfo) -> None:
        if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise UnreadableError("is compressed in a way that NumPy does not use")
        self._left -= member.file_size
        if self._left < 0:
            raise UnreadableError(
                f"expands from {member.compress_size} to {member.file_size} bytes, far more than "
                "numbers do; if it is yours, write it with numpy.savez, which does not compress"
            )


def most_expanded(length: int) -> int:
    """Return how many bytes a file of this length may expand to before it is taken for a trap."""
    return max(_MOST_EXPANDED, _MOST_TIMES * length)


@contextmanager
def explained() -> Iterator[None]:
    """Turn whatever a library raises at odd content into `UnreadableError`."""
    try:
        yield
    except UnreadableError:
        raise
    except MemoryError:
        raise UnreadableError("needs more memory than there is") from None
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UnreadableError(f"cannot be read: {reason}") from error
