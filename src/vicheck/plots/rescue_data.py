"""What the figure of a rescue shows, as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.results.rescue import Attempt, Rescue
from vicheck.stats.reliability import GOOD_BELOW, USABLE_BELOW

__all__ = ["Trail", "rescue_trail_data"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trail:
    """khat before and after each remedy that was tried, in order, and what it cost."""

    remedies: tuple[str, ...]
    """Names; "before" is what the rescue began with, "closer look" what was judged by more draws
    without a further remedy."""
    before: Floats
    after: Floats
    """`nan` where nothing was made that could be judged by khat."""
    kept: NDArray[np.bool_]
    outcomes: tuple[str, ...]
    """In a word or two: "kept", "not kept", "not tried", "failed", "sampled", "not mixed"."""
    evaluations: NDArray[np.int64]
    seconds: Floats
    cutoffs: tuple[float, float] = (GOOD_BELOW, USABLE_BELOW)
    """The paper's: good below the first, not reliable above the second."""


def rescue_trail_data(rescue: Rescue) -> Trail:
    """Return what was tried, in order: khat before and after, kept or not, and the cost."""
    _require_rescue(rescue)
    attempts = rescue.attempts
    return Trail(
        remedies=tuple(_name(attempt, row) for row, attempt in enumerate(attempts)),
        before=np.array([attempt.khat_before for attempt in attempts], np.float64),
        after=np.array([attempt.khat_after for attempt in attempts], np.float64),
        kept=np.array([attempt.kept for attempt in attempts], bool),
        outcomes=tuple(_outcome(attempt, row, rescue) for row, attempt in enumerate(attempts)),
        evaluations=np.array([attempt.evaluations for attempt in attempts], np.int64),
        seconds=np.array([attempt.seconds for attempt in attempts], np.float64),
    )


def _name(attempt: Attempt, row: int) -> str:
    if attempt.remedy != "none":
        return attempt.remedy
    return "closer look" if row else "before"


def _outcome(attempt: Attempt, row: int, rescue: Rescue) -> str:
    if row == 0:
        return "began here"
    if attempt.remedy == "mcmc" and rescue.reference is not None:  # no q, and so no khat
        return "not mixed" if rescue.reference.caution else "sampled"
    if np.isnan(attempt.khat_after):
        return "failed" if attempt.why.startswith("failed") else "not tried"
    return "kept" if attempt.kept else "not kept"


def _require_rescue(value: Any) -> None:
    if not isinstance(value, Rescue):
        raise TypeError(f"rescue must come from vicheck.rescue, got {type(value).__name__}")
