"""Figure I of the supplement: VSBC of eight schools under flat priors."""

from __future__ import annotations

from vicheck.paper.calibrations import SIGN, describe, direction_of
from vicheck.paper.experiment import Claim, Experiment, Numbers, Outcome, Run
from vicheck.paper.fig6 import calibrate_schools, draw_schools, solvers_in
from vicheck.paper.schools import SUPPLEMENT, WAYS

__all__ = ["EXPERIMENT"]


def _compute(run: Run) -> Numbers:
    return calibrate_schools(run, SUPPLEMENT)


def _caption(numbers: Numbers) -> str:
    biases = "; ".join(f"tau {way} {describe(numbers['converged'][way], 'tau')}" for way in WAYS)
    return f"Eight schools, {numbers['prior']}. Converged: {biases}. {SIGN}"


def _claims(numbers: Numbers) -> list[Claim]:
    solvers = solvers_in(numbers)
    runs = {f"{label}, {way}": numbers[solver][way]
            for solver, label in solvers.items() for way in WAYS}  # fmt: skip
    theta = [direction_of(each, "theta[0]") == "none" for each in runs.values()]
    tau = [direction_of(each, "tau") != "none" for each in runs.values()]
    return [
        Claim(
            "Figure I",
            "theta1 is unbiased on average under flat priors",
            "symmetric",
            "; ".join(f"{who}: {describe(each, 'theta[0]')}" for who, each in runs.items()),
            Outcome.across(theta),
            "Theta's prior is symmetric about 0." if all(theta) else "The test rejects.",
        ),
        Claim(
            "Figure I",
            "tau is biased in both parametrizations under flat priors",
            "skewed",
            "; ".join(f"{who}: {describe(each, 'tau')}" for who, each in runs.items()),
            Outcome.across(tau),
            "Its direction depends on whether the fits have converged."
            if len({direction_of(each, "tau") for each in list(runs.values())[::2]}) > 1
            else "The direction is the same whether fits have converged or not.",
            stan="over-estimated in both parametrizations",
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "figS1", "VSBC of eight schools, flat priors", _compute, draw_schools, _caption, _claims
)
