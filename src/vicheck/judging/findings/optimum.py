"""Findings on where a fit has ended: whether at its optimum."""

from __future__ import annotations

from dataclasses import dataclass

from vicheck.judging.findings.evidence import Evidence
from vicheck.judging.wording import sentence_case
from vicheck.remedies.converge import (
    FIND_BAD_GRADIENT,
    ITERATE_LONGER,
    advice_after,
    keep_optimising,
)
from vicheck.results.status import FitStatus

__all__ = [
    "Converged",
    "ConvergenceUnknown",
    "GradientNotZero",
    "GradientUndefined",
    "IteratesUnsettled",
    "NoApproximation",
    "NotConverged",
    "StanCriterion",
    "StillRising",
]


@dataclass(frozen=True)
class _Status(Evidence):
    """How the solver says that it ended."""

    status: FitStatus
    solver: str
    gradient_norm: float

    @property
    def sentence(self) -> str:
        return sentence_case(self.status.value)

    @property
    def hint(self) -> str:
        return sentence_case(advice_after(self.status, self.solver))


@dataclass(frozen=True)
class NotConverged(_Status):
    """The solver has not converged, or not accurately."""

    code = "not-converged"
    severity = "caution"


@dataclass(frozen=True)
class NoApproximation(_Status):
    """The solver has ended at no optimum: its result approximates nothing."""

    code = "no-approximation"
    severity = "bad"


@dataclass(frozen=True)
class ConvergenceUnknown(_Status):
    """How the fit ended is not known, and its gradient could not be tested."""

    code = "convergence-unknown"
    severity = "caution"


@dataclass(frozen=True)
class StillRising(Evidence):
    """The ELBO was still rising when the run ended."""

    rise: float
    steps: int
    solver: str

    code = "still-rising"
    severity = "caution"

    @property
    def sentence(self) -> str:
        return (
            f"The ELBO was still rising at the end of the run, by {self.rise:.2g} nats over its "
            f"last {self.steps} steps."
        )

    @property
    def hint(self) -> str:
        return sentence_case(f"it has not converged: {keep_optimising(self.solver)}")


@dataclass(frozen=True)
class _Gradient(Evidence):
    """The expected gradient at q, on fresh draws."""

    gradient: float
    """Largest entry, in sds of q."""
    p_value: float


@dataclass(frozen=True)
class GradientUndefined(_Gradient):
    """The gradient is not finite."""

    code = "gradient-undefined"
    severity = "caution"
    sentence = "Convergence cannot be tested: the gradient is not finite."
    hint = sentence_case(FIND_BAD_GRADIENT)


@dataclass(frozen=True)
class GradientNotZero(_Gradient):
    """The fit is not at its optimum."""

    worst: str
    """The parameter with the largest entry."""
    solver: str

    code = "gradient-not-zero"
    severity = "caution"

    @property
    def sentence(self) -> str:
        return (
            f"The fit is not at its optimum: the gradient on fresh draws is {self.gradient:.2g} "
            f"sd, largest for {self.worst} (p = {self.p_value:.1g})."
        )

    @property
    def hint(self) -> str:
        return sentence_case(f"keep optimising: {keep_optimising(self.solver)}")


@dataclass(frozen=True)
class Converged(_Gradient):
    """Nothing speaks against convergence."""

    tolerance: float

    code = "converged"
    severity = "ok"
    hint = "Nothing needs to be done about the optimiser."

    @property
    def sentence(self) -> str:
        if self.gradient <= self.tolerance:
            return (
                f"The fit has converged: the gradient on fresh draws is {self.gradient:.2g} sd, "
                f"not above {self.tolerance:g}."
            )
        return (
            f"The fit has converged: the gradient on fresh draws, {self.gradient:.2g} sd, "
            "is no larger than its noise."
        )


@dataclass(frozen=True)
class IteratesUnsettled(Evidence):
    """The iterates of a stochastic run still move."""

    rhat: float
    mcse: float
    """Error of their average, in sds."""

    code = "iterates-unsettled"
    severity = "caution"
    hint = sentence_case(ITERATE_LONGER)

    @property
    def sentence(self) -> str:
        return (
            f"The iterates have not settled: R-hat {self.rhat:.2f}, error of their average "
            f"{self.mcse:.2g} sd."
        )


@dataclass(frozen=True)
class StanCriterion(Evidence):
    """The criterion by which Stan stops, for comparison."""

    mean: float
    median: float

    code = "stan-criterion"
    severity = "ok"
    hint = "It says that progress is slow, not that the optimum is near."

    @property
    def sentence(self) -> str:
        return (
            f"Stan's criterion, the relative change of the ELBO: mean {self.mean:.2g}, median "
            f"{self.median:.2g}."
        )
