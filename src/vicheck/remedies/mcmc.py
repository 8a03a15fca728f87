"""Sample: when no approximation will do, or when there is more than one mode."""

from __future__ import annotations

from vicheck.remedies.remedy import NUTS, Remedy
from vicheck.remedies.situations import CalibrationSituation, CheckSituation

__all__ = ["CoverModes", "Mcmc", "McmcAfterCalibration"]

_ADVICE = "use MCMC"


class CoverModes(Remedy[CheckSituation]):
    """Sample all modes."""

    name = "cover-modes"
    title = "Cover all modes"
    when = "another mode holds part of the posterior, or may do so"
    example = NUTS
    effect = "Visits the modes in which q has no draws, if the chains find them."

    def applies(self, situation: CheckSituation) -> bool:
        return situation.level == "unreliable" and situation.misses_a_mode

    def advice(self, situation: CheckSituation) -> str:
        return "use MCMC, or average over the optima"

    def line(self, situation: CheckSituation) -> str:
        return NUTS


class Mcmc(Remedy[CheckSituation]):
    """Sample the posterior itself."""

    name = "mcmc"
    title = "MCMC"
    when = "nothing else helps"
    example = NUTS
    effect = "Draws from the posterior itself, at a higher cost."

    def applies(self, situation: CheckSituation) -> bool:
        return situation.family_too_poor

    def advice(self, situation: CheckSituation) -> str:
        return _ADVICE

    def line(self, situation: CheckSituation) -> str:
        return NUTS if situation.made_here else ""


class McmcAfterCalibration(Remedy[CalibrationSituation]):
    """Sample the posterior of the user's own data."""

    name = Mcmc.name
    title = Mcmc.title
    when = "the verdict is unreliable"
    example = NUTS
    effect = Mcmc.effect

    def applies(self, situation: CalibrationSituation) -> bool:
        return situation.level == "unreliable"

    def advice(self, situation: CalibrationSituation) -> str:
        return _ADVICE

    def line(self, situation: CalibrationSituation) -> str:
        return NUTS if situation.family else ""
