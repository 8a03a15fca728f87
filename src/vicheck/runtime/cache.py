"""Where vicheck caches compiled code, and when it is safe to load."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from vicheck.errors import CacheError

__all__ = ["SWITCH", "cache_directory", "is_private", "is_safe", "private_directory"]

SWITCH = "VICHECK_CACHE"
"""Environment variable: ``off`` keeps nothing."""


def cache_directory() -> Path | None:
    """Return the user's cache directory, which may not exist yet, or None without a home."""
    chosen, home = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~")
    if os.path.isabs(chosen):
        return Path(chosen) / "vicheck"
    if os.path.isabs(home) and os.path.isdir(home):
        return Path(home) / ".cache" / "vicheck"
    return None


def _require_on() -> None:
    """Raise `CacheError` if the user wants nothing to be kept."""
    chosen = os.environ.get(SWITCH, "")
    if chosen.lower() in ("", "on"):
        return
    if chosen.lower() != "off":
        raise CacheError(
            f"compiled code is not kept: {SWITCH} must be on or off, got {chosen!r}",
            hint="to keep it in another directory, set XDG_CACHE_HOME",
        )
    raise CacheError(f"compiled code is not kept: {SWITCH} is off", hint=f"unset {SWITCH}")


def private_directory(name: str) -> Path:
    """Return a directory for compiled code that nobody else can write to; create it if needed.

    Anyone who can put code there can run it as the user. So the directory and the cache directory
    must belong to the user, and only the user may write to them. Every directory above must belong
    to the user or to root, and others must not be able to replace its contents.

    Parameters
    ----------
    name
        Name of the directory within the user's cache directory.

    Raises
    ------
    CacheError
        If there can be no such directory, or the user has set ``VICHECK_CACHE=off``.
    """
    _require_on()
    cache = cache_directory()
    if cache is None:
        raise CacheError(
            "compiled code is not kept: the user has no home directory",
            hint="set XDG_CACHE_HOME to a directory of your own",
        )
    # Resolve links first: a link could be redirected between the checks and the use.
    directory = Path(os.path.realpath(cache / name))
    try:
        for part in reversed((directory, *directory.parents)):
            if not part.exists():
                part.mkdir(mode=0o700, exist_ok=True)
            trusted = is_private if part in (directory, directory.parent) else _is_safe_above
            if not trusted(part):
                raise CacheError(
                    f"compiled code is not kept: others could write to {part}",
                    hint="take away write access from others (chmod go-w), or set XDG_CACHE_HOME",
                )
        if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError
    except OSError as error:
        reason = error.strerror or "it is not writable"
        raise CacheError(
            f"compiled code is not kept in {directory}: {reason}",
            hint="set XDG_CACHE_HOME to a directory of your own",
        ) from None
    return directory


def is_private(path: Path) -> bool:
    """Whether a path exists, is not a link, and only the user can write to it."""
    try:
        status = path.lstat()
    except OSError:
        return False
    if os.name != "posix":
        return True  # home directories are private there
    ours = status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode)
    return ours and not _others_can_write(status)


def is_safe(directory: Path) -> bool:
    """Whether only the user can write to a directory, and nobody else can replace it."""
    directory = Path(os.path.realpath(directory))
    return is_private(directory) and all(map(_is_safe_above, directory.parents))


def _is_safe_above(path: Path) -> bool:
    """Whether nobody else can replace the contents of a directory."""
    if os.name != "posix":
        return True
    status = path.stat()
    alone = not _others_can_write(status) or bool(status.st_mode & stat.S_ISVTX)
    return alone and status.st_uid in (0, os.geteuid())


def _others_can_write(status: os.stat_result) -> bool:
    return bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
