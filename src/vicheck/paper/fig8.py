"""Figure 8: VSBC of the horseshoe on the leukemia design."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from scipy.stats import halfcauchy

import vicheck
from vicheck.paper.calibrations import (
    SIGN,
    calibrate,
    describe,
    describe_convergence,
    direction_of,
    draw_rows,
)
from vicheck.paper.experiment import Claim, Experiment, Numbers, Outcome, Run
from vicheck.paper.leukemia import FEATURE, Leukemia, load_leukemia
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


_SCRIPT_SLAB, _SCRIPT_LOCAL = 50.0, 25.0


def _compute(run: Run) -> Numbers:
    data = load_leukemia(run.data, quick=run.quick)
    size = run.choose(200, 2)
    names = list(_TITLES)
    if run.as_scripted:
        simulator, fit = _as_scripted(data, iterations=run.choose(10_000, 300))
        calibration = calibrate(run, "stan", simulator, names, size, fit=fit)
    else:
        model = vicheck.from_numpyro(horseshoe_logistic, data.X)
        options = run.choose({}, {"sampling_tolerance": 0.4})
        calibration = calibrate(run, "converged", model, names, size, **options)
    return {
        "source": data.source,
        "as_scripted": run.as_scripted,
        "calibration": calibration,
    }


def _as_scripted(
    data: Leukemia, iterations: int
) -> tuple[vicheck.Model, Callable[[Mapping[str, Any], int], vicheck.Fit]]:
    """Return a simulator, and fits of a model that is not the one that was simulated."""
    model = partial(vicheck.from_numpyro, horseshoe_logistic, data.X, slab_scale=_SCRIPT_SLAB)
    simulator, fitted = model(local_scale=_SCRIPT_LOCAL), model()

    def stan_advi(simulated: Mapping[str, Any], seed: int) -> vicheck.Fit:
        return vicheck.fit(
            fitted.given({"y": simulated["y"]}),
            solver="stan_advi",
            tol_rel_obj=1e-3,
            iter=iterations,
            seed=seed,
        )

    return simulator, stan_advi


def _draw(numbers: Numbers) -> Figure:
    return draw_rows({_method(numbers): numbers["calibration"]}, _TITLES)


def _method(numbers: Numbers) -> str:
    return "Stan's ADVI" if numbers["as_scripted"] else "converged"


def _caption(numbers: Numbers) -> str:
    data = "the leukemia design" if numbers["source"] != "synthetic" else "a SYNTHETIC design"
    biases = "; ".join(f"{name} {describe(numbers['calibration'], name)}" for name in _TITLES)
    scripted = (
        f"lambda simulated from a half-Cauchy of scale {_SCRIPT_LOCAL:g}, fitted by Stan's ADVI "
        "with scale 1: " if numbers["as_scripted"] else ""
    )  # fmt: skip
    return (
        f"Horseshoe logistic regression on {data}, {scripted}"
        f"{describe_convergence(numbers['calibration'])} (the paper has 1000). {biases}. {SIGN}"
    )


def _claims(numbers: Numbers) -> list[Claim]:
    calibration = numbers["calibration"]
    data = " (SYNTHETIC design)" if numbers["source"] == "synthetic" else ""
    return [
        Claim(
            "Figure 8",
            f"{claim}{data}",
            printed,
            f"{_method(numbers)}: {describe_convergence(calibration)}; "
            f"{describe(calibration, name)}",
            Outcome.across([direction_of(calibration, name) == claimed]),
            _why(name, claimed, numbers),
        )
        for name, (claim, printed, claimed) in _CLAIMED.items()
    ]


def _why(name: str, claimed: str, numbers: Numbers) -> str:
    row = numbers["calibration"]["quantities"][name]
    direction, size = row["direction"], numbers["calibration"]["num_datasets"]
    simulator = _describe_simulator() if name.startswith("lambda") else ""
    if numbers["as_scripted"]:
        rejects = "does not reject" if direction == "none" else f"rejects ({direction}-estimated)"
        return f"The test of symmetry {rejects}. {simulator}".rstrip()
    # A mean of uniform numbers has the standard error 0.29 / sqrt(M); 2.8 of them are found with
    # a probability of 80% by a test at 5%.
    power = (
        f"With {size} datasets a shift of the mean by {2.8 * 0.29 / size**0.5:.2f} would be found."
    )
    if claimed == "none":
        result = "does not reject" if direction == "none" else "rejects"
        return f"The test of symmetry {result}. {power}"
    if direction == claimed:
        return "The test of symmetry, adjusted for three quantities, rejects, in this direction."
    result = "rejects, in the other direction" if direction != "none" else "does not reject"
    return f"The test of symmetry {result}. {power} {simulator}".rstrip()


def _describe_simulator() -> str:
    mean = halfcauchy.expect(halfcauchy.cdf, scale=_SCRIPT_LOCAL)
    return (
        f"The script simulates lambda from a half-Cauchy of scale {_SCRIPT_LOCAL:g} and fits a "
        f"model with scale 1: that alone gives a mean probability of {mean:.3f}, under-estimated, "
        "even where q is the exact posterior of data that say nothing about lambda."
    )


EXPERIMENT = Experiment(
    "fig8", "VSBC of the horseshoe", _compute, _draw, _caption, _claims,
    f"lambda simulated from a half-Cauchy of scale {_SCRIPT_LOCAL:g} though the model has 1, slab "
    f"Inv-Gamma(2, {_SCRIPT_SLAB:g}), Stan's ADVI",
    uses_leukemia=True,
)  # fmt: skip
