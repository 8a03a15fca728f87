"""What to do next, as a line of Python: the names are those that the documentation uses."""

from __future__ import annotations

import math

from vicheck.records import Convergence, PsisResult, PsisStatus
from vicheck.stats.reliability import USABLE_BELOW
from vicheck.verdict.wording import Level

__all__ = ["line_after_calibration", "line_after_check"]

_MOST_DRAWS = 10_000_000
_DETERMINISTIC = 'check = vicheck.check(vicheck.fit(model, solver="deterministic"))'
_MORE_DRAWS = "check = vicheck.check(vicheck.fit(model, num_draws=1024, sampling_tolerance=0.01))"
_FULL_RANK = 'check = vicheck.check(vicheck.fit(model, family="full_rank"))'
_NUTS = "reference = vicheck.reference(model)  # NUTS"


def line_after_check(
    level: Level,
    result: PsisResult,
    convergence: Convergence | None,
    *,
    settled: bool,
    missed_mode: bool,
) -> str:
    """Return the line that comes next after a check.

    Parameters
    ----------
    level
        Of the verdict.
    result
        The PSIS of the draws.
    convergence
        What is known of the solver, for a fit of vicheck's own.
    settled
        Whether nothing is wrong with its convergence.
    missed_mode
        Whether another mode holds part of the posterior.
    """
    if level == "none":
        return _line_without_khat(result)
    if level == "good":
        return 'check.moments[["vi_mean", "psis_mean", "mcse", "use"]]'
    if level == "usable":
        return "posterior = check.resample(4000)  # draws of equal weight, by smoothed weights"
    return _NUTS if missed_mode else _line_when_unreliable(result, convergence, settled)


def _line_when_unreliable(
    result: PsisResult, convergence: Convergence | None, settled: bool
) -> str:
    if convergence is not None and not settled:
        return _MORE_DRAWS if convergence.solver == "deterministic" else _DETERMINISTIC
    if result.khat < USABLE_BELOW and math.isfinite(result.min_draws):
        more = min(_MOST_DRAWS, max(100_000, 4 * result.num_draws))
        return f"check = vicheck.check(fit, num_draws={more:_})"
    if convergence is not None and convergence.family == "full_rank":
        return _NUTS
    return _FULL_RANK


def line_after_calibration(level: Level, family: str, unconverged: int) -> str:
    """Return the line that comes next after a calibration."""
    if level == "none":
        return (
            "calibration.failures"
            if unconverged
            else "calibration = vicheck.vsbc(model, num_datasets=1000)"
        )
    if level == "unreliable" and family in ("mean_field", "low_rank"):
        return 'calibration = vicheck.vsbc(model, family="full_rank")'
    return "check = vicheck.check(vicheck.fit(model, data))"


def _line_without_khat(result: PsisResult) -> str:
    if result.status is PsisStatus.NOT_FINITE:
        return "numpy.flatnonzero(~numpy.isfinite(check.log_ratios))  # the draws in question"
    if result.status is PsisStatus.TOO_FEW_DRAWS:
        return "check = vicheck.check(fit, num_draws=100_000)"
    return "numpy.unique(check.log_ratios, return_counts=True)"
