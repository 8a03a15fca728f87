"""Section 5.1: khat is local. Two modes, of which q sees one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy.special import logsumexp
from scipy.stats import norm

import vicheck
from vicheck.paper.calibrations import calibrate, describe, direction_of
from vicheck.paper.drawing import COLORS, draw_probabilities, new_figure
from vicheck.paper.experiment import Claim, Experiment, Numbers, Outcome, Run
from vicheck.paper.models import two_modes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT"]

_WEIGHTS, _MODES, _SCALE = np.array([0.8, 0.2]), np.array([0.0, 3.0]), 0.2


def _compute(run: Run) -> Numbers:
    model = vicheck.from_numpyro(two_modes)
    single = vicheck.fit(model, num_starts=1)
    checked = vicheck.check(single, chains=False)
    several = vicheck.check(vicheck.fit(model), chains=False)
    pooled = several.pooled
    return {
        "q": {"mean": single.mean[0], "sd": single.sd[0]},
        "khat": checked.khat,
        "verdict_of_one_start": str(checked.verdict),
        "kl_q_p": _kl(single, from_p=False),
        "kl_p_q": {
            "psis": checked.divergences.kl_p_q.value,
            "exact": _kl(single, from_p=True),
        },
        "several": {
            "verdict": str(several.verdict),
            "level": several.verdict.level,
            "modes": None if pooled is None else pooled.locations[:, 0],
            "masses": None if pooled is None else pooled.masses,
            "missed": None if pooled is None else pooled.missed,
            "khat": None if pooled is None else pooled.khat,
        },
        "vsbc": calibrate(run, "vsbc", vicheck.from_numpyro(_vague), ["x"], run.choose(1000, 200)),
    }


def _vague(y: Any = None) -> None:
    """Observe x with so much noise that its posterior keeps both modes."""
    parts = dist.Normal(_MODES, _SCALE)
    x = numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(_WEIGHTS), parts))
    numpyro.sample("y", dist.Normal(x, 10.0), obs=y)


def _log_p(x: np.ndarray) -> np.ndarray:
    return logsumexp(norm.logpdf(x[:, None], _MODES, _SCALE), b=_WEIGHTS, axis=1)


def _kl(fit: vicheck.Fit, *, from_p: bool) -> float:
    """Integrate KL(p, q) or KL(q, p) on a grid."""
    grid = np.linspace(-3.0, 6.0, 200_001)
    log_p, log_q = _log_p(grid), norm.logpdf(grid, fit.mean[0], fit.sd[0])
    first, second = (log_p, log_q) if from_p else (log_q, log_p)
    return float(np.sum(np.exp(first) * (first - second)) * (grid[1] - grid[0]))


def _draw(numbers: Numbers) -> Figure:
    figure, panels = new_figure(1, 2)
    axes, histogram = panels[0]
    grid = np.linspace(-1.5, 4.5, 600)
    axes.plot(grid, np.exp(_log_p(grid)), color=COLORS["truth"], label="posterior")
    own = norm.pdf(grid, numbers["q"]["mean"], numbers["q"]["sd"])
    axes.plot(grid, own, color=COLORS["vi"], linestyle="--", label="q")
    axes.set(title=f"khat {numbers['khat']:.2f}: blind to the other mode", xlabel="x", yticks=[])
    axes.set_ylim(bottom=0)
    axes.legend()
    draw_probabilities(histogram, numbers["vsbc"]["quantities"]["x"]["probabilities"], "VSBC of x")
    return figure


def _caption(numbers: Numbers) -> str:
    kl = numbers["kl_p_q"]
    return (
        f"q covers one mode of 0.8 N(0, 0.2) + 0.2 N(3, 0.2) and has khat {numbers['khat']:.2f}. "
        f"KL(p, q) is {kl['exact']:.1f} nats, and {kl['psis']:.2f} when estimated by PSIS from "
        f"the draws of q. VSBC: x {describe(numbers['vsbc'], 'x')}."
    )


def _claims(numbers: Numbers) -> list[Claim]:
    several, kl = numbers["several"], numbers["kl_p_q"]
    has_modes = several["modes"] is not None
    sees = direction_of(numbers["vsbc"], "x") != "none"
    return [
        Claim(
            "Section 5.1",
            "khat is blind to a mode that q never visits",
            "k = 0",
            f"khat {numbers['khat']:.2f}; KL(q, p) {numbers['kl_q_p']:.3f} nats",
            Outcome.HOLDS if numbers["khat"] < 0.5 else Outcome.FAILS,
            "The ratio is constant where q has its draws.",
        ),
        Claim(
            "Section 5.1",
            "several over-dispersed starts detect the second mode",
            "detected",
            (
                "modes at " + ", ".join(f"{mode:.2f}" for mode in several["modes"])
                + f", masses {', '.join(f'{mass:.2f}' for mass in several['masses'])}; "
                f"missed by q {several['missed']:.1%}; verdict {several['level']}"
            ) if has_modes else "not found",
            Outcome.HOLDS if has_modes and several["level"] == "unreliable" else Outcome.FAILS,
            "`fit` starts at several places by default, and `check` pools the modes they lead to.",
        ),
        Claim(
            "Section 5.1",
            "KL(p, q), computed through PSIS, diagnoses the missing mode",
            "computable through PSIS",
            f"by PSIS {kl['psis']:.3f} nats, exact {kl['exact']:.2f}",
            Outcome.HOLDS if kl["psis"] > 0.5 * kl["exact"] else Outcome.FAILS,
            "KL(p, q) itself is large. But PSIS estimates it from draws of q, which have not seen "
            "the mode either: it needs draws that have, such as those of several starts.",
        ),
        Claim(
            "Section 5.1",
            "VSBC diagnoses the missing mode",
            "detected",
            describe(numbers["vsbc"], "x"),
            Outcome.HOLDS if sees else Outcome.FAILS,
            "Truths are drawn from the prior, which has both modes; x is observed with an error of "
            "10, so that the posterior has them too.",
        ),
    ]  # fmt: skip


EXPERIMENT = Experiment("bimodal", "A mode that q never visits", _compute, _draw, _caption, _claims)
