"""The content of a chunk's file: the same arrays give the same bits, and any damage shows.

A line that names the format, a line with the checksum of the rest, a line of JSON that says whose
and which arrays these are, then their numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Arrays", "decode_chunk", "encode_chunk"]

Arrays = dict[str, NDArray[Any]]

_FORMAT = b"vicheck chunk 1\n"


def encode_chunk(arrays: Mapping[str, ArrayLike], label: Mapping[str, Any]) -> bytes:
    """Return the file of a chunk; its label, in values that JSON can hold, says whose it is."""
    described, blocks = [], []
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        number = array.dtype.kind in "biuf" and array.dtype.itemsize <= 8
        if not number and array.dtype.kind != "U":
            raise TypeError(
                f"arrays[{name!r}] must hold booleans, integers, floats or strings, "
                f"got dtype {array.dtype}"
            )
        array = array.astype(array.dtype.newbyteorder("<"))
        described.append((name, array.dtype.str, array.shape))
        blocks.append(array.tobytes())
    line = json.dumps({**label, "arrays": described}).encode()
    body = b"\n".join((line, b"".join(blocks)))
    return _preamble(body) + body


def decode_chunk(content: bytes, label: Mapping[str, Any]) -> Arrays | None:
    """Return the arrays of a chunk, or None unless every byte is as it was written for it."""
    start = len(_preamble(b""))
    body = content[start:]
    if content[:start] != _preamble(body):
        return None
    line, _, block = body.partition(b"\n")
    found = json.loads(line)
    described = found.pop("arrays")
    if found != label:  # a chunk, but another one or another run's
        return None
    arrays, offset = {}, 0
    for name, code, shape in described:
        array: NDArray[Any] = np.ndarray(shape, np.dtype(code), buffer=block, offset=offset)
        arrays[name] = array.astype(array.dtype.newbyteorder("="))
        offset += array.nbytes
    return arrays


def _preamble(body: bytes) -> bytes:
    return _FORMAT + sha256(body).hexdigest().encode() + b"\n"
