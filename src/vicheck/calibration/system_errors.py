"""Errors of the operating system when a store is read or written, in words that help."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from vicheck.errors import StoreError

__all__ = ["explaining_system_errors"]

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_ACCESS = (errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def explaining_system_errors(action: Literal["read", "write"], path: Path) -> Iterator[None]:
    """Turn an error of the operating system into a `StoreError` with file, reason and remedy."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            advice = "free some space and run again: finished chunks are kept"
        elif error.errno in _NO_ACCESS:
            advice = "check its permissions, or use a directory that you own"
        else:
            advice = "fix this and run again: finished chunks are kept"
        reason = error.strerror or error
        raise StoreError(f"cannot {action} {path}: {reason}", hint=advice) from error
