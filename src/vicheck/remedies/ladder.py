"""The order in which remedies are tried: what is cheap, and has to come first, comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from vicheck.remedies.converge import Converge, MendModel
from vicheck.remedies.draw_more import CountTies, DrawMore, FindInvalidRatios
from vicheck.remedies.mcmc import CoverModes, Mcmc, McmcAfterCalibration
from vicheck.remedies.remedy import Remedy
from vicheck.remedies.reparametrise import Reparametrise, ReparametriseAndCalibrate
from vicheck.remedies.rescue import LetRescue
from vicheck.remedies.richer_family import RicherFamily, RicherFamilyForAll
from vicheck.remedies.simulate import ListFailures, MoreDatasets
from vicheck.remedies.situations import CalibrationSituation, CheckSituation
from vicheck.remedies.use_it import CheckOwnData, UseEstimates, UseWeights

__all__ = ["AFTER_CALIBRATION", "AFTER_CHECK", "applicable"]

Situation = TypeVar("Situation")

AFTER_CHECK: tuple[Remedy[CheckSituation], ...] = (
    FindInvalidRatios(),
    CountTies(),
    CoverModes(),
    MendModel(),
    Converge(),
    DrawMore(),
    Reparametrise(),
    RicherFamily(),
    LetRescue(),
    Mcmc(),
    UseWeights(),
    UseEstimates(),
)
"""What can be done after a check."""

AFTER_CALIBRATION: tuple[Remedy[CalibrationSituation], ...] = (
    ListFailures(),
    MoreDatasets(),
    ReparametriseAndCalibrate(),
    RicherFamilyForAll(),
    CheckOwnData(),
    McmcAfterCalibration(),
)
"""What can be done after a calibration."""


def applicable(
    ladder: Sequence[Remedy[Situation]], situation: Situation
) -> tuple[Remedy[Situation], ...]:
    """Return the remedies that apply, in their order."""
    return tuple(remedy for remedy in ladder if remedy.applies(situation))
