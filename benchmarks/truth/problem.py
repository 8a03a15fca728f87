"""`Problem` and `Truth`: a posterior, and what is known about it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from vicheck.model import Model

__all__ = [
    "FAR",
    "LIMIT",
    "MULTIMODAL",
    "NO_VARIANCE",
    "SEEDS",
    "Given",
    "Moments",
    "Problem",
    "Truth",
]

Floats = Any

MULTIMODAL = "multimodal"
FAR = "far mode"
"""Another mode so far away that no draw of a q at the first can see it."""
NO_VARIANCE = "no variance"
LIMIT = "known limit"
"""Listed on the page, and in none of its shares."""

SEEDS = {"deterministic": 3, "stan_advi": 2}


class Moments(NamedTuple):
    """Mean and sd of one quantity."""

    mean: float
    sd: float
    """Infinite where the posterior has no variance: no sd may be recommended then."""
    scale: float = math.nan
    """What errors of the mean are measured in; the sd unless that is infinite."""

    @property
    def unit(self) -> float:
        return self.scale if math.isnan(self.sd) or math.isinf(self.sd) else self.sd


@dataclass(frozen=True)
class Truth:
    """What is known about a posterior."""

    moments: Mapping[str, Moments]
    """By quantity, named as ArviZ prints it."""
    found_by: str
    """Closed form, quadrature, importance sampling or reference draws."""
    log_evidence: float | None = None
    num_draws: float = math.inf
    """Independent draws that would know the moments as well; infinite where they are exact."""


class Given(NamedTuple):
    """Draws from some q with both log densities, where nothing is fitted."""

    draws: Floats
    log_p: Floats
    log_q: Floats


@dataclass(frozen=True)
class Problem:
    """One posterior: how to make it, what is true of it, and how it is fitted."""

    name: str
    kind: str
    truth: Callable[[], Truth]
    make: Callable[[], Model] | None = None
    """The model; none where draws are given."""
    draw: Callable[[np.random.Generator], Given] | None = None
    tags: frozenset[str] = frozenset()
    quantities: Mapping[str, Callable[..., Any]] | tuple[str, ...] | None = None
    """What is reported; by default every parameter."""
    num_draws: int | None = None
    """Draws of the check; vicheck's default unless given."""
    families: tuple[str, ...] = ("mean_field", "full_rank")
    seeds: Mapping[str, int] = field(default_factory=lambda: SEEDS)
    """Number of seeds for each solver."""
    without: frozenset[tuple[str, str]] = frozenset()
    """Families with solvers that would take too long."""

    @property
    def half(self) -> str:
        """Which half of the scoreboard it belongs to: rules are tuned on one, and held to both."""
        return "tuning" if zlib.crc32(self.name.encode()) % 2 else "held out"
