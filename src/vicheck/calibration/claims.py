"""Claims on files that are still to be made, so that processes do not do the same work twice."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout

from vicheck.files.durable import remove_if_possible

__all__ = ["Claims", "remove_if_free"]


class Claims:
    """The claims that one process holds, each a locked file ``*.claim`` beside the one to be made.

    The system releases a lock when its process ends, however that happens, and no sooner. Claims
    are advice: where a file system has no locks, or keeps those of each host apart, processes may
    make the same file twice, which costs time and nothing else if both make the same.
    """

    def __init__(self) -> None:
        self._held: dict[Path, FileLock] = {}

    def take(self, target: Path) -> bool:
        """Claim a file; return whether this process should make it.

        False if the file is there, or if another process is making it. True also if no claim can
        be made because the directory refuses files or locks: whoever then tries to make the file
        will get the reason.
        """
        if not target.parent.is_dir():  # which the lock would make
            return True
        lock = _lock(_claim_on(target))
        try:
            lock.acquire()
        except Timeout:
            return False
        except OSError:
            return True
        # Another process may have made it and released its claim since the caller looked.
        if target.exists():
            _let_go(lock)
            return False
        self._held[target] = lock
        return True

    def release(self, target: Path) -> None:
        """Give up a claim; nothing happens if it was never ours."""
        lock = self._held.pop(target, None)
        if lock is not None:
            _let_go(lock)


def remove_if_free(path: Path) -> None:
    """Remove the file of a claim that nobody holds any more."""
    lock = _lock(path)
    try:
        lock.acquire()
    except OSError:  # held, or the directory refuses
        return
    _let_go(lock)


def _claim_on(target: Path) -> Path:
    return target.with_suffix(".claim")


def _lock(path: Path) -> FileLock:
    """Return a lock that never waits, on a file that everybody who shares a directory may lock.

    The library's substitute where a file system has no locks is not used: a file that a killed
    process leaves behind would keep the others waiting.
    """
    return FileLock(path, timeout=0, mode=0o666, thread_local=False, fallback_to_soft=False)


def _let_go(lock: FileLock) -> None:
    # Before it is released, so that nobody's new lock loses its file; Windows removes it itself.
    remove_if_possible(Path(lock.lock_file))
    lock.release()
