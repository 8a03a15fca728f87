"""What to do next, as a line of Python: the names are those that the documentation uses.

There is none where none could be right for everyone: of a fit made elsewhere we know neither the
model nor how to draw from it.
"""

from __future__ import annotations

from vicheck.judging.wording import Level
from vicheck.results.convergence import Convergence
from vicheck.results.psis import PsisResult, PsisStatus
from vicheck.results.status import FitStatus
from vicheck.stats.reliability import USABLE_BELOW

__all__ = ["line_after_calibration", "line_after_check"]

_MOST_DRAWS = 10_000_000
_NUTS = "reference = vicheck.reference(model)  # NUTS"
_COMPARE = (
    "model = vicheck.from_numpyro(function, **arguments)  # or from_pymc, from_stan\n"
    'vicheck.compare([model], families=("mean_field", "full_rank"))'
)
_AFTER_STATUS: dict[FitStatus, dict[str, object]] = {
    FitStatus.SAMPLING_ERROR: {"max_draws": 65_536},
    FitStatus.STALLED: {"solver": "stochastic"},
}
"""Options that help a fit of the deterministic solver which ended so."""


def line_after_check(
    level: Level,
    result: PsisResult,
    convergence: Convergence | None,
    *,
    settled: bool,
    missed_mode: bool,
) -> str:
    """Return the line that comes next after a check, or nothing.

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
        return _line_without_khat(result, convergence)
    if level == "good":
        return 'check.moments[["vi_mean", "psis_mean", "mcse", "use"]]'
    if level == "usable":
        return "posterior = check.resample(4000)  # draws of equal weight, by smoothed weights"
    if missed_mode:
        return _NUTS
    if convergence is None:
        return _COMPARE if result.khat >= USABLE_BELOW else ""
    return _line_for_fit(result, convergence, settled)


def line_after_calibration(
    level: Level, family: str, *, posterior: bool, unconverged: int, richer: str = "full_rank"
) -> str:
    """Return the line that comes next after a calibration, or nothing.

    ``family`` is empty for fits by a function of the user's, and ``richer`` where no family is.
    """
    if level == "none":
        more = "calibration = vicheck.vsbc(model, num_datasets=1000)" if family else ""
        return "calibration.failures" if unconverged else more
    if not family:
        return ""
    if level == "unreliable" and richer not in ("", family):
        also = ", posterior=True" if posterior else ""
        return f'calibration = vicheck.vsbc(model, family="{richer}"{also})'
    if level == "unreliable":
        return _NUTS
    return f"check = vicheck.check(vicheck.fit(model, data{_option(family=family)}))"


def _line_for_fit(result: PsisResult, convergence: Convergence, settled: bool) -> str:
    family = convergence.family
    if not settled:
        if convergence.status in (FitStatus.AT_INFINITY, FitStatus.NOT_FINITE):
            return ""  # it is the model that has to be looked at
        if convergence.solver != "deterministic":
            return _fit(family, solver="deterministic")
        unsettled: dict[str, object] = {"num_draws": 1024, "sampling_tolerance": 0.01}
        return _fit(family, **_AFTER_STATUS.get(convergence.status, unsettled))
    if result.khat < USABLE_BELOW and result.num_draws < _MOST_DRAWS:
        more = min(_MOST_DRAWS, max(100_000, 4 * result.num_draws))
        return f"check = vicheck.check(fit, num_draws={more:_})"
    richer = convergence.richer
    return _NUTS if richer in ("", family) else _fit(richer)


def _fit(family: str, **options: object) -> str:
    return f"check = vicheck.check(vicheck.fit(model{_option(family=family, **options)}))"


def _option(**options: object) -> str:
    """Write options as they would be typed, without the default family."""
    return "".join(
        f', {name}="{value}"' if isinstance(value, str) else f", {name}={value}"
        for name, value in options.items()
        if value not in ("", "mean_field")
    )


def _line_without_khat(result: PsisResult, convergence: Convergence | None) -> str:
    if result.status is PsisStatus.NOT_FINITE:
        return "np.flatnonzero(np.isnan(check.log_ratios) | (check.log_ratios == np.inf))"
    if result.status is PsisStatus.TOO_FEW_DRAWS:
        return "check = vicheck.check(fit, num_draws=100_000)" if convergence is not None else ""
    return "np.unique(check.log_ratios, return_counts=True)"
