"""Optimise further, or mend the model where it has no optimum."""

from __future__ import annotations

from vicheck.remedies.options import check_of_fit
from vicheck.remedies.remedy import Remedy
from vicheck.remedies.situations import CheckSituation
from vicheck.results.status import FitStatus

__all__ = [
    "FIND_BAD_GRADIENT",
    "ITERATE_LONGER",
    "Converge",
    "MendModel",
    "advice_after",
    "keep_optimising",
]

_ADVICE = {
    FitStatus.SAMPLING_ERROR: "allow more draws: max_draws",
    FitStatus.STALLED: "look for kinks or jumps in the log density, or use solver='stochastic'",
    FitStatus.AT_INFINITY: (
        "give flat priors a scale, and look for separation in logistic regressions: the posterior "
        "may be improper"
    ),
    FitStatus.NOT_FINITE: "find where the log density is NaN or infinite, and why",
    FitStatus.NO_STEP_SIZE: "rescale the parameters, or use solver='deterministic'",
    FitStatus.INTERRUPTED: "fit again without interrupting it",
    FitStatus.FAILED: "read the message, and fit that dataset again with its seed",
    FitStatus.TIMED_OUT: "allow more time (time_limit), or look for what makes the fit slow",
    FitStatus.UNKNOWN: (
        "look at how the optimiser ended: at its messages, and whether its ELBO was still rising"
    ),
}

FIND_BAD_GRADIENT = "find where the log density, or its gradient, is NaN or infinite"
ITERATE_LONGER = "iterate longer, with a smaller step or a larger minibatch"

_RUN_ON = "run the optimiser to convergence"

_OPTIONS: dict[FitStatus, dict[str, object]] = {
    FitStatus.SAMPLING_ERROR: {"max_draws": 65_536},
    FitStatus.STALLED: {"solver": "stochastic"},
}
"""Options that help a fit of the deterministic solver which ended so."""
_MORE_ACCURATE: dict[str, object] = {"num_draws": 1024, "sampling_tolerance": 0.01}
"""Options that help it in all other cases."""


def advice_after(status: FitStatus, solver: str) -> str:
    """Say what to do about a fit that ended with any status but CONVERGED."""
    if status is FitStatus.MAX_ITERATIONS:
        return keep_optimising(solver)
    return _ADVICE[status]


def keep_optimising(solver: str) -> str:
    """Say how to get nearer to the optimum with a solver."""
    if solver == "deterministic":
        return (
            "ask for more draws (num_draws, a smaller sampling_tolerance), or reparametrise the "
            "model"
        )
    if solver == "SVI":
        return "run SVI longer, with a smaller step at the end or more particles"
    return (
        "iterate longer, take a smaller step, more draws per step or a larger minibatch, or use "
        "solver='deterministic'"
    )


class Converge(Remedy[CheckSituation]):
    """Go to the optimum before judging the family."""

    name = "converge"
    title = "Converge"
    when = "the fit has not converged"
    example = 'check = vicheck.check(vicheck.fit(model, solver="deterministic"))'
    effect = (
        "Finds the best member of the family; khat then says whether the family is good enough."
    )

    def applies(self, situation: CheckSituation) -> bool:
        if situation.level != "unreliable" or situation.misses_a_mode or situation.model_at_fault:
            return False
        return situation.unsettled or not situation.made_here

    def advice(self, situation: CheckSituation) -> str:
        known = situation.convergence
        if known is None or not situation.made_here:
            unsettled = known is not None and situation.unsettled
            return keep_optimising(known.solver) if known and unsettled else _RUN_ON
        if known.status is not FitStatus.CONVERGED:
            return advice_after(known.status, known.solver)
        # And yet its gradient or its iterates say no.
        if "gradient-undefined" in situation.findings:
            return FIND_BAD_GRADIENT
        if "gradient-not-zero" in situation.findings:
            return keep_optimising(known.solver)
        return ITERATE_LONGER

    def line(self, situation: CheckSituation) -> str:
        known = situation.convergence
        if known is None or not situation.made_here:
            return ""
        if known.solver != "deterministic":
            return check_of_fit(known.family, solver="deterministic")
        return check_of_fit(known.family, **_OPTIONS.get(known.status, _MORE_ACCURATE))


class MendModel(Remedy[CheckSituation]):
    """Look at the model: no solver can find an optimum that is not there."""

    name = "mend-model"
    title = "Mend the model"
    when = "the status is `AT_INFINITY` or `NOT_FINITE`"
    effect = "Gives the model a posterior that can be approximated."

    def applies(self, situation: CheckSituation) -> bool:
        return (
            situation.level == "unreliable"
            and situation.model_at_fault
            and not situation.misses_a_mode
        )

    def advice(self, situation: CheckSituation) -> str:
        known = situation.convergence
        assert known is not None  # or the model would not be at fault
        return advice_after(known.status, known.solver)
