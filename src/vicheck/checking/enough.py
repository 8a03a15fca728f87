"""How many draws a check needs: doubled until its verdict is settled, or the time is used up.

What settles a verdict is decided in `vicheck.judging.stopping`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ArgumentError, refuse_unused, require_count
from vicheck.judging.stopping import estimate_is_settled, level_is_settled, modes_are_settled
from vicheck.results.psis import PsisResult
from vicheck.stats.differences import differences
from vicheck.stats.psis import psis_quietly
from vicheck.stats.tail_lengths import judged_psis

if TYPE_CHECKING:
    from vicheck.results.convergence import PooledModes

__all__ = [
    "BUDGET",
    "FIRST_DRAWS",
    "MOST_DRAWS",
    "NUM_DRAWS",
    "NumDraws",
    "draw_enough",
    "open_question",
    "require_num_draws",
]

Floats = NDArray[np.float64]
NumDraws = int | Literal["auto"] | None
"""What ``num_draws=`` takes."""
T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

NUM_DRAWS = 100_000
"""Draws by default, where they do not take too long."""
FIRST_DRAWS = 1000
"""Draws that an automatic number begins with."""
MOST_DRAWS = 128_000
"""Draws that an automatic number ends with at the latest."""
BUDGET = 120.0
"""Seconds that the evaluation of draws may take by default, where their number is not given."""
_COMPILING = 60.0
"""Seconds that compiling may take: unless the first draws take longer, they do not count."""
_NOTICED = 0.05
"""Part of the budget after which a projection counts: a hiccup of the machine must not decide."""


def require_num_draws(num_draws: object, budget: object) -> tuple[NumDraws, float]:
    """Return the number of draws and the budget in seconds, or raise when they cannot be used."""
    if isinstance(num_draws, str):
        if num_draws != "auto":
            problem = f"must be a positive integer or 'auto', got {num_draws!r}"
            raise ArgumentError("num_draws", problem)
        number: NumDraws = "auto"
    else:
        number = None if num_draws is None else require_count("num_draws", num_draws)
    if budget is None:
        return number, BUDGET
    if isinstance(number, int):
        refuse_unused({"budget": budget}, "a number of draws that is given")
    is_number = isinstance(budget, int | float | np.number) and not isinstance(budget, bool)
    if not is_number or not 0.0 < float(budget) < np.inf:  # type: ignore[arg-type]
        raise ArgumentError("budget", f"must be a positive number of seconds, got {budget!r}")
    return number, float(budget)  # type: ignore[arg-type]


class First(Protocol[T_co]):
    """Something that returns the first draws, or None when it was told not to go on."""

    def __call__(self, num_draws: int, go_on: Callable[[int], bool] | None, /) -> T_co | None: ...


def draw_enough(
    first: First[T], num_draws: NumDraws, budget: float, open_in: Callable[[T], str]
) -> tuple[T, tuple[str, ...]]:
    """Return as many draws as are wanted or needed, and notes on how many these are.

    Parameters
    ----------
    first
        Returns the first draws, their number being given.
    num_draws
        Their number; "auto" to double it until nothing is open; None for 100,000 or, if these would
        take longer than the budget, the same as "auto".
    budget
        Seconds, from the end of the first chunk on, which has to be compiled. If even the first
        1000 draws exceed it, those that are there have to do.
    open_in
        Says what more draws could still change; empty if nothing.
    """
    if isinstance(num_draws, int):
        return _there(first(num_draws, None)), ()
    clock = _Clock(budget)
    if num_draws == "auto":
        return _doubled(first, open_in, clock, ())
    drawn = first(NUM_DRAWS, lambda done: not clock.projects_too_long(done, NUM_DRAWS))
    if drawn is not None:
        return drawn, ()
    taking = f"{NUM_DRAWS:,} draws would have taken about {_spoken(clock.projected)}, longer than"
    return _doubled(first, open_in, clock, (f"{taking} the budget of {_spoken(budget)}.",))


def _doubled(
    first: First[T], open_in: Callable[[T], str], clock: _Clock, notes: tuple[str, ...]
) -> tuple[T, tuple[str, ...]]:
    number, begun = FIRST_DRAWS, time.perf_counter()

    def in_time(done: int) -> bool:
        clock.note(done, time.perf_counter() - begun)
        return clock.allows_more

    drawn = None
    if clock.reached >= number or clock.allows_more:
        drawn = first(number, in_time)
    if drawn is None:
        taking = f"{number:,} would have taken about {_spoken(round(clock.seconds_for(number)))}"
        why = f"{taking}, longer than the budget of {_spoken(clock.budget)}"
        drawn = _there(first(clock.reached, None))  # they are there already
        return drawn, (*notes, f"Stopped at {clock.reached:,} draws: {why}.")
    clock.note(number, time.perf_counter() - begun)
    while True:
        left = open_in(drawn)
        if not left:
            why = "the verdict can hardly change any more"
            break
        if number >= MOST_DRAWS:
            why = f"that is the most, and more could still change {left}"
            break
        more = None
        if clock.has_time_to_double(number):
            more = first(2 * number, lambda done: not clock.is_over)
        if more is None:
            budget = _spoken(clock.budget)
            why = f"the budget of {budget} was used up, and more could still change {left}"
            break
        number, drawn = 2 * number, more
    return drawn, (*notes, f"Stopped at {number:,} draws: {why}.")


class _Clock:
    """How long draws have taken, not counting the first ones, which include compiling."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.projected = np.nan
        """Seconds that the draws of a whole run would take."""
        self.reached = 0
        """Draws that were done when somebody looked."""
        self._start: tuple[float, int] | None = None
        self._first = 0.0
        """Seconds for the first draws, compiling included."""

    def note(self, done: int, seconds: float = 0.0) -> None:
        """Note how many draws are done; the first time begin to count, after so many seconds."""
        self.reached = max(self.reached, done)
        if self._start is None:
            self._start, self._first = (time.perf_counter(), done), seconds

    @property
    def elapsed(self) -> float:
        return 0.0 if self._start is None else time.perf_counter() - self._start[0]

    @property
    def is_over(self) -> bool:
        return self.elapsed > self.budget

    @property
    def allows_more(self) -> bool:
        """Whether there is time for any more draws; the first may have taken long to compile."""
        return self._first <= max(self.budget, _COMPILING) and not self.is_over

    def seconds_for(self, number: int) -> float:
        """Return about how long so many draws take."""
        assert self._start is not None
        since = self.reached - self._start[1]
        each = self.elapsed / since if since else self._first / self.reached
        return each * number

    def has_time_to_double(self, done: int) -> bool:
        """Whether as many draws again as are done will be in time, as far as can be known."""
        assert self._start is not None
        if 2 * done <= self.reached:
            return True
        since = done - self._start[1]
        if not since:
            return self.allows_more
        return self.elapsed + self.elapsed / since * done <= self.budget

    def projects_too_long(self, done: int, number: int) -> bool:
        """Whether all of a number of draws will take longer than the budget, with some done."""
        self.note(done)
        assert self._start is not None
        since = done - self._start[1]
        if self.elapsed <= _NOTICED * self.budget or not since:
            return False
        self.projected = self.elapsed / since * number
        return self.projected > self.budget


def open_question(
    smoothed: PsisResult,
    log_ratios: Floats,
    values: Floats,
    pooled: Callable[[], PooledModes | None] = lambda: None,
) -> str:
    """Say what more draws could still change in the verdict or in the column ``use``.

    Parameters
    ----------
    smoothed, log_ratios
        The log ratios of the draws that there are, and their PSIS.
    values
        The quantities at these draws, or at the first of them.
    pooled
        Returns the mixture of all optima; asked for only when khat is settled.
    """
    parts = (log_ratios[: len(log_ratios) // part] for part in (4, 2))
    earlier = [float(psis_quietly(part, with_weights=False).khat) for part in parts]
    if not level_is_settled(smoothed, earlier):
        return "the level"
    if not modes_are_settled(pooled(), smoothed.num_draws):
        return "whether a mode is missed"
    from vicheck.checking.moments import moments_table

    kept = len(values)
    if kept != len(log_ratios):
        smoothed = judged_psis(log_ratios[:kept])
    if not kept or np.isnan(smoothed.log_weights).any():
        return ""
    table = moments_table(
        values, log_ratios[:kept], smoothed, tuple(map(str, range(values.shape[1])))
    )
    unsettled = sum(
        not estimate_is_settled(khat, kept, *difference)
        for khat, difference in zip(
            table["khat"], differences(values, smoothed.log_weights), strict=True
        )
    )
    return (
        f"which estimate to use of {unsettled} of {values.shape[1]} quantities" if unsettled else ""
    )


def _there(drawn: T | None) -> T:
    assert drawn is not None  # nobody said not to go on
    return drawn


def _spoken(seconds: float) -> str:
    """Say how long something takes, in seconds, minutes or hours."""
    for size, unit in ((7200.0, "hours"), (300.0, "minutes")):
        if seconds >= size:
            return f"{seconds / (3600.0 if unit == 'hours' else 60.0):.0f} {unit}"
    return f"{seconds:g} s"
