"""A line on standard error that says what is going on, for those who wait: one for everything.

It appears after a second, on a terminal or in a notebook, and goes when the work is done. Whatever
is called within uses the line that is there.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["Progress", "Report", "advance", "report_of", "showing", "with_progress"]

P = ParamSpec("P")
T = TypeVar("T")

Report = Callable[[str], None]
"""Called from time to time with a sentence on what is going on."""
Progress = bool | Report | None
"""What ``progress=`` takes: whether to show a line, or a function to call instead."""

_DELAY = 1.0
"""Seconds before anything is shown: what takes no longer needs no line."""
_PACE = 0.5
"""Seconds between two looks at the clock."""
_LEAST_PART = 0.02
"""Part of the work after which the time that is left can be estimated."""
_WIDEST = 100


class _Quiet:
    """Shows nothing, and keeps what is called within from showing anything."""

    def say(self, sentence: str) -> None:
        """Pass it over."""

    def advance(self, done: float, total: float) -> None:
        """Pass it over."""


class _Handed(_Quiet):
    """Hands sentences to somebody else who shows them."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def say(self, sentence: str) -> None:
        self._report(sentence)


class _Line(_Quiet):
    """A line that is rewritten twice a second, by a thread of its own."""

    def __init__(self, what: str) -> None:
        self._sentence, self._start = what, time.monotonic()
        self._part, self._since = 0.0, self._start
        self._ended, self._width = threading.Event(), 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def say(self, sentence: str) -> None:
        self._sentence, self._part, self._since = sentence, 0.0, time.monotonic()

    def advance(self, done: float, total: float) -> None:
        self._part = done / total if total > 0.0 else 0.0

    def end(self) -> None:
        """Take the line away."""
        self._ended.set()
        self._thread.join()
        if self._width:
            self._write("")

    def text(self, now: float) -> str:
        """Return the line: what is going on, for how long, and how much is left."""
        words = "".join(each for each in self._sentence if each.isprintable())
        clock = _clock(now - self._start)
        if self._part > _LEAST_PART:
            left = (now - self._since) * (1.0 - self._part) / self._part
            clock = f"{self._part:.0%}, {_clock(left)} left"
        return f"{words} ({clock})"

    def _run(self) -> None:
        if self._ended.wait(_DELAY):
            return
        while True:
            self._write(self.text(time.monotonic()))
            if self._ended.wait(_PACE):
                return

    def _write(self, text: str) -> None:
        text = text[: min(_WIDEST, shutil.get_terminal_size().columns - 1)]
        try:
            sys.stderr.write(f"\r{text.ljust(self._width)}" + ("" if text else "\r"))
            sys.stderr.flush()
        except (OSError, ValueError):  # whoever has closed it does not look at it
            self._ended.set()
        self._width = len(text)


_shown: list[_Quiet] = []
"""Those that are under way, one within the other: the last has the word."""


@contextmanager
def showing(progress: Progress, what: str) -> Iterator[Report]:
    """Show what is going on while something is computed; yield what says it.

    Parameters
    ----------
    progress
        True for a line where somebody can see it; a function to call with each sentence instead;
        False or None for nothing, here and in whatever is called.
    what
        What to say until there is more to say.
    """
    if progress is True and _shown:
        _shown[-1].say(what)
        yield _shown[-1].say
        return
    line: _Quiet = _Quiet()
    if callable(progress):
        line = _Handed(progress)
    elif progress and _is_seen():
        line = _Line(what)
    _shown.append(line)
    try:
        yield line.say
    finally:
        _shown.remove(line)
        if isinstance(line, _Line):
            line.end()


def with_progress(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function show what is going on as its argument ``progress`` says, while it runs."""

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            progress: Any = kwargs.get("progress", True)
            with showing(progress, what) as say:
                kwargs["progress"] = say
                return function(*args, **kwargs)

        return called

    return decorated


def report_of(progress: Progress) -> Report:
    """Return what a function that `with_progress` decorates is to call with its sentences."""
    return progress if callable(progress) else _Quiet().say


def advance(done: float, total: float) -> None:
    """Say how much of what was said last is done, where a line is shown."""
    if _shown:
        _shown[-1].advance(done, total)


def _is_seen() -> bool:
    """Whether standard error is a terminal, or goes to a notebook."""
    if sys.stderr is None:
        return False
    if sys.stderr.isatty():
        return True
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
