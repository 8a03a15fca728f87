"""The process that a command runs in: however it ends, no crash looks like a verdict.

Python's own status for a crash is 1, and so is that of libraries that end the process themselves;
here that means "usable with care". The process is watched before anything is imported.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
from contextlib import suppress
from typing import NoReturn

from vicheck.cli.failures import EX_IOERR, EX_SOFTWARE, INTERRUPTED
from vicheck.runtime.interrupts import at_once, presses

__all__ = ["main"]

_PATIENCE = 5.0
"""Seconds that a command has to end by itself after Ctrl-C: compiling cannot be interrupted."""
_SHOW_CURSOR = "\x1b[?25h"
_ENDING, _ANNOUNCED = threading.RLock(), threading.Event()


def main() -> NoReturn:
    """Run the command line and end the process, with a status of 64 or more if there is trouble."""
    try:
        status = _run()
    except KeyboardInterrupt:
        status = _interrupted()
    except BaseException as error:
        _say(f"vicheck cannot run: {error!r}")
        _say("is it completely installed, with everything that it needs?", "hint")
        status = EX_SOFTWARE
    _leave(status)


def _run() -> int:
    if not _open_streams():
        _say("cannot write the answer: standard output is closed")
        return EX_IOERR
    _watch_exits()
    _watch_interrupts()
    with at_once():
        from vicheck.cli.commands import main as run_command

        try:
            run_command()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else EX_SOFTWARE
        if presses() and status != INTERRUPTED:  # whatever has swallowed it
            status = _interrupted()
    return status


def _interrupted() -> int:
    """Say it once: the command and the thread that watches may both come here."""
    with _ENDING:
        if not _ANNOUNCED.is_set():
            _say("interrupted")
            _ANNOUNCED.set()
    return INTERRUPTED


def _leave(status: int) -> NoReturn:
    """End the process at once: threads may still be at work, and would crash Python's own end."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # a reader that hangs up has what it wanted
        pass
    except (OSError, ValueError) as error:
        if status < EX_IOERR:
            _say(f"cannot write the answer: {getattr(error, 'strerror', None) or error}")
            status = EX_IOERR
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(status)


def _say(text: str, start: str = "vicheck") -> None:
    """Write a line on standard error, if that can be written to at all."""
    with suppress(OSError):
        os.write(2, f"{start}: {text}\n".encode(errors="replace"))


def _open_streams() -> bool:
    """Replace closed streams, or files would get their numbers; return whether there was an output.

    What libraries write to such a number would otherwise end up in whatever file is opened next.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    had_output = sys.stdout is not None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    return had_output


def _end_for_library(_: object) -> None:
    _say("a library ended the process; its own message should say why")
    os._exit(EX_SOFTWARE)


_ENDED_BY_LIBRARY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_end_for_library)


def _watch_exits() -> None:
    """Give a status of our own to ``exit`` in C: we never call it, and a library may, with 1."""
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).__cxa_atexit(_ENDED_BY_LIBRARY, None, None)


def _watch_interrupts() -> None:
    """End the process on a second Ctrl-C, or when one was not heeded in time.

    Python itself would do nothing before the main thread is back from compiled code.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or os.name != "posix":
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_end_in_time, args=(reader,), name="interrupts", daemon=True).start()


def _end_in_time(reader: int) -> None:
    os.read(reader, 1)
    select.select([reader], [], [], _PATIENCE)
    if sys.stderr.isatty():  # a bar has hidden it
        with suppress(OSError):
            os.write(2, f"\r{_SHOW_CURSOR}".encode())
    _interrupted()
    os._exit(INTERRUPTED)
