"""Other modes in a check: what they do to estimates, and the search beside a fit made elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from vicheck.errors import in_brief
from vicheck.judging import spoilt_by_modes
from vicheck.judging.cutoffs import FULL_RUN
from vicheck.results.convergence import PooledModes
from vicheck.results.estimates import Divergences, Measure
from vicheck.results.modes import ModeSearch
from vicheck.runtime.tracing import Traced
from vicheck.stats.divergences import divergences
from vicheck.stats.tail_lengths import judged_psis

if TYPE_CHECKING:
    from vicheck.draws import Draws
    from vicheck.model import Model
    from vicheck.quantities import Quantities
    from vicheck.results.fit import Fit
    from vicheck.results.psis import PsisResult
    from vicheck.vi.families.family import Family
    from vicheck.vi.families.mixture import Mixture
    from vicheck.vi.modes.search import Found

__all__ = [
    "divergences_with_modes",
    "pooled_modes",
    "search_beside",
    "search_from_higher_draws",
    "weights_allow",
]

Floats = NDArray[np.float64]

_LEAST_PART = 0.01
"""Of the mixture, for an optimum whose ELBO leaves it less: that is only a bound on its mass."""
_LEAST_HITS = 20
"""Effective draws, of a full run, that must know the mass of another optimum for khat to see it."""
_MAX_FULL_RANK = 50
"""Up to this dimension modes beside a fit made elsewhere are fitted at full rank."""
_POOLED_DRAWS = 20_000
"""Draws from the mixture of such modes."""


def pooled_modes(
    model: Model,
    members: Sequence[Family],
    elbos: Sequence[float],
    reported: Quantities,
    num_draws: int,
    seed: int,
    weights_work: bool,
    executor: Executor | None = None,
) -> PooledModes:
    """Mix the fit, which comes first, with optima at other modes, and see what these change.

    The draws of the mixture are weighted by its own density. A draw belongs to each optimum by its
    part in that density. Without the parts of those that the fit's own draws never hit, the
    estimates are what the fit alone can know; where its weights do not work, without all others.
    """
    from vicheck.evaluation import evaluate_draws_of
    from vicheck.vi.families.mixture import Mixture
    from vicheck.vi.families.moments import mean_of

    heights = np.where(np.isfinite(elbos), elbos, -np.inf)
    top = heights.max() if np.isfinite(heights).any() else 0.0  # no ELBO of a fit that ran away
    with np.errstate(under="ignore"):
        parts = np.maximum(np.exp(heights - top), _LEAST_PART)
    parts /= parts.sum()
    count = len(members)
    log_p, log_mixture, values = evaluate_draws_of(
        model, Mixture(tuple(members), parts), _WithMembers(count, reported), num_draws, seed,
        executor,
    )  # fmt: skip
    kept = len(values)
    of_members, values = values[:, :count], values[:, count:]
    with np.errstate(invalid="ignore", under="ignore"):
        log_ratios = log_p - log_mixture
        smoothed = judged_psis(log_ratios)
        weights = np.exp(smoothed.log_weights[:kept])
        weights /= weights.sum()
        shares = parts * np.exp(of_members - log_mixture[:kept, None])
        masses = weights @ shares
        mean, sd = _moments(weights, values)
        own = shares[:, 0]
        if weights_work:
            to_fit = of_members[:, 0] - log_mixture[:kept]
            own = _share_within_reach(shares, weights, to_fit)
        own_mean, own_sd = _moments(weights * own, values)
        shift = (mean - own_mean) / sd
        growth = np.log(sd / own_sd)
    constant = np.ptp(values, axis=0) == 0.0
    return PooledModes(
        khat=float(smoothed.khat),
        log_evidence=divergences(log_ratios, smoothed=smoothed).log_evidence,
        missed=max(0.0, 1.0 - float(weights @ own)),
        masses=np.asarray(masses),
        locations=np.stack([np.asarray(mean_of(member)) for member in members]),
        names=tuple(reported.drawn_names),
        shift=np.where(constant, 0.0, shift),
        growth=np.where(constant, 0.0, growth),
    )


def divergences_with_modes(
    log_ratios: Floats, smoothed: PsisResult, pooled: PooledModes | None, search: ModeSearch | None
) -> Divergences:
    """Estimate divergences from draws of q; errors hold what other modes add to the evidence.

    That of the mixture of all modes is larger by the mass that draws of q never see. Where the
    mixture does not know it, or there is none, the error is infinite.
    """
    found = divergences(log_ratios, smoothed=smoothed)
    missing = 0.0
    if pooled is not None and pooled.khat < smoothed.threshold and not pooled.log_evidence.reason:
        missing = abs(pooled.log_evidence.value - found.log_evidence.value)
    elif spoilt_by_modes(("",), pooled, search, smoothed.threshold).any():
        missing = np.inf

    def with_modes(one: Measure) -> Measure:
        if one.reason or not missing > one.mcse:  # less is chance
            return one
        caution = "other modes have part of the posterior"
        return replace(one, mcse=float(np.hypot(one.mcse, missing)), caution=caution)

    return replace(
        found, log_evidence=with_modes(found.log_evidence), kl_q_p=with_modes(found.kl_q_p)
    )


def weights_allow(smoothed: PsisResult) -> bool:
    """Whether khat, or where the tail is not Pareto that further out, lets weights be used."""
    fits = smoothed.tail_fits
    return bool((smoothed.khat if fits is None else fits.high) < smoothed.threshold)


def _share_within_reach(shares: Floats, weights: Floats, log_ratio_to_fit: Floats) -> Floats:
    """Return how much of each draw the fit can know: its own part, and those of optima it overlaps.

    Another optimum is overlapped when the fit's own draws, weighted, would know its mass: by their
    effective number. To hit its outskirts is not enough, as it happens in many dimensions. With
    draws of the mixture the second moment of these weights is a mean over them.
    """
    own = shares[:, 0].copy()
    with np.errstate(over="ignore"):
        mixture_over_fit = np.exp(-log_ratio_to_fit)
    for other in range(1, shares.shape[1]):
        part = weights * shares[:, other]
        second_moment = len(part) * np.sum(np.square(part) * mixture_over_fit)
        if np.square(part.sum()) * FULL_RUN >= _LEAST_HITS * second_moment:
            own += shares[:, other]
    return own


def _moments(weights: Floats, values: Floats) -> tuple[Floats, Floats]:
    weights = weights / weights.sum()
    mean = weights @ values
    return mean, np.sqrt(weights @ np.square(values - mean))


@dataclass(frozen=True)
class _WithMembers(Traced):
    """The log density of each member of a mixture, and then the quantities, of each draw."""

    num_members: int
    reported: Quantities

    @property
    def num_values(self) -> int:
        return self.num_members + self.reported.num_values

    def traces(self, use: str, data: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.reported.traces(use, data)

    def at(self, program: Any, q: Mixture, z: Any, data: Any) -> Any:
        import jax.numpy as jnp

        of_members = q.log_prob_of_members(z)
        return jnp.concatenate([of_members, self.reported.at(program, q, z, data)])


def search_beside(
    draws: Draws, num_starts: int | None, seed: int, weights_work: bool
) -> tuple[ModeSearch | None, PooledModes | None, tuple[str, ...]]:
    """Search for modes that draws made elsewhere do not reach, if their model is known.

    Where they come from a q whose density vicheck has, other modes are fitted and mixed with it.
    A note says why there was no search although the model is known; if a number of starts was
    asked for, that is an error.
    """
    if draws.model is None or num_starts == 1:
        return None, None, ()
    missing = [name for name, _ in draws.model.program.layout if name not in draws.values]
    if missing and draws.q is None:
        return None, None, (f"Other modes were not searched for: the draws lack {missing[0]}.",)
    try:
        return *_search_beside(draws, draws.model, num_starts, seed, weights_work), ()
    except Exception as error:
        if num_starts is not None:
            raise
        # A check of draws needs no gradient, and must not fail because there is none.
        return None, None, (f"Other modes were not searched for ({in_brief(error)}).",)


def _search_beside(
    draws: Draws, model: Model, num_starts: int | None, seed: int, weights_work: bool
) -> tuple[ModeSearch, PooledModes | None]:
    from vicheck.evaluation import unconstrained
    from vicheck.model import double_precision
    from vicheck.quantities import reported_quantities
    from vicheck.vi.modes.place import place_of
    from vicheck.vi.modes.search import NUM_STARTS, find_modes, higher_than_modes

    with double_precision(), np.errstate(invalid="ignore"):
        model = model.snapshot()
        height = np.nan if draws.unnormalized else _height(draws, weights_work)
        q = None if draws.q is None else draws.q.family()
        place = place_of(draws if q is None else q, model)
        budget = float(draws.num_draws)
        found = find_modes(model, place, num_starts or NUM_STARTS, seed, budget, height)
        rows = higher_than_modes(found.search, draws.log_p)
        names = [name for name, _ in model.program.layout]
        if len(rows) and all(name in draws.values for name in names):
            theta = {name: draws.values[name][rows] for name in names}
            z = unconstrained(model.program, theta, model.data)
            found = find_modes(model, place, num_starts or NUM_STARTS, seed, budget, height, z)
        if q is None or not found.search.num_others or not np.isfinite(height):
            return found.search, None
        reported = reported_quantities(model, None)
        how = reported, _POOLED_DRAWS, seed, weights_work
    return found.search, _pooled_with(model, q, height, found, *how)


def search_from_higher_draws(
    fit: Fit,
    log_p: Floats,
    z_of: Callable[[NDArray[np.intp]], Floats],
    reported: Quantities,
    seed: int,
    weights_work: bool,
) -> tuple[ModeSearch, PooledModes | None] | None:
    """Search once more if draws of a fit lie higher than all modes that its search has found.

    They are in a mode so narrow that no start has led there; climbs from them do. None where there
    are no such draws.
    """
    from vicheck.vi.modes.place import place_of
    from vicheck.vi.modes.search import NUM_STARTS, find_modes, higher_than_modes

    rows = higher_than_modes(fit.solution.search, log_p)
    if not len(rows):
        return None
    place, budget = place_of(fit.q, fit.model), float(fit.solution.num_evaluations)
    z = z_of(rows)
    found = find_modes(fit.model, place, NUM_STARTS, seed, budget, fit.elbo, z)
    if not found.search.num_others:
        return found.search, None
    how = reported, _POOLED_DRAWS, seed, weights_work
    return found.search, _pooled_with(fit.model, fit.q, fit.elbo, found, *how)


def _pooled_with(
    model: Model,
    q: Family,
    height: float,
    found: Found,
    reported: Quantities,
    num_draws: int,
    seed: int,
    weights_work: bool,
) -> PooledModes | None:
    """Fit the other modes that a search has found, and mix them with q; None if none matters."""
    from vicheck.model import double_precision
    from vicheck.vi.families.registry import kind_of
    from vicheck.vi.modes.beyond import optima_of_others

    with double_precision(), np.errstate(invalid="ignore"):
        name = "full_rank" if model.dim <= _MAX_FULL_RANK else "mean_field"
        optima, _ = optima_of_others(model, kind_of(name, model.dim, None), found, seed, q=q)
        if not optima:
            return None
        members, heights = [q], [height]
        for optimum in optima:
            members.append(optimum.q)
            heights.append(optimum.elbo)
        return pooled_modes(model, members, heights, reported, num_draws, seed, weights_work)


def _height(draws: Draws, weights_work: bool) -> float:
    """Return what is known of the log of the mass where draws lie.

    The weights tell it where they work. The ELBO, which is only a bound, may be a hundred nats
    lower for a proposal with heavy tails: q would have no part in the mixture with a normal at a
    mode that it covers.
    """
    ratios = np.asarray(draws.log_p - draws.log_q)
    if not weights_work:
        return float(np.mean(ratios))
    return float(logsumexp(np.where(np.isnan(ratios), -np.inf, ratios)) - np.log(len(ratios)))
