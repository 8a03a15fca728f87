"""A bar that shows how far many fits have come."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vicheck.plain_text import plain

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Bar", "bar"]


class Bar:
    """Shows how far a run has come; without a display it shows nothing."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._start: tuple[int, float] | None = None
        if progress is not None:
            self._task = progress.add_task("compiling", total=None, pace="")

    def say(self, what: str) -> None:
        """Say what is going on before the fits begin."""
        if self._progress is not None:
            self._progress.update(self._task, description=plain(what))

    def __call__(self, done: int, total: int, seconds: float) -> None:
        """Show how many fits are done after so many seconds."""
        if self._progress is None:
            return
        if self._start is None:  # what a store has kept already says nothing about the pace
            self._start = (done, seconds)
        self._progress.update(
            self._task,
            description="fitting",
            completed=done,
            total=total,
            pace=_pace(done - self._start[0], total - done, seconds - self._start[1]),
        )


@contextmanager
def bar() -> Iterator[Bar]:
    """Show a bar on standard error, when that is a terminal."""
    if not sys.stderr.isatty():
        yield Bar(None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[pace]}"),
    )
    plain = os.environ.get("NO_COLOR", "") != ""
    console = Console(stderr=True, color_system=None if plain else "auto")
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bar(progress)


def _pace(done: int, left: int, seconds: float) -> str:
    if done <= 0 or seconds <= 0.0:
        return ""
    minutes, rest = divmod(round(left * seconds / done), 60)
    return f"{done / seconds:.3g} fits/s, {minutes}:{rest:02d} left"
