"""Ctrl-C that nothing can swallow: it is recorded, and checked for between pieces of work.

Python raises `KeyboardInterrupt` wherever its main thread happens to be. Inside an XLA callback the
exception is lost or turned into another one, and the work goes on.
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
    """What has happened to Ctrl-C since the outermost block began."""

    presses = 0
    waits = False
    """Whether the first Ctrl-C waits for `check_interrupt`."""
    raised = False
    """Whether `KeyboardInterrupt` has been raised."""


_now = _State()


def presses() -> int:
    """Return how often Ctrl-C has been pressed in the current block."""
    return _now.presses


def check_interrupt() -> None:
    """Raise `KeyboardInterrupt`, in any thread, if Ctrl-C has been pressed."""
    if _now.presses:
        _now.raised = True
        raise KeyboardInterrupt


@contextmanager
def piece() -> Iterator[None]:
    """Do a piece of work, unless Ctrl-C was pressed; an error after Ctrl-C becomes that Ctrl-C."""
    check_interrupt()
    try:
        yield
    except Exception:
        check_interrupt()
        raise


@contextmanager
def between_pieces() -> Iterator[None]:
    """Make the first Ctrl-C in a block wait for the end of a piece; the second does not wait.

    Blocks may be nested. The outermost one restores the previous handler, and raises
    `KeyboardInterrupt` itself if Ctrl-C was pressed and nothing has been raised yet. Outside the
    main thread, and if the caller has installed a handler, blocks change nothing.
    """
    with _handling(waits=True):
        yield


@contextmanager
def at_once() -> Iterator[None]:
    """Let Ctrl-C end a block as usual, and remember it even if the exception is swallowed."""
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
        if outermost and not _now.raised:
            check_interrupt()
    finally:
        _now.waits = before
        if outermost:
            _forget()


def _handler() -> object:
    """Return the handler of Ctrl-C, or None where it cannot be changed."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.getsignal(signal.SIGINT)


def _handle(number: int, frame: FrameType | None) -> None:
    _now.presses += 1
    if _now.presses > 1 or not _now.waits:
        _now.raised = True
        signal.default_int_handler(number, frame)


def _forget() -> None:
    """End all blocks, including those around the fork of a child process."""
    if _handler() is _handle:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _now.presses, _now.waits, _now.raised = 0, False, False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
