"""Ctrl-C that nothing can swallow: it is noted, and looked for between pieces of work.

Python raises `KeyboardInterrupt` wherever its main thread happens to be. In a callback of XLA's
that is too deep: the exception is lost or becomes another one, and the work goes on.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["at_once", "between_pieces", "check_interrupt", "piece", "presses"]


class _State:
    """What is known of Ctrl-C since the outermost block has begun."""

    presses = 0
    waits = False
    """Whether the first one waits for `check_interrupt`."""
    reported = False
    """Whether an exception has reported it to somebody."""


_now = _State()


def presses() -> int:
    """Return how often Ctrl-C was pressed in the block that is running."""
    return _now.presses


def check_interrupt() -> None:
    """Raise `KeyboardInterrupt`, in any thread, when Ctrl-C was pressed."""
    if _now.presses:
        _now.reported = True
        raise KeyboardInterrupt


@contextmanager
def piece() -> Iterator[None]:
    """Do a piece of work: none after Ctrl-C, and what goes wrong in it by one is that Ctrl-C."""
    check_interrupt()
    try:
        yield
    except Exception:
        check_interrupt()
        raise


@contextmanager
def between_pieces() -> Iterator[None]:
    """Let the first Ctrl-C in a block wait for the end of a piece; the second ends it at once.

    Blocks may be nested. The outermost restores the former handler, and raises `KeyboardInterrupt`
    itself if Ctrl-C was pressed and not reported yet. Outside the main thread, and where the caller
    has a handler of their own, blocks change nothing.
    """
    with _handling(waits=True):
        yield


@contextmanager
def at_once() -> Iterator[None]:
    """Let Ctrl-C end a block as usual; it is known afterwards even if the exception was lost."""
    with _handling(waits=False):
        yield


@contextmanager
def _handling(waits: bool) -> Iterator[None]:
    handler = _handler()
    if handler not in (signal.default_int_handler, _handle):
        yield
        return
    outermost = handler is not _handle
    before, _now.waits = _now.waits, waits
    if outermost:
        signal.signal(signal.SIGINT, _handle)
    try:
        with piece():
            yield
        if outermost and not _now.reported:
            check_interrupt()
    finally:
        _now.waits = before
        if outermost:
            _forget()


def _handler() -> object:
    """Return what handles Ctrl-C; None where that cannot be changed."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.getsignal(signal.SIGINT)


def _handle(number: int, frame: FrameType | None) -> None:
    _now.presses += 1
    if _now.presses > 1 or not _now.waits:
        _now.reported = True
        signal.default_int_handler(number, frame)


def _forget() -> None:
    """End all blocks; also in a process that was forked within one."""
    if _handler() is _handle:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _now.presses, _now.waits, _now.reported = 0, False, False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
