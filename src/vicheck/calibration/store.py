"""A directory of finished chunks: what is in it survives interrupts, kills and power loss."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike

from vicheck.calibration.claims import Claims, remove_if_free
from vicheck.calibration.manifest import Run, find_or_begin_run
from vicheck.calibration.system_errors import explaining_system_errors
from vicheck.errors import UnreadableError
from vicheck.files.durable import (
    is_temporary,
    older_than,
    remove_if_possible,
    whole_file,
)
from vicheck.results.archive import Arrays, decode_arrays, encode_arrays

__all__ = ["Store"]

_CHUNK = re.compile(r"chunk-([0-9]{6}|[1-9][0-9]{6,})\.bin")

_ABANDONED = 600.0
"""Seconds after which an unfinished file that nobody has written to is taken for a dead process's.
"""


class Store:
    """Results of chunks on disk, one file each, for one run described by its manifest.

    Every file is written under another name, flushed and then renamed, so a chunk is either
    there as a whole or not at all; its checksum covers the content, the index and the manifest.
    Several processes may share a store. Claims only keep them from doing the same chunk twice: a
    chunk follows from manifest and index alone, so nothing is wrong if two of them do it.

    Attributes
    ----------
    path
        The directory.
    damaged
        Indices of the chunks that were found damaged and set aside by this object.
    begun_on
        The kind of machine on which the run was begun.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     store = Store.open(directory, {"seed": 1, "num_datasets": 2})
    ...     store.write(0, {"probabilities": np.array([0.25, 0.75])})
    ...     store.finished()
    ...     store.read(0)
    {0}
    {'probabilities': array([0.25, 0.75])}
    """

    def __init__(self, path: Path, run: Run) -> None:
        self.path = path
        self.damaged: list[int] = []
        self.begun_on = run.begun_on
        self._run = run.digest
        self._claims = Claims()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        manifest: Mapping[str, Any],
        *,
        here: str = "",
    ) -> Self:
        """Open the store of a run, or begin one in a directory that is absent or empty.

        Parameters
        ----------
        path
            The directory; it is created with its parents if it does not exist. One that cannot be
            written to is enough for a store that is only read.
        manifest
            All that the chunks depend on, in values that JSON can hold.
        here
            The kind of machine this is, noted when a run is begun.

        Raises
        ------
        StoreError
            If the store belongs to another run, if the directory holds anything else, or if it
            cannot be read or made.
        """
        directory = Path(path)
        store = cls(directory, find_or_begin_run(directory, manifest, here))
        store._tidy()
        return store

    def finished(self) -> set[int]:
        """Return the indices of the chunks that are there; only `read` verifies what they hold."""
        matches = (_CHUNK.fullmatch(path.name) for path in self._files())
        return {int(match[1]) for match in matches if match}

    def read(self, index: int) -> Arrays | None:
        """Return a chunk's arrays, or None if it is absent or damaged.

        A damaged file is renamed to ``*.damaged`` and its index noted in `damaged`; the chunk
        can then be done again.
        """
        path = self._chunk(index)
        with explaining_system_errors("read", path):
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                return None
        try:
            label, arrays = decode_arrays(content)
        except UnreadableError:
            label, arrays = {}, {}
        if label != self._label(index):  # damaged, or another chunk, or another run's
            self.set_aside(index)
            return None
        return arrays

    def write(self, index: int, arrays: Mapping[str, ArrayLike]) -> None:
        """Write a chunk, whole or not at all; one that is there and valid is left as it is.

        Parameters
        ----------
        index
            Which chunk, from 0 on.
        arrays
            Booleans, integers, floats of at most eight bytes, or strings, by name. The same
            arrays give the same file, bit for bit, whatever their order.

        Raises
        ------
        StoreError
            If the system refuses: disk full, no permission. Other chunks are not affected.
        """
        content = encode_arrays(arrays, self._label(index))
        if self.read(index) is not None:
            return
        path = self._chunk(index)
        with explaining_system_errors("write", path), whole_file(path) as file:
            file.write(content)

    def set_aside(self, index: int) -> None:
        """Rename a chunk's file to ``*.damaged``, because what it holds cannot be used."""
        path = self._chunk(index)
        if index not in self.damaged:
            self.damaged.append(_as_index(index))
        try:
            os.replace(path, path.with_suffix(".damaged"))
        except OSError:
            remove_if_possible(path)

    def claim(self, index: int) -> bool:
        """Announce that this process is about to do a chunk; return whether it should.

        False if the chunk is there, or if another process is doing it. True also if no claim can
        be made because the directory refuses files or locks: `write` will then say so.
        """
        return self._claims.take(self._chunk(index))

    def release(self, index: int) -> None:
        """Give up a claim; nothing happens if it was never ours."""
        self._claims.release(self._chunk(index))

    @contextmanager
    def claiming(self, index: int) -> Iterator[bool]:
        """Claim a chunk for the length of a ``with`` block, which gets what `claim` returns."""
        claimed = self.claim(index)
        try:
            yield claimed
        finally:
            if claimed:
                self.release(index)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def _chunk(self, index: int) -> Path:
        return self.path / f"chunk-{_as_index(index):06d}.bin"

    def _label(self, index: int) -> dict[str, Any]:
        return {"index": _as_index(index), "run": self._run}

    def _files(self) -> list[Path]:
        with explaining_system_errors("read", self.path):
            return list(self.path.iterdir())

    def _tidy(self) -> None:
        """Remove what killed processes have left behind, as far as permissions allow."""
        for path in self._files():
            with suppress(OSError):
                if is_temporary(path) and older_than(path, _ABANDONED):
                    path.unlink()
                elif path.suffix == ".claim":
                    remove_if_free(path)


def _as_index(index: int) -> int:
    try:
        position = operator.index(index)
    except TypeError:
        raise TypeError(f"index must be an integer, got {type(index).__name__}") from None
    if position < 0:
        raise ValueError(f"index must not be negative, got {position}")
    return position
