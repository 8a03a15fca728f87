"""Why an approximation is not the posterior: from terms of the log ratio to causes, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicheck.judging.cutoffs import CAUSE_SD, CAUSE_SHARE, MENTIONED
from vicheck.remedies.converge import Converge
from vicheck.remedies.mcmc import CoverModes, Mcmc
from vicheck.remedies.reparametrise import Reparametrise
from vicheck.remedies.richer_family import RicherFamily
from vicheck.results.explanation import Cause
from vicheck.stats.ratio_terms import Funnel, RatioTerms

__all__ = ["FarMode", "Subject", "causes_of", "in_short", "without_cause"]

Floats = NDArray[np.float64]

_NAMED = 6
"""Coordinates that a cause names."""


@dataclass(frozen=True)
class FarMode:
    """Another mode: its share of the posterior, and how far it lies in each coordinate."""

    share: float
    """NaN where it is not known."""
    away: Floats
    """In sds of q; empty where coordinates are not known."""
    reached: bool = False
    """Whether some draws lie there."""


@dataclass(frozen=True)
class Subject:
    """What is known of an approximation beside its draws."""

    names: tuple[str, ...]
    fitted_here: bool = False
    """Whether q is meant to be the best of its family: then slopes and scales vanish."""
    has_covariance: bool = False
    """Whether that family has any covariance: then correlations vanish as well."""
    positive: frozenset[str] = frozenset()
    """Coordinates that are positive on their own scale, as scales are."""
    mode: FarMode | None = None


def causes_of(
    terms: RatioTerms | None, subject: Subject, pairs: Sequence[tuple[int, int]] = ()
) -> tuple[Cause, ...]:
    """Return the causes, worst first; a mode that q does not reach comes before all others."""
    found = [] if terms is None else _causes_of_terms(terms, subject, pairs)
    found.sort(key=lambda cause: -cause.share)
    mode = subject.mode
    if mode is not None:
        found.insert(0, _mode(mode, subject))
    return tuple(found)


def _causes_of_terms(
    terms: RatioTerms, subject: Subject, pairs: Sequence[tuple[int, int]]
) -> list[Cause]:
    unsettled, width = terms.of_slope, terms.of_curvature
    correlation = terms.of_correlation
    if subject.fitted_here:
        unsettled, width = unsettled + width, 0.0
        if subject.has_covariance:
            unsettled, correlation = unsettled + correlation, 0.0

    def counts(share: float) -> bool:
        return share >= CAUSE_SHARE and np.sqrt(share) * terms.sd >= CAUSE_SD

    found = []
    if counts(unsettled):
        found.append(_not_converged(terms, subject, unsettled))
    if counts(width):
        found.append(_scale(terms, subject, width))
    if counts(correlation):
        found.append(_correlation(terms, subject, correlation, pairs))
    found += [_funnel(each, subject) for each in terms.funnels if counts(each.share)]
    if counts(terms.of_heavy_tails):
        found.append(_heavy_tails(terms, subject))
    if counts(terms.of_skewness):
        found.append(_skewness(terms, subject))
    return found


def _share(share: float) -> float:
    return float(np.clip(share, 0.0, 1.0))


def _not_converged(terms: RatioTerms, subject: Subject, share: float) -> Cause:
    size = np.square(terms.slope)
    if subject.fitted_here:
        size = size + 0.5 * np.square(terms.curvature)
    names = _largest(size, subject.names)
    return Cause(
        "not-converged",
        _share(share),
        names,
        "The fit has not converged: the log ratio still has a slope, or q has the wrong width, "
        f"most of all in {in_short(names)}.",
        Converge.name,
        "Optimise further before blaming anything else.",
    )


def _scale(terms: RatioTerms, subject: Subject, share: float) -> Cause:
    names = _largest(np.square(terms.curvature), subject.names)
    worst = int(np.argmax(np.abs(terms.curvature)))
    way = "narrow" if terms.curvature[worst] > 0.0 else "wide"
    return Cause(
        "scale",
        _share(share),
        names,
        f"q is too {way} in {in_short(names)}.",
        Converge.name,
        "Run the optimiser to convergence, or rescale q there.",
    )


def _correlation(
    terms: RatioTerms, subject: Subject, share: float, pairs: Sequence[tuple[int, int]]
) -> Cause:
    order = dict.fromkeys(index for pair in pairs for index in pair)
    names = tuple(subject.names[index] for index in order)[:_NAMED]
    if not names:
        names = _largest(terms.correlated, subject.names)
    shown = [f"{subject.names[i]} with {subject.names[j]}" for i, j in pairs[:2]]
    which = f": above all {', and '.join(shown)}" if shown else f" among {in_short(names)}"
    return Cause(
        "correlation",
        _share(share),
        names,
        f"q lacks correlations of the posterior{which}.",
        RicherFamily.name,
        "Fit a family with correlations, full_rank or low_rank.",
    )


def _funnel(funnel: Funnel, subject: Subject) -> Cause:
    scales = tuple(subject.names[index] for index in funnel.scales)
    locations = tuple(subject.names[index] for index in funnel.locations)
    scale, location = in_short(scales), in_short(locations)
    sites = in_short(tuple(dict.fromkeys(_site(name) for name in locations)))
    if funnel.sign > 0:
        way, hint = "grows", f"Non-centre {sites}: sample it in units of {scale}."
        if not subject.positive.issuperset(scales):
            hint += (
                f" If {scale} is not the log of a scale, the posterior is bent: sample what is "
                f"left of {scale} after {sites} has been taken into account."
            )
    else:
        way = "falls"
        hint = (
            f"If {sites} is non-centred, centre it, or go part of the way; if {scale} is a "
            f"precision, non-centre {sites}."
        )
    return Cause(
        "funnel",
        funnel.share,
        scales + locations,
        f"A funnel, {scale} with {location}: the width of the latter {way} with the former, but "
        "q has the same width everywhere.",
        Reparametrise.name,
        hint,
    )


def _heavy_tails(terms: RatioTerms, subject: Subject) -> Cause:
    names = _largest(np.maximum(terms.quartic, 0.0), subject.names)
    return Cause(
        "heavy-tails",
        terms.of_heavy_tails,
        names,
        f"The posterior has heavier tails than q, in {in_short(names)}.",
        Mcmc.name,
        "Use an approximation with heavier tails, such as a Student-t, or MCMC.",
    )


def _skewness(terms: RatioTerms, subject: Subject) -> Cause:
    names = _largest(np.square(terms.cubic), subject.names)
    worst = int(np.argmax(np.abs(terms.cubic)))
    way = "right" if terms.cubic[worst] > 0.0 else "left"
    return Cause(
        "skewness",
        terms.of_skewness,
        names,
        f"The posterior is skewed where q is symmetric: in {in_short(names)}, to the {way} on the "
        "unconstrained scale.",
        Reparametrise.name,
        "Transform it so that it is closer to symmetric, or use a skewed approximation.",
    )


def _mode(mode: FarMode, subject: Subject) -> Cause:
    names: tuple[str, ...] = ()
    if len(mode.away) == len(subject.names):
        names = _largest(np.square(mode.away), subject.names)
    known = mode.share == mode.share
    where = f", away from q in {in_short(names)}" if names else ""
    how_much = f" with about {mode.share:.0%} of the posterior" if known else ""
    reach = "only a few draws reach" if mode.reached else "no draw reaches"
    return Cause(
        "mode",
        _share(mode.share) if known else 1.0,
        names,
        f"Another mode{how_much} lies where {reach}{where}.",
        CoverModes.name,
        "Cover it: average over the optima, or use MCMC.",
    )


def without_cause(
    sd: float, khat_is_high: bool, tail_shift: Floats, names: Sequence[str]
) -> tuple[str, ...]:
    """Say that nothing stands out; and where khat is high, what draws that is due to."""
    said = (f"No cause stands out; the log ratios of most draws have an sd of {sd:.2g} nats.",)
    if not khat_is_high:
        return said
    worst = int(np.argmax(np.abs(tail_shift)))
    way = "above" if tail_shift[worst] > 0.0 else "below"
    return (
        *said,
        f"khat is high because of a few draws, which lie {way} the others in {names[worst]}: by "
        f"{abs(tail_shift[worst]):.2g} sds of q on average over the largest ratios.",
    )


def _largest(size: Floats, names: Sequence[str]) -> tuple[str, ...]:
    """Name the coordinates with the largest of some numbers, and others that come near."""
    order = np.argsort(-size, kind="stable")[:_NAMED]
    return tuple(names[i] for i in order if size[i] > MENTIONED * size[order[0]])


def _site(name: str) -> str:
    return name.split("[", 1)[0]


def in_short(names: Sequence[str]) -> str:
    """List names, elements of the same vector as a range where they are all there."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_site(name), []).append(name)
    parts = []
    for site, members in groups.items():
        numbers = [re.fullmatch(re.escape(site) + r"\[(\d+)\]", name) for name in members]
        indices = sorted(int(each[1]) for each in numbers if each)
        is_range = len(indices) == len(members) and indices[-1] - indices[0] + 1 == len(indices)
        if is_range and len(indices) > 2:
            parts.append(f"{site}[{indices[0]}..{indices[-1]}]")
        elif len(members) > 3:
            parts.append(f"{', '.join(members[:3])} and {len(members) - 3} more of {site}")
        else:
            parts += members
    return ", ".join(parts)
