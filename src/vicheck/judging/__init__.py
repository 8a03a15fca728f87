"""The only home of cut-offs and sentences: what the numbers mean and what to do."""

from vicheck.judging.calibration import judge_calibration
from vicheck.judging.cutoffs import NO_APPROXIMATION
from vicheck.judging.estimates import (
    ORDER,
    Witnesses,
    choose_mean,
    choose_sd,
    evidence_of_estimates,
    weaker,
)
from vicheck.judging.fits import has_converged, judge_check, spoilt_by_modes
from vicheck.judging.psis import judge_psis
from vicheck.judging.quantiles import choose_quantile
from vicheck.judging.wording import show

__all__ = [
    "NO_APPROXIMATION",
    "ORDER",
    "Witnesses",
    "choose_mean",
    "choose_quantile",
    "choose_sd",
    "evidence_of_estimates",
    "has_converged",
    "judge_calibration",
    "judge_check",
    "judge_psis",
    "show",
    "spoilt_by_modes",
    "weaker",
]
