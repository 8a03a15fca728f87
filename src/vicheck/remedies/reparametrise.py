"""Write the same model so that its posterior is closer to what the family can do."""

from __future__ import annotations

from vicheck.remedies.remedy import Remedy
from vicheck.remedies.situations import CalibrationSituation, CheckSituation

__all__ = ["Reparametrise", "ReparametriseAndCalibrate"]

_ADVICE = "reparametrise the model (non-centred instead of centred)"


class Reparametrise(Remedy[CheckSituation]):
    """Centre covariates, non-centre hierarchies, give parameters unit scale."""

    name = "reparametrise"
    title = "Reparametrise"
    when = "the fit has converged and khat is too high"
    effect = "Changes the shape of the posterior, not the model: less correlation, no funnel."

    def applies(self, situation: CheckSituation) -> bool:
        return situation.family_too_poor

    def advice(self, situation: CheckSituation) -> str:
        return _ADVICE


class ReparametriseAndCalibrate(Remedy[CalibrationSituation]):
    """The same after a calibration."""

    name = Reparametrise.name
    title = Reparametrise.title
    when = "the verdict is unreliable"
    effect = Reparametrise.effect

    def applies(self, situation: CalibrationSituation) -> bool:
        return situation.level == "unreliable"

    def advice(self, situation: CalibrationSituation) -> str:
        return _ADVICE
