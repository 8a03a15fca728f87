"""What remedies look at: the situation after a check, and after a calibration."""

from __future__ import annotations

from dataclasses import dataclass

from vicheck.results.convergence import Convergence
from vicheck.results.psis import PsisResult
from vicheck.results.status import FitStatus
from vicheck.results.verdict import Level
from vicheck.stats.reliability import USABLE_BELOW

__all__ = ["MISSED", "UNSETTLED", "CalibrationSituation", "CheckSituation"]

UNSETTLED = frozenset(
    {
        "convergence-unknown",
        "gradient-not-zero",
        "gradient-undefined",
        "iterates-unsettled",
        "no-approximation",
        "not-converged",
        "still-rising",
    }
)
"""Findings after which the optimiser has to be fixed before the family is blamed."""

_TESTED = frozenset({"converged", "gradient-not-zero", "still-rising"})
"""Findings on the optimiser that rest on a test, and not on what a solver says of itself."""

MISSED = frozenset({"mode-missed", "modes-uncertain", "mode-beyond-reach"})
"""Findings that another mode holds part of the posterior, or may do so."""
_MODEL_AT_FAULT = (FitStatus.AT_INFINITY, FitStatus.NOT_FINITE)


@dataclass(frozen=True)
class CheckSituation:
    """What a check of one approximation has come to."""

    level: Level
    findings: frozenset[str]
    """Codes of all findings."""
    psis: PsisResult
    convergence: Convergence | None
    """What is known of the solver; nothing of draws that were made elsewhere."""

    @property
    def made_here(self) -> bool:
        """Whether this is a fit of vicheck's own, so that it can be repeated with other options."""
        return self.convergence is not None and self.convergence.status is not FitStatus.UNKNOWN

    @property
    def is_tested(self) -> bool:
        """Whether anything is known of the optimiser, whoever has run it."""
        known = self.convergence
        return known is not None and (self.made_here or bool(self.findings & _TESTED))

    @property
    def unsettled(self) -> bool:
        """Whether something is wrong with the convergence of the fit."""
        return self.is_tested and bool(self.findings & UNSETTLED)

    @property
    def family_too_poor(self) -> bool:
        """Whether the approximation has failed as far as it is known, and not its optimiser."""
        return self.level == "unreliable" and not self.unsettled and not self.misses_a_mode

    @property
    def misses_a_mode(self) -> bool:
        """Whether another mode holds part of the posterior, or may do so."""
        return bool(self.findings & MISSED)

    @property
    def model_at_fault(self) -> bool:
        """Whether the optimiser has found that the model has no posterior to approximate."""
        known = self.convergence
        return self.unsettled and known is not None and known.status in _MODEL_AT_FAULT

    @property
    def khat_is_hopeless(self) -> bool:
        """Whether khat is so high that more draws will not help."""
        return bool(self.psis.khat >= USABLE_BELOW)


@dataclass(frozen=True)
class CalibrationSituation:
    """What a calibration has come to."""

    level: Level
    findings: frozenset[str]
    """Codes of all findings."""
    family: str = "mean_field"
    """What was fitted; empty for fits by a function of the user's."""
    richer: str = "full_rank"
    """The family to try next; empty where there is none."""
    posterior: bool = False
    """Whether true parameters were drawn from a fitted q and not from the prior."""

    @property
    def has_richer(self) -> bool:
        """Whether there is a richer family of vicheck's own to try."""
        return bool(self.family) and self.richer not in ("", self.family)
