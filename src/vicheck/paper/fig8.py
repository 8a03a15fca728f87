"""Figure 8: VSBC of the horseshoe on the leukemia design."""

from __future__ import annotations

from typing import TYPE_CHECKING

import vicheck
from vicheck.paper.calibrating import SIGN, calibrate, describe, direction_of, draw_rows
from vicheck.paper.calibrating import tell_convergence as tell
from vicheck.paper.experiment import Claim, Experiment, Numbers, Outcome, Run
from vicheck.paper.leukemia import FEATURE, load_leukemia
from vicheck.paper.models import horseshoe_logistic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

_TITLES = {
    f"beta[{FEATURE}]": "$\\beta_{1834}$",
    f"lambda[{FEATURE}]": "log $\\lambda_{1834}$",
    "tau": "log $\\tau$",
}
_CLAIMED = {
    f"lambda[{FEATURE}]": ("log lambda_1834 is under-estimated", "p skewed to the left", "under"),
    "tau": ("log tau is over-estimated", "p skewed to the right", "over"),
    f"beta[{FEATURE}]": ("beta_1834 is unbiased on average", "symmetric", "none"),
}


def _compute(run: Run) -> Numbers:
    data = load_leukemia(run.data, quick=run.quick)
    model = vicheck.from_numpyro(horseshoe_logistic, data.X)
    size = run.choose(200, 2)
    options = run.choose({}, {"sampling_tolerance": 0.4})
    return {
        "source": data.source,
        "calibration": calibrate(run, "converged", model, list(_TITLES), size, **options),
    }


def _draw(numbers: Numbers) -> Figure:
    return draw_rows({"fits": numbers["calibration"]}, _TITLES)


def _caption(numbers: Numbers) -> str:
    data = "the leukemia design" if numbers["source"] != "synthetic" else "a SYNTHETIC design"
    told = "; ".join(f"{name} {describe(numbers['calibration'], name)}" for name in _TITLES)
    return (
        f"Horseshoe logistic regression on {data}: {tell(numbers['calibration'])} "
        f"(the paper has 1000). {told}. {SIGN}"
    )


def _claims(numbers: Numbers) -> list[Claim]:
    calibration = numbers["calibration"]
    data = " (SYNTHETIC design)" if numbers["source"] == "synthetic" else ""
    claims = []
    for name, (claim, printed, claimed) in _CLAIMED.items():
        found = direction_of(calibration, name)
        opposite = {"over": "under", "under": "over", "none": ""}[claimed]
        claims.append(
            Claim(
                "Figure 8",
                f"{claim}{data}",
                printed,
                f"{tell(calibration)}; {describe(calibration, name)}",
                Outcome.HOLDS if found == claimed
                else Outcome.FAILS if found == opposite or claimed == "none" else Outcome.IN_PART,
                _why(name, found, claimed, calibration),
            )
        )  # fmt: skip
    return claims


def _why(name: str, found: str, claimed: str, calibration: Numbers) -> str:
    mean = calibration["quantities"][name]["mean"]
    if found == claimed:
        return "The test of symmetry, adjusted for three quantities, says so."
    if found == "none":
        side = "as claimed" if (mean < 0.5) == (claimed == "over") else "the other way"
        return (
            f"The mean lies {side}, but {calibration['num_datasets']} datasets do not show it: "
            "72 outcomes say next to nothing about one of 7129 scales, so that q and the prior "
            "agree."
        )
    return (
        "The bias is significant, in the other direction."
        if claimed != "none"
        else ("The bias is significant.")
    )


EXPERIMENT = Experiment(
    "fig8", "VSBC of the horseshoe", _compute, _draw, _caption, _claims, uses_leukemia=True
)
