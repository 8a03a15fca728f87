"""Why a check came out as it did: draws of q with slopes of the log ratio, and what they show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import in_brief
from vicheck.indexing import Indexing
from vicheck.judging.causes import FarMode, Subject, causes_of, without_cause
from vicheck.results.explanation import Explanation
from vicheck.stats.ratio_tail import far_region, tail_contrast, worst_pairs
from vicheck.stats.ratio_terms import RatioTerms, ratio_terms
from vicheck.stats.standardised import (
    MAX_WHITENED,
    Standard,
    compressed,
    from_moments,
    from_ranks,
)

if TYPE_CHECKING:
    from vicheck.model import Model
    from vicheck.results.check import Check
    from vicheck.vi.families.family import Family

__all__ = ["explain_check"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_DRAWS, _LEAST_DRAWS = 4096, 512
"""Draws with slopes: as many as a check can afford, and at least."""
_PART_OF_CHECK = 8
"""The draws of a check are so many times as many: a gradient costs some evaluations."""
_NUMBERS = 2**24
"""In the draws and in the slopes each."""
_DRAWS_WITHOUT_SLOPES = 8192
_MOST_WITHOUT_SLOPES = 200
"""Quantities among which pairs are sought without slopes."""
_FOR_SIGNS = 256
"""Draws that tell what is positive."""
_TOO_FEW = 100
"""With fewer draws nothing is said."""
_MOST_PAIRED = 64
"""Coordinates among which the worst pairs are sought."""
_STREAM = (0, 29)
"""A seed of its own: an explanation does not depend on that of the check."""
_NO_GRADIENTS = "There are no gradients ({}): this is what draws and log ratios alone show."
_MISSED = ("mode-missed", "modes-uncertain", "mode-beyond-reach")


@dataclass(frozen=True, eq=False)
class _Material:
    """All that an explanation is made of."""

    names: tuple[str, ...]
    standard: Standard
    log_p: Floats
    log_ratios: Floats
    mean: Floats | None = None
    """Of q, on the unconstrained scale, where coordinates are those of the model."""
    sd: Floats | None = None
    notes: tuple[str, ...] = ()
    positive: frozenset[str] = frozenset()
    """Names of what is positive on its own scale."""


def explain_check(check: Check) -> Explanation:
    """Say why q is not the posterior, as far as the draws, the model and q can tell."""
    material = _material(check)
    e, slopes = material.standard
    finite = np.isfinite(material.log_ratios) & np.isfinite(e).all(axis=1)
    if slopes is not None:
        finite &= np.isfinite(slopes).all(axis=1)
    notes = material.notes
    num_left_out = int(np.count_nonzero(~finite))
    if num_left_out:
        notes += (f"{num_left_out} draws without a finite density or gradient were left out.",)
    e, log_ratios, log_p = e[finite], material.log_ratios[finite], material.log_p[finite]
    slopes = None if slopes is None else slopes[finite]
    convergence = check.convergence
    subject = Subject(
        material.names,
        fitted_here=convergence is not None and convergence.family != "",
        has_covariance=convergence is not None and convergence.family == "full_rank",
        positive=material.positive,
        mode=_far_mode(check, material, e, log_p, log_ratios),
    )
    if len(e) < _TOO_FEW:
        notes += (f"Nothing else can be said with fewer than {_TOO_FEW} draws.",)
        return Explanation(causes_of(None, subject), np.nan, len(e), notes=notes)
    ratios, slopes = compressed(log_ratios, slopes)
    terms = ratio_terms(e, ratios, slopes, _groups(material.names))
    tail = tail_contrast(e, log_ratios)
    pairs = worst_pairs(e, ratios, slopes, _paired(terms), tail.is_tail)
    by_cross = np.argsort(-np.abs(pairs.cross), kind="stable")
    correlated = [(int(pairs.first[i]), int(pairs.second[i])) for i in by_cross]
    causes = causes_of(terms, subject, correlated)
    if not causes:
        high = bool(check.psis.khat >= check.psis.threshold)
        notes = (*without_cause(terms.sd, high, tail.shift, material.names), *notes)
    unknown = np.full(e.shape[1], np.nan)
    score = unknown if slopes is None else np.sqrt(np.square(slopes).mean(axis=0))
    both = np.stack([pairs.first, pairs.second], axis=1).ravel()
    return Explanation(
        causes=causes,
        sd=terms.sd,
        num_draws=terms.num_draws,
        coordinates=material.names,
        columns={
            "score": score,
            "tail_shift": tail.shift,
            "tail_spread": tail.spread,
            "linear": terms.slope,
            "quadratic": terms.curvature,
            "cubic": terms.cubic,
            "quartic": terms.quartic,
        },
        pair_names=tuple(material.names[i] for i in both),
        pair_columns={
            "share": pairs.share,
            "cross": pairs.cross,
            "scaling": pairs.scaling,
            "tail_correlation": pairs.tail_correlation,
        },
        notes=notes,
    )


def _groups(names: tuple[str, ...]) -> Ints:
    """Return the number of the parameter that each coordinate is an element of."""
    sites = [name.split("[", 1)[0] for name in names]
    numbers = {site: number for number, site in enumerate(dict.fromkeys(sites))}
    return np.array([numbers[site] for site in sites], np.intp)


def _paired(terms: RatioTerms) -> Ints:
    """Return the coordinates among which the worst pairs are sought."""
    of_funnels = [
        index
        for funnel in terms.funnels
        for index in (*funnel.scales, *funnel.locations[: _MOST_PAIRED // 4])
    ]
    by_size = np.argsort(-terms.correlated, kind="stable")
    chosen = list(dict.fromkeys([*of_funnels, *by_size.tolist()]))[:_MOST_PAIRED]
    return np.array(sorted(chosen), np.intp)


# Where draws and slopes come from.


def _material(check: Check) -> _Material:
    model, q = check.model, check.q
    if model is None:
        note = _NO_GRADIENTS.format("no model")
        return _from_values(check, (note,))
    from vicheck.draws import Approximation
    from vicheck.model import double_precision

    with double_precision():
        member = q.family() if isinstance(q, Approximation) else q
        why = "q is known by its draws alone"
        if member is not None:
            try:
                return _from_family(check, model.snapshot(), member)
            except Exception as error:
                if check.convergence is not None:  # what was fitted has gradients
                    raise
                why = f"the model has none ({in_brief(error)})"
        note = _NO_GRADIENTS.format(why)
        return _from_draws(check, model, note)


def _from_family(check: Check, model: Model, q: Family) -> _Material:
    """Draw from a member of a family, with the slopes of both log densities."""
    import jax

    from vicheck.vi.density import Density
    from vicheck.vi.families.moments import covariance_of, mean_of, sd_of

    most = min(_DRAWS, max(2 * _LEAST_DRAWS, check.psis.num_draws // _PART_OF_CHECK))
    num_draws = max(_LEAST_DRAWS, min(most, _NUMBERS // q.dim))
    anchor: Family = jax.tree.map(lambda leaf: np.asarray(leaf)[None], q)
    chart = anchor.chart(np.zeros((1, q.dim)))
    noise = q.draw_noise(np.random.default_rng(_STREAM), num_draws)[None]
    z = chart.draws(np.zeros((1, chart.step_dim)), noise)
    log_p, gradients = Density(model.program, model.data, {})(np.zeros(1, np.intp), z)
    log_q = np.asarray(jax.vmap(q.log_prob)(z[0]))
    with np.errstate(invalid="ignore"):
        slopes = gradients[0] - chart.scores(noise, z)[0]
        log_ratios = log_p[0] - log_q
    mean, sd = np.asarray(mean_of(q)), np.asarray(sd_of(q))
    spread = np.asarray(covariance_of(q)) if q.dim <= MAX_WHITENED else np.square(sd)
    standard = from_moments(z[0], slopes, mean, spread)
    theta = model.constrain(z[0, :_FOR_SIGNS])
    positive = _positive(theta, model.coordinates, model.indexing)
    return _Material(model.coordinates, standard, log_p[0], log_ratios, mean, sd, positive=positive)


def _positive(
    values: Mapping[str, Floats], names: tuple[str, ...], indexing: Indexing
) -> frozenset[str]:
    """Name the coordinates that are positive at all draws, where values have their names."""
    found: list[str] = []
    for name, array in values.items():
        least = np.asarray(array).reshape(len(array), -1).min(axis=0)
        labels = indexing.labels({name: array.shape[1:]})
        if {*labels} == {each for each in names if each.split("[", 1)[0] == name}:
            found += [label for label, value in zip(labels, least, strict=True) if value > 0.0]
    return frozenset(found)


def _from_draws(check: Check, model: Model, note: str) -> _Material:
    """Bring draws that were made elsewhere to the model's unconstrained scale."""
    from vicheck.evaluation import unconstrained

    layout = [name for name, _ in model.program.layout]
    if any(name not in check.shapes for name in layout):
        return _from_values(check, (note,))
    size = min(len(check.values), _DRAWS_WITHOUT_SLOPES)
    theta = {name: check.draws[name][:size] for name in layout}
    z = unconstrained(model.program.snapshot(), theta, model.data)
    return _without_slopes(check, z, model.coordinates, (note,))


def _from_values(check: Check, notes: tuple[str, ...]) -> _Material:
    return _without_slopes(check, check.values[:_DRAWS_WITHOUT_SLOPES], check.names, notes)


def _without_slopes(
    check: Check, values: Floats, names: tuple[str, ...], notes: tuple[str, ...]
) -> _Material:
    size = len(values)
    log_p, log_ratios = check.log_p[:size], check.log_ratios[:size]
    usable = np.isfinite(log_ratios) & np.isfinite(values).all(axis=1)
    values, log_p, log_ratios = values[usable], log_p[usable], log_ratios[usable]
    varies = np.flatnonzero(np.ptp(values, axis=0) > 0.0) if len(values) else np.arange(0)
    values, names = values[:, varies], tuple(names[i] for i in varies)
    mean, sd = (values.mean(axis=0), values.std(axis=0)) if len(values) else (None, None)
    if values.shape[1] > _MOST_WITHOUT_SLOPES:
        tail = tail_contrast(from_ranks(values).e, log_ratios)
        differs = np.abs(tail.shift) + np.abs(np.log(tail.spread))
        chosen = np.sort(np.argsort(-differs, kind="stable")[:_MOST_WITHOUT_SLOPES])
        notes += (
            f"Of {len(names)} quantities, only the {_MOST_WITHOUT_SLOPES} whose draws differ "
            "most in the tail were looked at.",
        )
        values, names = values[:, chosen], tuple(names[i] for i in chosen)
        mean, sd = values.mean(axis=0), values.std(axis=0)
    positive = _positive(check.draws, names, check.indexing)
    if not len(values) or not values.shape[1]:
        return _Material(names, Standard(np.empty((0, len(names))), None), log_p[:0], log_p[:0])
    return _Material(names, from_ranks(values), log_p, log_ratios, mean, sd, notes, positive)


def _far_mode(
    check: Check, material: _Material, e: Floats, log_p: Floats, log_ratios: Floats
) -> FarMode | None:
    """Return what the search has found of other modes, or what draws show where there was none."""
    if any(finding.code in _MISSED for finding in check.findings):
        share, place = np.nan, None
        if check.pooled is not None and len(check.pooled.locations) > 1:
            other = 1 + int(np.argmax(check.pooled.masses[1:]))
            share, place = check.pooled.missed, check.pooled.locations[other]
        elif check.modes is not None and check.modes.num_others:
            share, place = check.modes.share_of_others, check.modes.z[check.modes.num_reached]
        away = np.empty(0)
        same = check.model is not None and material.names == check.model.coordinates
        if same and place is not None and material.mean is not None and material.sd is not None:
            away = (place - material.mean) / material.sd
        return FarMode(float(share), away)
    if check.modes is not None or len(e) < _TOO_FEW:
        return None
    region = far_region(e, log_p, log_ratios)
    if region is None:
        return None
    return FarMode(region.mass, region.direction * region.distance, reached=True)
