"""True errors beside estimated ones, where reference draws from the posterior can be afforded."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vicheck.draws import Approximation
from vicheck.stats.psis import psis_khat

if TYPE_CHECKING:
    from vicheck.results.check import Check
    from vicheck.results.reference import Reference

__all__ = ["errors_against", "marginal_khat"]

Floats = NDArray[np.float64]

_GRID = 1024
_MAX_MARGINALS = 500
_DRAWS = 10_000


def errors_against(reference: Reference, checked: Check) -> dict[str, dict[str, float]]:
    """Return columns for `Check.moments`, each by the name of the quantity.

    ``ref_mean`` and ``ref_sd``, from which the table derives its errors, and, where the marginal
    densities of q are known exactly, ``marginal_khat`` of each parameter, the paper's Figure 5.

    Raises
    ------
    ValueError
        When the reference is of another model.
    """
    truth = reference.moments
    # Its model may be written in another language than that of the draws.
    truth.index = checked.indexing.labels(
        {name: array.shape[2:] for name, array in reference.draws.items()}
    )
    columns: dict[str, dict[str, float]] = {
        name: {} for name in ("ref_mean", "ref_sd", "marginal_khat")
    }
    model = checked.model
    if model is not None and reference.z.shape[-1] != model.dim:
        raise ValueError(
            f"reference must be of the same model, with {model.dim} parameters, got "
            f"{reference.z.shape[-1]}"
        )
    common = [name for name in checked.names if name in truth.index]
    parameters = {str(name).partition("[")[0] for name in truth.index}
    if not common and (model is None or parameters.isdisjoint(dict(model.program.layout))):
        raise ValueError(
            "reference must be of the same model, but shares no quantity with the draws: it has "
            f"{', '.join(map(str, truth.index[:5]))}, the draws have {', '.join(checked.names[:5])}"
        )
    for name in common:
        columns["ref_mean"][name] = float(truth.loc[name, "mean"])
        columns["ref_sd"][name] = float(truth.loc[name, "sd"])
    if model is None:
        return columns
    known = reference.z.reshape(-1, model.dim)
    # Only where each parameter has a coordinate of its own: those of a simplex do not.
    own = {
        label
        for name, shape in model.program.layout
        if model.program.is_elementwise(name)
        for label in model.indexing.labels({name: shape})
        if label in checked.names
    }
    marginals = _exact_marginals(checked.q)
    for index, name in enumerate(model.coordinates[:_MAX_MARGINALS]):
        if name in own and marginals is not None:
            columns["marginal_khat"][name] = marginal_khat(known[:, index], *marginals(index))
    return columns


def _exact_marginals(q: Any) -> Callable[[int], tuple[Floats, Floats]] | None:
    """Return a function that draws from the marginals of q, with their log densities.

    None if these densities are not known: an estimate of them has hardly any tails, and khat is
    about the tails.
    """
    from vicheck.model import double_precision
    from vicheck.vi.families.abilities import HasMarginals

    if isinstance(q, Approximation):
        q = q.family()
    if not isinstance(q, HasMarginals):
        return None

    def of_coordinate(index: int) -> tuple[Floats, Floats]:
        with double_precision():
            marginal = q.marginal(index)
        draws = marginal.rvs(size=_DRAWS, random_state=np.random.default_rng(0))
        return draws, marginal.logpdf(draws)

    return of_coordinate


def marginal_khat(known: Floats, draws: Floats, log_q: Floats) -> float:
    """Estimate khat of one marginal, p(theta_i | y) / q(theta_i), from known draws of p.

    Beware: a small marginal khat does not mean that this marginal is right, because tails of the
    others are integrated out (the paper's section 2.4), and the density of p, a kernel estimate,
    has no tails beyond the draws it was made from.

    Parameters
    ----------
    known
        Draws from the marginal of the posterior.
    draws, log_q
        Draws from the marginal of q, and their log densities under it.
    """
    from scipy.stats import gaussian_kde

    grid = np.linspace(min(known.min(), draws.min()), max(known.max(), draws.max()), _GRID)
    with np.errstate(divide="ignore"):
        log_p = np.log(gaussian_kde(known)(grid))
    log_ratios = np.interp(draws, grid, log_p) - log_q
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # undefined: NaN in the table says so
        return float(psis_khat(log_ratios))
