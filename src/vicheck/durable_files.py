"""Files that are there as a whole or not at all, and that last through a power loss."""

from __future__ import annotations

import errno
import os
import re
import secrets
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
    """Open a file to write that gets its name when the block ends, with all that is in it.

    If anything fails nothing of it stays, and an old file of that name is as it was.

    Parameters
    ----------
    path
        The name that the file gets at last; its directory must exist.
    overwrite
        Whether it may take the place of another; `FileExistsError` otherwise.
    """
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        with new_file(temporary) as file:
            yield file
        if overwrite:
            os.replace(temporary, path)
        else:
            _name_without_overwriting(temporary, path)
    finally:
        remove_if_possible(temporary)
    _sync_directory(path.parent)


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write that must not exist yet; if the block fails, nothing of it stays."""
    with open(path, "xb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            remove_if_possible(path)
            raise


def make_directory(path: Path) -> None:
    """Make a directory that lasts, with its parents, unless it is there."""
    absent = [part for part in (path, *path.parents) if not part.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for part in absent:
        _sync_directory(part.parent)


def is_temporary(path: Path) -> bool:
    """Whether this is the name of a file that `whole_file` had not finished."""
    return _TEMPORARY.fullmatch(path.name) is not None


def older_than(path: Path, seconds: float) -> bool:
    """Whether nobody has written to a file for so long."""
    return time.time() - path.stat().st_mtime > seconds


def remove_if_possible(path: Path) -> None:
    """Remove a file, if it is there and the system lets us."""
    with suppress(OSError):
        path.unlink()


def _name_without_overwriting(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)  # unlike a rename, this never replaces another's file
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        os.replace(temporary, path)


def _sync_directory(directory: Path) -> None:
    """Make new names last, where the system can."""
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
