"""Files that exist as a whole or not at all, and that survive a power loss."""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = [
    "is_temporary",
    "make_directory",
    "new_file",
    "older_than",
    "remove_if_possible",
    "whole_file",
]

_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")


@contextmanager
def whole_file(path: Path, *, overwrite: bool = True) -> Iterator[IO[bytes]]:
    """Open a file for writing that gets its name when the block ends, complete.

    If anything fails, nothing of it remains, and an old file of that name is unchanged. A file that
    takes the place of another has its mode, and its owner where the system allows it; other hard
    links keep the old content. A symbolic link stays, and its target is written. What is not
    a regular file, such as a device or a pipe, stays too: everything is written to it at the end.

    Parameters
    ----------
    path
        The name that the file gets in the end; its directory must exist.
    overwrite
        Whether it may replace another file; `FileExistsError` otherwise.
    """
    old = _status(path) if overwrite else None
    if old is not None and not stat.S_ISREG(old.st_mode):
        with _written_at_the_end(path, old) as memory:
            yield memory
        return
    place = Path(os.path.realpath(path)) if overwrite else path
    temporary = place.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        with new_file(temporary, like=old) as file:
            yield file
        if overwrite:
            os.replace(temporary, place)
        else:
            _name_without_overwriting(temporary, place)
    finally:
        remove_if_possible(temporary)
    _sync_directory(place.parent)


@contextmanager
def new_file(path: Path, *, like: os.stat_result | None = None) -> Iterator[IO[bytes]]:
    """Open a file for writing that must not exist yet; if the block fails, nothing of it remains.

    With ``like`` it has the mode, and where possible the owner, of another from the start.
    """
    # Until it has the other's mode, nobody else may open it.
    mode = 0o666 if like is None else 0o600
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        try:
            if like is not None:
                _make_alike(path, like)
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            remove_if_possible(path)
            raise


def make_directory(path: Path) -> None:
    """Make a directory durably, with its parents, unless it exists."""
    absent = [part for part in (path, *path.parents) if not part.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for part in absent:
        _sync_directory(part.parent)


def is_temporary(path: Path) -> bool:
    """Whether this is the name of a file that `whole_file` did not finish."""
    return _TEMPORARY.fullmatch(path.name) is not None


def older_than(path: Path, seconds: float) -> bool:
    """Whether a file was last written more than so many seconds ago."""
    return time.time() - path.stat().st_mtime > seconds


def remove_if_possible(path: Path) -> None:
    """Remove a file, if it exists and the system allows it."""
    with suppress(OSError):
        path.unlink()


def _status(path: Path) -> os.stat_result | None:
    """Return what is at a path, past all links; None when there is nothing."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


@contextmanager
def _written_at_the_end(path: Path, old: os.stat_result) -> Iterator[IO[bytes]]:
    """Collect everything in memory, where writers can seek, and then write it in place."""
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    memory = io.BytesIO()
    yield memory
    # Without O_CREAT: if it is gone by now, no file is created in its place.
    with open(os.open(path, os.O_WRONLY), "wb") as file:
        file.write(memory.getbuffer())


def _make_alike(path: Path, other: os.stat_result) -> None:
    """Give a file the mode of another and, as far as the system allows it, its owner."""
    for user, group in ((-1, other.st_gid), (other.st_uid, -1)):
        with suppress(OSError, AttributeError):  # Windows has no owners of this kind
            os.chown(path, user, group)
    path.chmod(other.st_mode & 0o777)


def _name_without_overwriting(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)  # unlike a rename, this never replaces another's file
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        os.replace(temporary, path)


def _sync_directory(directory: Path) -> None:
    """Make new names durable, where the system can."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError:  # Windows opens no directories
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
