"""Which of two candidates is better, which is good enough, and the row of the trail for it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np

from vicheck.rescuing.believed import endless_sds
from vicheck.results.check import Check
from vicheck.results.psis import PsisResult, PsisStatus
from vicheck.results.rescue import Attempt
from vicheck.runtime.tally import Tally

__all__ = [
    "CLOSE",
    "Meter",
    "can_be_used",
    "is_enough",
    "is_promising",
    "khat_of",
    "largest_drift",
    "num_draws_of",
    "rank",
]

CLOSE = 0.5
"""khat below which weighted estimates have a finite variance (the paper, section 2)."""
_USABLE = ("good", "usable")


def is_enough(checked: Check) -> bool:
    """Whether there is nothing left to gain."""
    return can_be_used(checked) and bool(checked.khat < CLOSE or np.isnan(checked.khat))


def can_be_used(checked: Check) -> bool:
    """Whether all estimates may be used; that chains agree is only known where they were run.

    None of them may have so heavy a tail that it has no sd.
    """
    if checked.verdict.level not in _USABLE:
        return False
    return bool((checked.moments["use"] != "neither").all()) and not endless_sds(checked)


def is_promising(seen: PsisResult) -> bool:
    """Whether a few draws allow for the hope that khat is below 0.5."""
    return seen.status is PsisStatus.CONSTANT or khat_of(seen) < CLOSE


def khat_of(seen: PsisResult | Check) -> float:
    """Return khat, infinite where it is undefined."""
    khat = float(seen.khat)
    return np.inf if np.isnan(khat) else khat


def num_draws_of(seen: PsisResult | Check | None) -> int:
    """Return how many draws khat is that of; none where there is no khat."""
    if seen is None:
        return 0
    return seen.psis.num_draws if isinstance(seen, Check) else seen.num_draws


def rank(checked: Check) -> tuple[float, ...]:
    """Return what candidates are compared by: what can be used first, and then khat.

    Of those that cannot be used, one that chains have looked at stands before others: it has had
    its judgement, and is not judged again in the hope of luckier draws.
    """
    level = checked.verdict.level
    recommended = float((checked.moments["use"] != "neither").mean())
    khat = khat_of(checked)
    if level == "good":
        khat = min(khat, CLOSE)
    in_full = checked.chains is not None
    usable = float(in_full and can_be_used(checked))
    known = float(level in _USABLE), float(in_full), round(recommended, 2)
    return usable, *known, -round(khat, 2)


def largest_drift(checked: Check) -> tuple[str, float] | None:
    """Return which quantity short chains have moved most, and by how many sds."""
    chains = checked.chains
    if chains is None or np.isnan(chains.drift).all():
        return None
    worst = int(np.nanargmax(np.abs(chains.drift)))
    return chains.names[worst], float(chains.drift[worst])


@dataclass
class Meter:
    """What a remedy costs from when it was begun."""

    remedy: str
    khat_before: float
    used: Tally
    begun: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self._before = replace(self.used)

    def row(self, after: Check | PsisResult | None, *, kept: bool, why: str) -> Attempt:
        """Return the row of the trail."""
        drift, level = None, ""
        effective = np.nan
        if isinstance(after, Check):
            drift, level = largest_drift(after), after.verdict.level
            effective = float(after.psis.ess) / after.psis.num_draws
        return Attempt(
            remedy=self.remedy,
            khat_before=self.khat_before,
            khat_after=np.nan if after is None else float(after.khat),
            draws=num_draws_of(after),
            level=level,
            effective=effective,
            drift=np.nan if drift is None else drift[1],
            evaluations=self.used.evaluations - self._before.evaluations,
            gradients=self.used.gradients - self._before.gradients,
            seconds=time.perf_counter() - self.begun,
            kept=kept,
            why=why,
        )
