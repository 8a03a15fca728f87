"""The only home of cut-offs and sentences: what the numbers mean and what to do."""

from vicheck.verdict.calibration import judge_calibration
from vicheck.verdict.fits import choose_estimate, judge_check, misses_a_mode
from vicheck.verdict.psis import judge_psis
from vicheck.verdict.statuses import NO_APPROXIMATION
from vicheck.verdict.wording import show, verdict_lines

__all__ = [
    "NO_APPROXIMATION",
    "choose_estimate",
    "judge_calibration",
    "judge_check",
    "judge_psis",
    "misses_a_mode",
    "show",
    "verdict_lines",
]
