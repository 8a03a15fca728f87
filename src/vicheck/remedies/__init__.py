"""What to do about an approximation: one object for each remedy, and the order to try them in."""

from vicheck.remedies.ladder import AFTER_CALIBRATION, AFTER_CHECK, applicable
from vicheck.remedies.remedy import Remedy
from vicheck.remedies.situations import CalibrationSituation, CheckSituation

__all__ = [
    "AFTER_CALIBRATION",
    "AFTER_CHECK",
    "CalibrationSituation",
    "CheckSituation",
    "Remedy",
    "applicable",
]
