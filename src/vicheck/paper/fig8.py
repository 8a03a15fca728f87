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
    return [
        Claim(
            "Figure 8",
            f"{claim}{data}",
            printed,
            f"{tell(calibration)}; {describe(calibration, name)}",
            Outcome.across([direction_of(calibration, name) == claimed]),
            _why(name, claimed, calibration),
        )
        for name, (claim, printed, claimed) in _CLAIMED.items()
    ]


def _why(name: str, claimed: str, calibration: Numbers) -> str:
    row = calibration["quantities"][name]
    found, size = row["direction"], calibration["num_datasets"]
    # A mean of uniform numbers has the standard error 0.29 / sqrt(M); 2.8 of them are found with
    # a probability of 80% by a test at 5%.
    power = (
        f"With {size} datasets a shift of the mean by {2.8 * 0.29 / size**0.5:.2f} would be found."
    )
    if claimed == "none":
        return (
            f"The test of symmetry {'does not reject' if found == 'none' else 'rejects'}. {power}"
        )
    if found == claimed:
        return "The test of symmetry, adjusted for three quantities, rejects, in this direction."
    told = "rejects, in the other direction" if found != "none" else "does not reject"
    script = (
        " The script's simulator drew lambda from a half-Cauchy of scale 25, which is not the "
        "model's prior: that alone makes lambda look under-estimated."
        if name.startswith("lambda") else ""
    )  # fmt: skip
    return f"The test of symmetry {told}. {power}{script}"


EXPERIMENT = Experiment(
    "fig8", "VSBC of the horseshoe", _compute, _draw, _caption, _claims, uses_leukemia=True
)
