"""Claims on files that are still to be made, so that processes do not do the same work twice."""

from __future__ import annotations

import json
import os
import platform
import secrets
import time
from contextlib import suppress
from pathlib import Path

from vicheck.files.durable import remove_if_possible, whole_file

__all__ = ["Claims"]

_ODD_LEASE = 10.0
"""Seconds for which a claim counts that is damaged, or dated in the future."""


class Claims:
    """The claims that one process holds, each a file ``*.claim`` beside the one to be made.

    They are advice. Two processes that find the same stale claim at the same moment may both get
    it, which costs time and nothing else if both then make the same file.

    Attributes
    ----------
    lease
        Seconds after which a claim that was not refreshed counts for nothing. Claims that are
        damaged or dated in the future have a short one, from when this process first saw them.
    """

    def __init__(self, lease: float) -> None:
        self.lease = lease
        self._held: dict[Path, bytes] = {}
        self._odd: dict[Path, tuple[tuple[bytes, int], float]] = {}

    def take(self, target: Path) -> bool:
        """Claim a file; tell whether this process should make it.

        False if the file is there, or if another process has claimed it, still lives as far as
        can be known, and has refreshed its claim within the lease. True also if no claim can be
        made because the directory refuses files: who then tries to make the file will hear why.
        """
        path, owner = _claim_on(target), _describe_owner()
        try:
            self.remove_if_stale(path)
            with whole_file(path, overwrite=False) as file:
                file.write(owner)
        except FileExistsError:
            return False
        except OSError:
            return True
        self._held[target] = owner
        # Another process may have made it and released its claim since the caller looked.
        if target.exists():
            self.release(target)
            return False
        return True

    def refresh(self, target: Path) -> bool:
        """Begin a claim's lease anew; False if it is no longer ours."""
        if not self._holds(target):
            return False
        try:
            os.utime(_claim_on(target))
        except OSError:
            return False
        return True

    def release(self, target: Path) -> None:
        """Give up a claim; nothing happens if it was never ours or is another's by now."""
        if self._holds(target):
            remove_if_possible(_claim_on(target))
        self._held.pop(target, None)

    def remove_if_stale(self, path: Path) -> None:
        """Remove the file of a claim whose lease has run out or whose owner is dead."""
        with suppress(FileNotFoundError):
            if self._is_stale(path):
                path.unlink()
                self._odd.pop(path, None)

    def _is_stale(self, path: Path) -> bool:
        content, written = _read(path), path.stat()
        age = time.time() - written.st_mtime
        owner = _owner_of(content)
        if owner is not None and not _may_live(*owner):
            return True
        if owner is not None and age >= 0.0:
            return age > self.lease
        mark, now = (content, written.st_mtime_ns), time.monotonic()
        seen, since = self._odd.get(path, (None, now))
        self._odd[path] = (mark, since if seen == mark else now)
        return max(age, now - self._odd[path][1]) > min(_ODD_LEASE, self.lease)

    def _holds(self, target: Path) -> bool:
        return target in self._held and _read(_claim_on(target)) == self._held[target]


def _claim_on(target: Path) -> Path:
    return target.with_suffix(".claim")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _describe_owner() -> bytes:
    """Return the content of a new claim, which no other claim shares."""
    pid = os.getpid()
    owner = {
        "host": platform.node(),
        "pid": pid,
        "started": _start_of(pid),
        "claim": secrets.token_hex(8),
    }
    return json.dumps(owner).encode()


def _owner_of(content: bytes) -> tuple[str, int, str | None] | None:
    """Return host, number and start of the process that has made a claim; None if damaged."""
    try:
        owner = json.loads(content)
        return owner["host"], int(owner["pid"]), owner["started"]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _may_live(host: str, pid: int, started: str | None) -> bool:
    """Whether the process that has made a claim may be alive: all but certain deaths count."""
    if host != platform.node() or os.name != "posix" or pid <= 0:
        return True
    try:
        os.kill(pid, 0)  # sends nothing, only asks
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is another user's
        pass
    now = _start_of(pid)
    return now is None or now == started


def _start_of(pid: int) -> str | None:
    """Tell when a process began (numbers are used again), or that it ended; None if unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces
    return "ended" if fields[0] in "ZX" else fields[19]
