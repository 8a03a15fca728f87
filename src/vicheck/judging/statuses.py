"""What the ways a fit can end mean, and what to do about each."""

from __future__ import annotations

from vicheck.results.status import FitStatus

__all__ = ["NO_APPROXIMATION", "keep_optimising", "status_hint"]

_HINTS = {
    FitStatus.SAMPLING_ERROR: "allow more draws: max_draws",
    FitStatus.STALLED: "look for kinks or jumps in the log density, or use solver='stochastic'",
    FitStatus.AT_INFINITY: (
        "the posterior may be improper: give flat priors a scale, and look for separation in "
        "logistic regressions"
    ),
    FitStatus.NOT_FINITE: "find where the log density is NaN or infinite, and why",
    FitStatus.NO_STEP_SIZE: "rescale the parameters, or use solver='deterministic'",
    FitStatus.INTERRUPTED: "fit again without an interruption",
    FitStatus.FAILED: "read the message, and fit that dataset again with its seed",
    FitStatus.TIMED_OUT: "allow more time (time_limit), or look for what makes the fit slow",
}

NO_APPROXIMATION = (
    FitStatus.AT_INFINITY,
    FitStatus.NOT_FINITE,
    FitStatus.NO_STEP_SIZE,
    FitStatus.FAILED,
    FitStatus.TIMED_OUT,
)
"""Statuses of fits that are no approximation of anything, whatever khat says."""


def status_hint(status: FitStatus, solver: str) -> str:
    """Say what to do about a fit that has not converged."""
    if status is FitStatus.MAX_ITERATIONS:
        return keep_optimising(solver)
    return _HINTS[status]


def keep_optimising(solver: str) -> str:
    """Say how to get nearer to the optimum with a solver."""
    if solver == "deterministic":
        return (
            "ask for more draws (num_draws, a smaller sampling_tolerance), or reparametrise the "
            "model"
        )
    return (
        "iterate longer, take a smaller step, more draws a step or a larger minibatch, or use "
        "solver='deterministic'"
    )
