"""Section 2.3: khat is the same however q is written, and chooses between parametrizations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import halfcauchy, lognorm, multivariate_normal, norm

import vicheck
from vicheck.paper.drawing import COLORS, mark_threshold, new_figure
from vicheck.paper.experiment import Claim, Experiment, Numbers, Outcome, Run
from vicheck.paper.models import EIGHT_SCHOOLS
from vicheck.paper.schools import PRINTED, WAYS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

_LABELS = {
    "log_tau": "log tau, as fitted",
    "tau": "tau itself",
    "mixed": "all coordinates mixed linearly",
    "cubed": "cubes of standardised coordinates",
}


def _compute(run: Run) -> Numbers:
    num_draws = run.choose(100_000, 20_000)
    models = {way: PRINTED.model(way) for way in WAYS}
    ranked = vicheck.compare(models, num_draws=num_draws)
    same = _same_q(vicheck.fit(models["noncentred"]), num_draws)
    return {
        "num_draws": num_draws,
        "same_q": same,
        "spread": max(same.values()) - min(same.values()),
        "other_q": {name: checked.khat for name, checked in ranked.checks.items()},
        "best": ranked.best,
        "errors": {name: _error(checked) for name, checked in ranked.checks.items()},
    }


def _error(checked: vicheck.Check) -> float:
    """Return the mean absolute error of plain means against quadrature."""
    truth = PRINTED.exact()
    names = [*(f"theta[{index}]" for index in range(8)), "mu", "tau"]
    means = checked.moments["vi_mean"]
    return float(np.mean([abs(means[name] - truth.mean(name)) for name in names]))


def _same_q(fit: vicheck.Fit, num_draws: int) -> dict[str, float]:
    """Compute khat from densities written down anew in each parametrization, by SciPy alone."""
    rng = np.random.default_rng(0)
    loc, sd = fit.mean, fit.sd
    noise = rng.normal(size=(num_draws, len(loc)))
    z = loc + sd * noise
    names = list(fit.model.coordinates)
    mu, log_tau = z[:, names.index("mu")], z[:, names.index("tau")]
    raw = z[:, [i for i, name in enumerate(names) if name.startswith("theta_raw")]]
    tau = np.exp(log_tau)
    others = [i for i, name in enumerate(names) if name != "tau"]
    log_p_tau = (  # a density of tau: no Jacobian
        norm.logpdf(mu, 0, 5)
        + halfcauchy.logpdf(tau, scale=5)
        + norm.logpdf(raw).sum(axis=1)
        + norm.logpdf(EIGHT_SCHOOLS["y"], mu[:, None] + tau[:, None] * raw,
                      EIGHT_SCHOOLS["sigma"]).sum(axis=1)
    )  # fmt: skip
    log_q_others = norm.logpdf(z[:, others], loc[others], sd[others]).sum(axis=1)
    at = names.index("tau")
    log_q_tau = log_q_others + lognorm.logpdf(tau, sd[at], scale=np.exp(loc[at]))
    log_p = fit.model.log_density(z)
    mixing = rng.normal(size=(len(loc), len(loc)))
    log_volume = np.linalg.slogdet(mixing)[1]
    mixed_q = multivariate_normal(mixing @ loc, mixing @ np.diag(sd**2) @ mixing.T)
    # xi = noise^3: the density of a cube of a standard normal number is that of its root over
    # 3 |xi|^(2/3).
    cubes = noise**3
    roots = np.cbrt(cubes)
    log_slope = np.log(3 * np.abs(cubes) ** (2 / 3)).sum(axis=1)
    log_p_cubed = fit.model.log_density(loc + sd * roots) + np.log(sd).sum() - log_slope
    log_q_cubed = norm.logpdf(roots).sum(axis=1) - log_slope
    log_ratios = {
        "log_tau": log_p - norm.logpdf(z, loc, sd).sum(axis=1),
        "tau": log_p_tau - log_q_tau,
        "mixed": log_p - log_volume - mixed_q.logpdf(z @ mixing.T),
        "cubed": log_p_cubed - log_q_cubed,
    }
    return {name: float(vicheck.psis_khat(values)) for name, values in log_ratios.items()}


def _draw(numbers: Numbers) -> Figure:
    figure, panels = new_figure(1, 1, height=2.6)
    axes = panels[0][0]
    rows = {_LABELS[name]: value for name, value in numbers["same_q"].items()}
    rows |= {f"fit {name}, other draws": value for name, value in numbers["other_q"].items()}
    colors = [COLORS["vi"]] * len(numbers["same_q"]) + [COLORS["psis"]] * len(numbers["other_q"])
    axes.barh(list(rows), list(rows.values()), color=colors, height=0.6)
    axes.invert_yaxis()
    mark_threshold(axes, vertical=True)
    axes.set(xlabel="khat", title="one q in four ways; two fits")
    return figure


def _caption(numbers: Numbers) -> str:
    return (
        f"Eight schools, {numbers['num_draws']:,} draws. The same q in four parametrizations: "
        f"khats differ by {numbers['spread']:.1g}. Fits in two parametrizations are different qs, "
        f"and khat prefers the {numbers['best']} one."
    )


def _claims(numbers: Numbers) -> list[Claim]:
    same, other, errors = numbers["spread"], numbers["other_q"], numbers["errors"]
    return [
        Claim(
            "Section 2.3",
            "khat is invariant under any smooth reparametrization of the same q",
            "invariant",
            f"four parametrizations of one q: khat {numbers['same_q']['log_tau']:.3f}, largest "
            f"difference {same:.1g}",
            Outcome.HOLDS if same < 1e-8 else Outcome.FAILS,
            "Jacobians cancel in the ratio; only rounding errors remain.",
        ),
        Claim(
            "Section 2.3",
            "when a parametrization changes the family, khat guides the choice",
            "centred against non-centred",
            "khat, and mean absolute error of the means of theta, mu and tau: "
            + ", ".join(f"{name} {k:.2f} and {errors[name]:.2f}" for name, k in other.items()),
            Outcome.HOLDS if numbers["best"] == min(errors, key=errors.__getitem__)
            else Outcome.FAILS,
            "Judged by which of the two has the smaller errors, against exact means.",
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    "invariance", "The same q, written in several ways", _compute, _draw, _caption, _claims
)
