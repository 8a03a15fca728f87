"""True errors beside estimated ones, where reference draws from the posterior can be afforded."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vicheck.model import labels
from vicheck.stats.psis import psis_khat

if TYPE_CHECKING:
    from vicheck.results.check import Check
    from vicheck.results.fit import Fit
    from vicheck.results.reference import Reference

__all__ = ["errors_against", "marginal_khat"]

Floats = NDArray[np.float64]

_GRID = 1024
_MAX_MARGINALS = 500
_DRAWS = 10_000


def errors_against(reference: Reference, checked: Check, fit: Fit) -> dict[str, dict[str, float]]:
    """Return columns for `Check.moments`, each by the name of the quantity.

    ``ref_mean`` and ``ref_sd``, from which the table derives its errors, and ``marginal_khat`` of
    each parameter, the paper's Figure 5.
    """
    truth = reference.moments
    columns: dict[str, dict[str, float]] = {
        name: {} for name in ("ref_mean", "ref_sd", "marginal_khat")
    }
    for name in checked.names:
        if name not in truth.index:
            continue
        columns["ref_mean"][name] = float(truth.loc[name, "mean"])
        columns["ref_sd"][name] = float(truth.loc[name, "sd"])
    if reference.z.shape[-1] != fit.model.dim:
        raise ValueError(
            f"reference must be of the same model, with {fit.model.dim} parameters, got "
            f"{reference.z.shape[-1]}"
        )
    known = reference.z.reshape(-1, fit.model.dim)
    # Only where each parameter has a coordinate of its own: those of a simplex do not.
    own = {
        label
        for name, shape in fit.model.program.layout
        if checked.shapes.get(name) == shape and fit.model.program.is_elementwise(name)
        for label in labels({name: shape})
    }
    locs, sds = fit.mean, fit.sd
    for index, name in enumerate(fit.model.coordinates[:_MAX_MARGINALS]):
        if name in own:
            columns["marginal_khat"][name] = marginal_khat(known[:, index], locs[index], sds[index])
    return columns


def marginal_khat(known: Floats, loc: float, sd: float, seed: int = 0) -> float:
    """Estimate khat of one marginal, p(theta_i | y) / q(theta_i), from known draws of p.

    Beware: a small marginal khat does not mean that this marginal is right, because tails of the
    others are integrated out (the paper's section 2.4), and the density of p, a kernel estimate,
    has no tails beyond the draws it was made from.
    """
    from scipy.stats import gaussian_kde, norm

    draws = norm.rvs(loc, sd, size=_DRAWS, random_state=np.random.default_rng(seed))
    grid = np.linspace(min(known.min(), draws.min()), max(known.max(), draws.max()), _GRID)
    with np.errstate(divide="ignore"):
        log_p = np.log(gaussian_kde(known)(grid))
    log_ratios = np.interp(draws, grid, log_p) - norm.logpdf(draws, loc, sd)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # undefined: NaN in the table says so
        return float(psis_khat(log_ratios))
