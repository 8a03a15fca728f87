"""The file that every result is saved in: arrays by name, and a description of them.

The same content gives the same bits.

The file is a ``.npz`` that NumPy opens too: an array for each name, not compressed, and
``description.json``. The comment at its end is the checksum of everything before it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeVar
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicheck.errors import ArgumentError, InputFileError, UnreadableError
from vicheck.files.durable import whole_file
from vicheck.files.json_reader import parse_json
from vicheck.files.numpy_reader import NpzFile
from vicheck.results.record import Record

__all__ = [
    "ArchiveFormat",
    "Arrays",
    "decode_arrays",
    "encode_arrays",
    "require_own_suffix",
    "result_kind",
]

Arrays = dict[str, NDArray[Any]]
R = TypeVar("R", bound=Record)
T = TypeVar("T")

_DATE = (1980, 1, 1, 0, 0, 0)
"""A zip file keeps a date for each member; the earliest it can hold stands for none."""
_DESCRIPTION = "description.json"
_KINDS = ("calibration", "check", "fit", "reference", "rescue")
_COMMENT = b"vicheck sha256 "
_DIGITS = 64
_FOREIGN = (
    ".arrow", ".csv", ".feather", ".h5", ".hdf5", ".htm", ".html", ".joblib", ".json", ".jsonl",
    ".mat", ".nc", ".npy", ".parquet", ".pickle", ".pkl", ".pt", ".py", ".rda", ".rdata", ".rds",
    ".stan", ".tsv", ".txt", ".xlsx", ".yaml", ".yml", ".zarr", ".zip",
)  # fmt: skip
"""How names of files of other programs end."""
_PLAIN = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U[1-9]\d*")


def encode_arrays(arrays: Mapping[str, ArrayLike], description: Mapping[str, Any]) -> bytes:
    """Return the file of arrays by name; the description holds values that JSON can hold.

    Raises
    ------
    TypeError
        If an array holds anything but booleans, integers, floats of at most 8 bytes or strings.
    """
    content = io.BytesIO()
    with ZipFile(content, "w") as archive:  # not compressed: zlib's versions differ in their bits
        text = json.dumps(description, ensure_ascii=False).encode("utf-8", "replace")
        archive.writestr(_member(_DESCRIPTION), text)
        for name in sorted(arrays):
            with archive.open(_member(f"{name}.npy"), "w", force_zip64=True) as stream:
                array = _little(np.asarray(arrays[name]), name)
                np.lib.format.write_array(stream, array, version=(1, 0), allow_pickle=False)
        archive.comment = _COMMENT + b"0" * _DIGITS
    content.seek(-_DIGITS, io.SEEK_END)
    content.truncate()
    digest = sha256(content.getbuffer()).hexdigest()
    content.write(digest.encode())
    return content.getvalue()


def decode_arrays(content: bytes) -> tuple[dict[str, Any], Arrays]:
    """Return the description and the arrays.

    Raises
    ------
    UnreadableError
        Unless every byte is as `encode_arrays` has written it, and whatever a forged checksum
        covers.
    """
    body, digest = content[:-_DIGITS], content[-_DIGITS:]
    if not body.endswith(_COMMENT) or sha256(body).hexdigest().encode() != digest:
        raise UnreadableError("has a wrong checksum")
    file = NpzFile(content)
    if file.others != [_DESCRIPTION] or not file.is_stored:
        raise UnreadableError("has other members than vicheck writes")
    arrays = {name: file.read(name) for name in file.names}
    for name, array in arrays.items():
        if not _PLAIN.fullmatch(_little_code(array.dtype)):
            raise UnreadableError(f"has {name!r} of type {array.dtype}")
        if _half_characters(array).any():
            raise UnreadableError("has text with half a character")
    return _described(file), arrays


@dataclass(frozen=True)
class ArchiveFormat(Generic[R]):
    """How results of one kind are saved: a record beside arrays, in one file."""

    kind: str
    """What the result is called in the file and in messages."""
    version: int
    """Raised when files of before can no longer be read."""
    record: type[R]
    """Describes the arrays and holds all that is not one."""

    def save(self, path: str | Path, description: R, arrays: Mapping[str, ArrayLike]) -> None:
        """Write a result to a file; an old one stays until the new one is complete."""
        require_own_suffix(path)
        entries = {"kind": self.kind, "format": self.version, **description.to_dict()}
        content = encode_arrays(arrays, entries)
        with whole_file(Path(path)) as file:
            file.write(content)

    def load(self, path: str | Path, build: Callable[[R, Arrays], T]) -> T:
        """Return what ``build`` makes of the record and the arrays in a file.

        Raises
        ------
        InputFileError
            If the file is damaged, holds anything else, or ``build`` raises a `ValueError`.
        """
        content = Path(path).read_bytes()
        other = f"{path} is not a {self.kind} that vicheck has saved"
        try:
            description, arrays = decode_arrays(content)
        except UnreadableError as error:
            hint = _OLD_HINT if _is_old(content) else f"it {error}"
            raise InputFileError(other, hint=hint) from error
        kind = description.pop("kind", None)
        if kind != self.kind:
            hint = f"it holds a {kind}, which vicheck.load reads" if kind in _KINDS else ""
            raise InputFileError(other, hint=hint)
        version = description.pop("format", None)
        if type(version) is not int or version != self.version:
            raise InputFileError(
                f"{path} has format {version!s:.20}, this version reads {self.version}"
            )
        try:
            return build(self.record.from_dict(description), arrays)
        except ValueError as error:
            raise InputFileError(
                f"{path} is not a {self.kind} that this version of vicheck has saved",
                hint=str(error),
            ) from error


def require_own_suffix(path: str | Path, argument: str = "path") -> None:
    """Raise for a file that would pass for one of another program's.

    Raises
    ------
    ArgumentError
        For names that end in ``.nc``, ``.csv``, ``.pkl``, ``.json`` and the like.
    """
    suffix = Path(path).suffix.lower()
    if suffix in _FOREIGN:
        raise ArgumentError(
            argument,
            f"must not end in {suffix}, which is a format of other programs, got {str(path)!r}",
            hint=f"results are .npz files: {Path(path).with_suffix('.npz')}"
            + (", and to_arviz() has a method to_netcdf" if suffix == ".nc" else ""),
        )


_OLD_HINT = "an earlier version wrote it otherwise: save the result again with this one"


def result_kind(path: str | Path) -> str | None:
    """Return what kind of result a file says it holds; None if it is no such file.

    Raises
    ------
    InputFileError
        If the file is no ``.npz`` file at all, or of an earlier version.
    """
    content = Path(path).read_bytes()
    try:
        file = NpzFile(content)
    except UnreadableError:
        raise InputFileError(f"{path} is not a .npz file") from None
    if _is_old(content):
        raise InputFileError(f"{path} was saved by an earlier version", hint=_OLD_HINT)
    try:
        kind = _described(file).get("kind")
    except UnreadableError:
        return None
    return kind if isinstance(kind, str) else None


def _described(file: NpzFile) -> dict[str, Any]:
    description = parse_json(file.read_member(_DESCRIPTION))
    if not isinstance(description, dict):
        raise UnreadableError("has no object for its description")
    return description


def _is_old(content: bytes) -> bool:
    """Whether this is a result as vicheck wrote them before there was a checksum."""
    return content.startswith(b"PK") and b"description.npy" in content[-100_000:]


def _member(name: str) -> ZipInfo:
    member = ZipInfo(name, _DATE)
    member.create_system = 3  # that of the machine would be kept
    return member


def _little(array: NDArray[Any], name: str) -> NDArray[Any]:
    if not _PLAIN.fullmatch(_little_code(array.dtype)):
        raise TypeError(
            f"arrays[{name!r}] must hold booleans, integers, floats or strings, "
            f"got dtype {array.dtype}"
        )
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
    halves = _half_characters(little)
    if halves.any():  # of names of files that are no UTF-8
        little = little.copy()
        little.reshape(-1).view("<u4")[halves] = ord("?")
    return little


def _half_characters(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which letters of a text are halves of pairs, that cannot be printed."""
    if array.dtype.kind != "U":
        return np.zeros(0, bool)
    letters = array.reshape(-1).view(np.dtype("u4").newbyteorder(array.dtype.byteorder))
    return (letters >= 0xD800) & (letters <= 0xDFFF)


def _little_code(dtype: np.dtype[Any]) -> str:
    return dtype.newbyteorder("<").str
