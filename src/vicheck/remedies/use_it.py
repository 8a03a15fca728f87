"""Nothing needs fixing: use the estimates, plain or weighted."""

from __future__ import annotations

from vicheck.remedies.options import check_of_fit
from vicheck.remedies.remedy import Remedy
from vicheck.remedies.situations import CalibrationSituation, CheckSituation

__all__ = ["CheckOwnData", "UseEstimates", "UseWeights"]


class UseEstimates(Remedy[CheckSituation]):
    """Read the table of estimates."""

    name = "use-estimates"
    title = "Use the estimates"
    when = "the verdict is good"
    example = 'check.moments[["vi_mean", "psis_mean", "mcse", "use_mean", "use_sd"]]'
    effect = "Shows plain and weighted means, and which to use."

    def applies(self, situation: CheckSituation) -> bool:
        return situation.level == "good"

    def advice(self, situation: CheckSituation) -> str:
        return "use the smoothed weights to remove the remaining error"

    def line(self, situation: CheckSituation) -> str:
        return self.example


class UseWeights(Remedy[CheckSituation]):
    """Resample by the smoothed weights."""

    name = "use-weights"
    title = "Use the weights"
    when = "the verdict is usable"
    example = "posterior = check.resample(4000)  # draws of equal weight, by smoothed weights"
    effect = "Replaces the draws of q by draws that the weights have corrected."

    def applies(self, situation: CheckSituation) -> bool:
        return situation.level == "usable"

    def advice(self, situation: CheckSituation) -> str:
        return "report estimates with the smoothed weights and their errors, not plain ones"

    def line(self, situation: CheckSituation) -> str:
        return self.example


class CheckOwnData(Remedy[CalibrationSituation]):
    """Check the fit to the data at hand, which a calibration says nothing about."""

    name = "check-own-data"
    title = "Check the fit to your own data"
    when = "always, because a calibration is an average"
    example = "check = vicheck.check(vicheck.fit(model))"
    effect = "Judges the fit to your own data, and corrects it if khat is low enough."

    def applies(self, situation: CalibrationSituation) -> bool:
        return situation.level != "none"

    def advice(self, situation: CalibrationSituation) -> str:
        return "correct the fit to your own data by PSIS (vicheck.check)"

    def line(self, situation: CalibrationSituation) -> str:
        if not situation.family or situation.level == "unreliable":  # mend the fit first
            return ""
        return check_of_fit(situation.family)
