"""Data in shards: dictionaries of arrays or of ``.npy`` files, or functions that return them."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ModelError, described

__all__ = ["Columns", "Shard", "first_rows", "in_blocks", "require_alike", "shards_of"]

Arrays = Mapping[str, NDArray[Any]]

_TYPES = {"b": np.dtype(bool), "i": np.dtype(np.int64), "u": np.dtype(np.int64)}
_FLOAT = np.dtype(np.float64)
"""Types that numbers are computed with, by kind; all others are floats."""
_ROWS_LOOKED_AT = 2**14
_MOST_HELD = 2**29
"""Bytes of shards that a process keeps, of those that it cannot map from a file."""


class Columns(NamedTuple):
    """What is known of a shard without holding it."""

    num_rows: int
    shapes: dict[str, tuple[int, ...]]
    """Shape of a row of each array."""
    types: dict[str, str]
    """What it is computed with: ``bool``, ``int64`` or ``float64``."""


@dataclass(frozen=True, eq=False)
class Shard:
    """One shard: where its arrays come from. Nothing is read before `read` is called."""

    name: str
    """As in errors: ``shards[2]``."""
    key: tuple[str, int]
    """The same in all processes."""
    source: Mapping[str, Any] | Callable[[], Any] | None
    """None for arrays that lie in another process, and may be held in this one."""

    @property
    def is_light(self) -> bool:
        """Whether it is quicker sent than kept: it says where the data are."""
        return not isinstance(self.source, Mapping) or not any(
            isinstance(value, np.ndarray) for value in self.source.values()
        )

    def without_arrays(self) -> Shard:
        """Return what is sent to a worker that may hold the arrays already."""
        return self if self.is_light else Shard(self.name, self.key, None)

    def read(self) -> Arrays | None:
        """Return the arrays, those of files mapped into memory; None if they are not here."""
        held = _HELD.get(self.key)
        if held is not None:
            return held
        if self.source is None:
            return None
        if isinstance(self.source, Mapping):
            return {name: self._array(name, value) for name, value in self.source.items()}
        arrays = self._called()
        _HELD.keep(self.key, arrays)
        return arrays

    def hold(self) -> None:
        """Keep arrays that another process has sent."""
        arrays = self.read()
        if arrays is not None and not self.is_light:
            _HELD.keep(self.key, arrays)

    def look(self) -> Columns | None:
        """Read all of the shard, and say what it has; None if it is not here.

        Raises
        ------
        ModelError
            For values that are missing or infinite, and arrays that do not fit together.
        """
        arrays = self.read()
        if arrays is None:
            return None
        if not arrays:
            raise ModelError(f"{self.name} has no arrays")
        first = next(iter(arrays))
        for name, array in arrays.items():
            what = f"{self.name}[{name!r}]"
            if array.dtype.kind not in "biuf":
                raise ModelError(f"{what} must hold numbers, got an array of type {array.dtype}")
            if not array.ndim:
                raise ModelError(
                    f"{what} must have rows, got a single number",
                    hint=f"give what all shards share by name: {name}=...",
                )
            if not len(array):
                raise ModelError(f"{what} must have rows, got an array of shape {array.shape}")
            if len(array) != len(arrays[first]):
                raise ModelError(
                    f"{what} must have {len(arrays[first])} rows, as {self.name}[{first!r}] has, "
                    f"got {len(array)}"
                )
            if array.dtype.kind == "f":
                _require_finite(what, array)
        return Columns(
            len(arrays[first]),
            {name: array.shape[1:] for name, array in arrays.items()},
            {name: _type_of(array).name for name, array in arrays.items()},
        )

    def _called(self) -> Arrays:
        assert callable(self.source)
        try:
            returned = self.source()
        except Exception as error:  # whatever a user's function can raise
            raise ModelError(f"{self.name} raised {type(error).__name__}: {error}") from error
        if not isinstance(returned, Mapping):
            raise ModelError(
                f"{self.name} must return a dictionary of arrays, got {described(returned)}"
            )
        return {str(name): self._array(str(name), value) for name, value in returned.items()}

    def _array(self, name: str, value: Any) -> NDArray[Any]:
        if not isinstance(value, str | os.PathLike):
            return np.asarray(value)
        what = f"{self.name}[{name!r}]"
        try:
            array = np.load(value, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError as error:
            raise ModelError(f"{what}: there is no file {Path(value).name}") from error
        except (OSError, ValueError) as error:
            raise ModelError(
                f"{what}: {Path(value).name} cannot be read as a .npy file of numbers ({error})"
            ) from error
        if not isinstance(array, np.ndarray):
            raise ModelError(f"{what}: {Path(value).name} is an archive, not a .npy file")
        return array


def shards_of(shards: object) -> tuple[Shard, ...]:
    """Return the shards that a user has given, without reading them."""
    if not isinstance(shards, Sequence) or isinstance(shards, str | bytes):
        raise TypeError(
            "shards must be a list with a dictionary of arrays or paths, or a function that "
            f"returns one, for each shard, got {type(shards).__name__}"
        )
    if not shards:
        raise ModelError("shards must have at least one entry, got an empty list")
    run = uuid.uuid4().hex
    return tuple(_shard(index, source, run) for index, source in enumerate(shards))


def _shard(index: int, source: object, run: str) -> Shard:
    name = f"shards[{index}]"
    if isinstance(source, Mapping):
        given = {str(each): _settled(value) for each, value in source.items()}
        return Shard(name, (run, index), given)
    if not callable(source):
        raise TypeError(
            f"{name} must be a dictionary of arrays or paths, or a function that returns one, got "
            f"{described(source)}"
        )
    return Shard(name, (run, index), source)


def _settled(value: Any) -> Any:
    """Return a path as it is for workers elsewhere, or an array."""
    return os.path.abspath(value) if isinstance(value, str | os.PathLike) else np.asarray(value)


def require_alike(shards: Sequence[Shard], columns: Sequence[Columns]) -> None:
    """Raise `ModelError` unless all shards have the same arrays, up to their number of rows."""
    first, name = columns[0], shards[0].name
    for shard, other in zip(shards, columns, strict=True):
        if set(other.shapes) != set(first.shapes):
            raise ModelError(
                f"{shard.name} must have {', '.join(first.shapes)}, as {name} has, got "
                f"{', '.join(other.shapes)}"
            )
        for column, shape in first.shapes.items():
            what = f"{shard.name}[{column!r}]"
            if other.shapes[column] != shape:
                raise ModelError(
                    f"{what} must have rows of shape {shape}, as in {name}, got "
                    f"{other.shapes[column]}"
                )
            if other.types[column] != first.types[column]:
                raise ModelError(
                    f"{what} must be of the same type as in {name}, {first.types[column]}, got "
                    f"{other.types[column]}"
                )


def first_rows(arrays: Arrays, number: int) -> dict[str, NDArray[Any]]:
    """Return so many rows; where there are fewer, the first ones again."""
    rows = {name: np.arange(number) % len(array) for name, array in arrays.items()}
    return {name: _computable(array[rows[name]]) for name, array in arrays.items()}


def in_blocks(arrays: Arrays, size: int, *, fill: bool) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield blocks of rows in the types that are computed with, and the number of rows in each.

    Where the last is to be filled up, its last row is repeated.
    """
    num_rows = len(next(iter(arrays.values())))
    for start in range(0, num_rows, size):
        count = min(size, num_rows - start)
        block = {name: _computable(array[start : start + count]) for name, array in arrays.items()}
        if fill and count < size:
            rows = np.minimum(np.arange(size), count - 1)
            block = {name: array[rows] for name, array in block.items()}
        yield block, count


def _computable(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, _type_of(array))


def _type_of(array: NDArray[Any]) -> np.dtype[Any]:
    return _TYPES.get(array.dtype.kind, _FLOAT)


def _require_finite(what: str, array: NDArray[Any]) -> None:
    """Look at some rows at a time: all may be more than fits into memory."""
    bad, first = 0, None
    for start in range(0, len(array), _ROWS_LOOKED_AT):
        rows = np.asarray(array[start : start + _ROWS_LOOKED_AT])
        finite = np.isfinite(rows)
        if finite.all():
            continue
        bad += int(finite.size - finite.sum())
        if first is None:
            row, *rest = (int(i) for i in np.argwhere(~finite)[0])
            first = (start + row, *rest)
    if first is not None:
        raise ModelError(
            f"{what} must be finite, got {bad} of {array.size} values that are NaN or infinite, "
            f"the first at index {first if len(first) != 1 else first[0]}"
        )


class _Held:
    """Shards that this process keeps, up to a number of bytes.

    They are asked for in turn, so that the first ones stay: to drop the oldest for the newest would
    drop each just before it is needed. Those of other models make room.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int], Arrays] = {}

    def get(self, key: tuple[str, int]) -> Arrays | None:
        return self._kept.get(key)

    def keep(self, key: tuple[str, int], arrays: Arrays) -> None:
        with self._lock:
            used = _bytes_of(arrays) + sum(map(_bytes_of, self._kept.values()))
            for other in [other for other in self._kept if other[0] != key[0]]:
                if used <= _MOST_HELD:
                    break
                used -= _bytes_of(self._kept.pop(other))
            if used <= _MOST_HELD:
                self._kept[key] = arrays


def _bytes_of(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays.values())


_HELD = _Held()
