"""Figure 6: VSBC of eight schools, centred and non-centred."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vicheck.paper.calibrations import (
    SIGN,
    calibrate,
    describe,
    describe_convergence,
    direction_of,
    draw_rows,
)
from vicheck.paper.experiment import Claim, Experiment, Numbers, Outcome, Run
from vicheck.paper.schools import FIG6_SCRIPT, PRINTED, WAYS, Prior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "calibrate_schools", "draw_schools", "solvers_in"]

_TITLES = {"theta[0]": "$\\theta_1$", "tau": "log $\\tau$"}
_LABELS = {"centred": "centred", "noncentred": "non-centred"}
_SOLVERS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "converged": ("converged", {}),
    "stan": ("Stan's ADVI", {"solver": "stan_advi"}),
}


def calibrate_schools(run: Run, prior: Prior) -> Numbers:
    """Run VSBC in both parametrizations, converged and by Stan's ADVI at its defaults."""
    size = run.choose(1000, 200)
    return {
        "prior": str(prior),
        "as_scripted": run.as_scripted,
        **{
            solver: {
                way: calibrate(
                    run, f"{solver}-{way}", prior.model(way, observed=False), list(_TITLES),
                    size, **options,
                )
                for way in WAYS
            }
            for solver, (_, options) in _SOLVERS.items()
            if not (run.quick and solver == "stan")
        },
    }  # fmt: skip


def draw_schools(numbers: Numbers) -> Figure:
    """Draw converged fits over those of Stan's ADVI."""
    rows = {
        f"{_LABELS[way]}, {label}": numbers[solver][way]
        for solver, label in solvers_in(numbers).items()
        for way in WAYS
    }
    return draw_rows(rows, _TITLES)


def solvers_in(numbers: Numbers) -> dict[str, str]:
    """Return the solvers that were run, and what to call them."""
    return {name: label for name, (label, _) in _SOLVERS.items() if name in numbers}


def _compute(run: Run) -> Numbers:
    return calibrate_schools(run, FIG6_SCRIPT if run.as_scripted else PRINTED)


def _caption(numbers: Numbers) -> str:
    biases = "; ".join(
        f"tau {_LABELS[way]} {describe(numbers['converged'][way], 'tau')}" for way in WAYS
    )
    return (
        f"Eight schools, {numbers['prior']}, "
        f"{describe_convergence(numbers['converged']['centred'])} (centred, deterministic). "
        f"Converged: {biases}. {SIGN}"
    )


def _claims(numbers: Numbers) -> list[Claim]:
    solvers = solvers_in(numbers)
    theta = [direction_of(numbers[name][way], "theta[0]") == "none"
             for name in solvers for way in WAYS]  # fmt: skip
    by_stan = (
        {} if numbers["as_scripted"] else {"centred": ".30 to .46", "noncentred": ".57 to .65"}
    )

    def bias(way: str, claimed: str, word: str) -> Claim:
        holds = {name: direction_of(numbers[name][way], "tau") == claimed for name in solvers}
        return Claim(
            "Figure 6",
            f"tau is {word} in the {_LABELS[way]} parametrization",
            f"p skewed to the {'right' if claimed == 'over' else 'left'}",
            "; ".join(
                f"{label}: {describe(numbers[name][way], 'tau')}" for name, label in solvers.items()
            ),
            Outcome.across(holds.values()),
            "The direction is that of the family: it holds for fits that have converged."
            if holds["converged"]
            else "Fits that have converged do not show this direction under these priors.",
            stan=by_stan.get(way, ""),
        )

    return [
        Claim(
            "Figure 6",
            "theta1 is unbiased on average, both parametrizations",
            "KS test not rejected",
            "; ".join(f"{label}, {_LABELS[way]}: {describe(numbers[name][way], 'theta[0]')}"
                      for name, label in solvers.items() for way in WAYS),
            Outcome.across(theta),
            "The prior of theta is symmetric about 0, so that a family that pulls towards mu errs "
            "equally on either side."
            if all(theta)
            else "The test of symmetry rejects.",
            stan="" if numbers["as_scripted"] else "holds",
        ),
        bias("centred", "over", "over-estimated"),
        bias("noncentred", "under", "under-estimated"),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "fig6", "VSBC of eight schools", _compute, draw_schools, _caption, _claims,
    f"priors {FIG6_SCRIPT}",
)  # fmt: skip
