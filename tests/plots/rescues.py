"""Rescues made of numbers, for figures and pages: nothing is fitted."""

from dataclasses import replace

import numpy as np

import vicheck
from tests.plots.subjects import normal_check
from vicheck.results.rescue import Attempt, Rescue

ATTEMPTS = (
    Attempt(
        "none", 0.91, 0.91, "unreliable", 0.01, 0.4, evaluations=84_000, seconds=3.2, kept=True,
        why="where it began",
    ),
    Attempt("converge", 0.91, why="the fit has converged"),
    Attempt("adapt", 0.91, evaluations=120, seconds=0.2, why="failed: ValueError: <b>no luck</b>"),
    Attempt(
        "mixture", 0.91, 1.8, "unreliable", 0.1, -0.3, evaluations=1_234_567, seconds=12.0,
        why="no better",
    ),
    Attempt(
        "reparametrise", 0.91, 0.41, "usable", 0.6, 0.05, evaluations=99_950, seconds=130.0,
        kept=True,
    ),
)  # fmt: skip


def made_rescue(attempts=ATTEMPTS, **changes):
    """Return the rescue of a check by a trail, which has succeeded unless told otherwise."""
    before = normal_check()
    rescue = Rescue(
        check=replace(before, title="rescued: reparametrise"),
        attempts=attempts,
        succeeded=True,
        sentence="Rescued by reparametrise: khat 0.91 before and 0.41 after.",
        code='rescued = vicheck.rescue(fit, remedies=["reparametrise"], seed=0)',
        before=before,
    )
    return replace(rescue, **changes)


def sampled_rescue(rhat=1.0):
    """Return a rescue by NUTS, whose chains have mixed, or not."""
    last = Attempt("mcmc", 0.91, evaluations=9000, seconds=3.0, kept=True, why="chains have mixed")
    draws = np.random.default_rng(1).normal(size=(4, 500, 3))
    names = normal_check().names
    reference = vicheck.Reference(
        draws,
        {name: draws[..., i] for i, name in enumerate(names)},
        rhat=dict.fromkeys(names, rhat),
        ess=dict.fromkeys(names, 2000.0),
        mcse=dict.fromkeys(names, 0.02),
        num_divergent=0,
    )
    return made_rescue((*ATTEMPTS[:4], last), reference=reference, succeeded=rhat < 1.01)
