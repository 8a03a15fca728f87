"""A function of points that gives up when it takes too long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["Timed", "TooSlowError"]


class TooSlowError(Exception):
    """What was timed takes longer than it may."""


class Timed:
    """A function that stops when it takes too long: so does the fastest call, of two at least."""

    def __init__(self, evaluate: Callable[[Any], Any], most_seconds: float) -> None:
        self._evaluate, self._most, self._calls, self._fastest = evaluate, most_seconds, 0, np.inf

    def __call__(self, points: Any) -> Any:
        """Call the function, or raise `TooSlowError`."""
        if self._calls > 1 and self._fastest > self._most:
            raise TooSlowError
        began = time.perf_counter()
        found = self._evaluate(points)
        self._calls += 1
        self._fastest = min(self._fastest, (time.perf_counter() - began) / len(points))
        return found
