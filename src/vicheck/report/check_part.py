"""The part of a page that is about one fit: what the template shows, as texts and pictures."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from vicheck.errors import NothingToShowError
from vicheck.plots.check_data import Pair, khat_growth_data, pairs_data, solver_data
from vicheck.plots.checks import draw_khat_growth, draw_pairs, khat_scale, solver, tail
from vicheck.report.figures import Picture, picture_of
from vicheck.report.tables import (
    MOST_BYTES,
    chains_rows,
    divergence_rows,
    moments_table,
    quantiles_table,
    show,
)
from vicheck.report.text import chains_in_a_line
from vicheck.report.why_part import why_part

if TYPE_CHECKING:
    from vicheck.results.check import Check

__all__ = ["check_part", "scale_picture"]

_PAIRS = (
    "Pairs of quantities whose dependence the weights change most: draws of q, and as many "
    "resampled by their weights, which follow the posterior as far as q has draws there. The "
    "weights are truncated, so that no draw hides the others; a larger dot was drawn more often."
)

_MOST_QUANTILES = 200
"""Quantities whose quantiles are on a page, the worst first: each takes a sort of its draws."""

_DRIFT = (
    "Where a few steps of MCMC lead from the draws: drift is the mean at the ends minus that at "
    "the starts, in sds of the ends, and a lower bound of the error. A nested R-hat of 1 says that "
    "the ends no longer depend on the starts: the drift is then all of the error that chains can "
    "see."
)


def check_part(check: Check, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Return all that a page shows of a check."""
    pairs, trouble = _pairs(check)
    quantiles = check.quantiles(quantities=list(check.worst_first.index[:_MOST_QUANTILES]))
    return {
        "verdict": check.verdict,
        "findings": check.verdict.others,
        "scale": scale_picture(check),
        "notes": [*check.notes, *_predictive(check)],
        "why": _why(check),
        "pictures": [_tail_picture(check), _growth_picture(check), _solver_picture(check)],
        "table": moments_table(check.worst_first, most_bytes),
        "quantiles": quantiles_table(quantiles, len(check.names), most_bytes // 5),
        "others": _others(check),
        "chains": _chains(check),
        "pairs": [_pair_picture(pair) for pair in pairs],
        "about_pairs": _PAIRS if pairs else f"No pairs are shown: {trouble}.",
        "divergences": divergence_rows(check.divergences),
    }


def scale_picture(check: Check) -> Picture:
    """Return khat on its scale."""
    low, high = (show(end) for end in check.psis.khat_interval())
    khat, threshold = show(check.khat), f"{check.psis.threshold:.2f}"
    alternative = (
        f"khat {khat}, 90% interval {low} to {high}, on a scale: good below 0.5, usable up to "
        f"0.7, not reliable above; the threshold for {check.psis.num_draws} draws is {threshold}."
        if khat is not None
        else "The scale of khat, without a mark: khat is undefined."
    )
    return picture_of(
        partial(khat_scale, check),
        alternative,
        "khat, the shape of the tail of the ratios p/q: how far q is from the posterior. The "
        "bands are the paper's; the threshold depends on the number of draws.",
    )


def _tail_picture(check: Check) -> Picture:
    return picture_of(
        partial(tail, check),
        f"The {check.psis.tail_length} largest of {check.psis.num_draws} ratios, from the rarest "
        f"on, with the fitted tail of shape {show(check.khat)} and the smoothed weights.",
        "The largest ratios p/q, the generalised Pareto tail fitted to them, and the smoothed "
        "weights that take their place. The steeper, the larger khat.",
    )


def _growth_picture(check: Check) -> Picture:
    try:
        data = khat_growth_data(check)
    except NothingToShowError as error:
        return Picture(Markup(), "khat against the number of draws.", str(error))
    khats = ", ".join(
        f"{show(khat) or 'undefined'} with {size}"
        for size, khat in zip(data.num_draws, data.khat, strict=True)
    )
    return picture_of(
        partial(draw_khat_growth, data),
        f"khat against the number of draws: {khats}.",
        "khat of the first draws, with its 90% interval. When it still rises, more of the tail "
        "lies beyond.",
    )


def _solver_picture(check: Check) -> Picture:
    on_solver = [one for one in check.findings if one.code in check.verdict.converged.because]
    if check.convergence is None:
        caption = "The progress of the fit, as far as its ELBO was kept."
    else:
        sentences = (one.sentence for one in on_solver[:1])
        caption = " ".join(["The progress of the solver.", *sentences])
    try:
        values = solver_data(check)
        alternative = (
            f"The {'gradient' if values.what == 'gradient' else 'ELBO'} as the solver proceeded: "
            f"{show(values.values[0]) or 'undefined'} at the start, "
            f"{show(values.values[-1]) or 'undefined'} at the end."
        )
    except NothingToShowError:
        alternative = ""
    return picture_of(partial(solver, check), alternative, caption)


def _why(check: Check) -> dict[str, Any] | None:
    """Return the causes where something is wrong."""
    without_draws = check.conclusions is not None and not len(check.values)
    if without_draws or check.verdict.level not in ("usable", "unreliable"):
        return None
    return why_part(check.explain())


def _pairs(check: Check) -> tuple[list[Pair], str]:
    try:
        return pairs_data(check), ""
    except NothingToShowError as error:
        return [], str(error)


def _predictive(check: Check) -> list[str]:
    """Say how well held-out data are predicted, where there were some."""
    if check.predictive is None:
        return []
    density = check.predictive
    return [
        f"Log predictive density of {density.num_points} held-out points: VI {density.vi}, PSIS "
        f"{density.psis}. It does not tell whether VI worked: a worse posterior can predict better."
    ]


def _others(check: Check) -> list[tuple[str, str]]:
    """Return the optima that the starts have settled on, with their share of the posterior."""
    if check.pooled is None:
        return []
    names = ["this fit", *(f"optimum {i}" for i in range(2, len(check.pooled.masses) + 1))]
    return [(name, f"{mass:.1%}") for name, mass in zip(names, check.pooled.masses, strict=True)]


def _chains(check: Check) -> dict[str, Any] | None:
    """Return where short chains have led, for the quantities that have moved most."""
    if check.chains is None:
        return None
    finding = next(
        (one for one in check.findings if one.code in check.verdict.chains_agree.because), None
    )
    sentence = f"{finding.sentence} " if finding is not None else ""
    return {
        "about": f"{sentence}{_DRIFT} {chains_in_a_line(check.chains)}.",
        "rows": chains_rows(check.chains.table),
    }


def _pair_picture(pair: Pair) -> Picture:
    return picture_of(
        partial(draw_pairs, [pair]),
        f"Draws of {pair.x_name} and {pair.y_name}, from q on the left and reweighted on the "
        "right.",
        f"{pair.x_name} and {pair.y_name}",
    )
