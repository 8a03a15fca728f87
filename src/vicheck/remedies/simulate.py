"""What a calibration without a verdict needs: fits that converge, and enough datasets."""

from __future__ import annotations

from vicheck.remedies.options import written_options
from vicheck.remedies.remedy import Remedy
from vicheck.remedies.situations import CalibrationSituation

__all__ = ["ListFailures", "MoreDatasets"]


class ListFailures(Remedy[CalibrationSituation]):
    """Look at the fits that went wrong."""

    name = "list-failures"
    title = "List the failures"
    when = "there is no verdict, and fits have not converged"
    example = "calibration.failures"
    effect = "Lists the fits that did not converge, with the seeds that replay them."

    def applies(self, situation: CalibrationSituation) -> bool:
        return situation.level == "none" and "fits-unconverged" in situation.findings

    def advice(self, situation: CalibrationSituation) -> str:
        return "look at `.failures`, which lists the fits with the seeds that replay them"

    def line(self, situation: CalibrationSituation) -> str:
        return self.example


class MoreDatasets(Remedy[CalibrationSituation]):
    """Simulate more datasets."""

    name = "more-datasets"
    title = "Simulate more datasets"
    when = "there are too few datasets for a verdict"
    example = "calibration = vicheck.vsbc(model, num_datasets=1000)"
    effect = "Gives the tests of symmetry the power to show a bias, if there is one."

    def applies(self, situation: CalibrationSituation) -> bool:
        return "too-few-datasets" in situation.findings

    def advice(self, situation: CalibrationSituation) -> str:
        return "simulate more datasets, num_datasets=1000 for instance"

    def line(self, situation: CalibrationSituation) -> str:
        if not situation.family:
            return ""
        also = ", posterior=True" if situation.posterior else ""
        options = written_options(family=situation.family, num_datasets=1000)
        return f"calibration = vicheck.vsbc(model{options}{also})"
