"""`FitStatus`: how a fit ended."""

from __future__ import annotations

from enum import Enum

__all__ = ["FitStatus"]


class FitStatus(Enum):
    """How a fit ended."""

    CONVERGED = "the fit has converged"
    SAMPLING_ERROR = "the fit has converged, but on too few draws to be accurate"
    MAX_ITERATIONS = "the fit has not converged within its iterations"
    STALLED = "no step improves the fit any more, although its gradient is not zero"
    AT_INFINITY = "the fit runs away: the best approximation lies at infinity"
    NOT_FINITE = "the log density is not finite where the fit would have to go"
    NO_STEP_SIZE = "no step size that was tried improves on the start"
    INTERRUPTED = "the fit was interrupted"
    FAILED = "the fit raised an error"
    TIMED_OUT = "the fit took longer than its limit"
    UNKNOWN = "it is not known whether the fit has converged"

    def __repr__(self) -> str:
        return f"FitStatus.{self.name}"
