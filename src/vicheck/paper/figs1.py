"""Figure I of the supplement: VSBC of eight schools under flat priors."""

from __future__ import annotations

from vicheck.paper.calibrating import SIGN, describe, direction_of
from vicheck.paper.experiment import Claim, Experiment, Numbers, Outcome, Run
from vicheck.paper.fig6 import calibrate_schools, draw_schools, solvers_in
from vicheck.paper.schools import SUPPLEMENT, WAYS

__all__ = ["EXPERIMENT"]


def _compute(run: Run) -> Numbers:
    return calibrate_schools(run, SUPPLEMENT)


def _caption(numbers: Numbers) -> str:
    told = "; ".join(f"tau {way} {describe(numbers['converged'][way], 'tau')}" for way in WAYS)
    return f"Eight schools, {numbers['prior']}. Converged: {told}. {SIGN}"


def _claims(numbers: Numbers) -> list[Claim]:
    converged = numbers["converged"]
    theta = [direction_of(converged[way], "theta[0]") == "none" for way in WAYS]
    tau = [direction_of(converged[way], "tau") != "none" for way in WAYS]
    return [
        Claim(
            "Figure I",
            "theta1 is unbiased on average under flat priors",
            "symmetric",
            "; ".join(f"{way}: {describe(converged[way], 'theta[0]')}" for way in WAYS),
            Outcome.across(theta),
            "As under the printed priors.",
        ),
        Claim(
            "Figure I",
            "tau is biased in both parametrizations under flat priors",
            "skewed",
            "; ".join(
                f"{label}, {way}: {describe(numbers[solver][way], 'tau')}"
                for solver, label in solvers_in(numbers).items() for way in WAYS
            ),
            Outcome.across(tau),
            "What the bias is depends on the prior that datasets are drawn from, as the paper "
            "says.",
            stan="over-estimated in both parametrizations",
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "figS1", "VSBC of eight schools, flat priors", _compute, draw_schools, _caption, _claims
)
