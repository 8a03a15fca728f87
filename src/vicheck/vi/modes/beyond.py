"""What is done about modes that a fit does not reach: they are fitted too, and may replace it."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.model import Model
from vicheck.results.fit import Optimum, Solution
from vicheck.results.modes import NEGLIGIBLE
from vicheck.results.status import FitStatus
from vicheck.vi.families.family import Family
from vicheck.vi.families.moments import mean_and_sd
from vicheck.vi.families.registry import Kind
from vicheck.vi.modes.place import place_of
from vicheck.vi.modes.search import Found, find_modes
from vicheck.vi.solvers.deterministic.options import Options
from vicheck.vi.solvers.deterministic.single import SingleFit
from vicheck.vi.solvers.reporting import Report, silent

__all__ = ["look_beyond", "optima_of_others"]

Floats = NDArray[np.float64]

_MOST_FITTED = 5
"""Other modes that are fitted."""
_BETTER = 0.05
"""Nats by which the ELBO of another optimum must be higher to replace a fit."""
_APART, _STRETCHED = 0.5, 1.5
"""Sds between means, or factor between sds, from which on two members of a family differ."""
_NOWHERE = (FitStatus.NOT_FINITE, FitStatus.AT_INFINITY, FitStatus.FAILED, FitStatus.INTERRUPTED)
"""Ends of fits that lie at no place from which to look."""


def look_beyond(
    model: Model,
    kind: Kind,
    solution: Solution,
    num_starts: int,
    seed: int,
    report: Report,
    *,
    may_replace: bool,
) -> Solution:
    """Search for other modes, fit them, and return the best optimum with all others.

    Parameters
    ----------
    model
        The model with its data.
    kind, solution
        The family, and the fit as the solver has left it.
    num_starts, seed
        Of the search; an expensive density gets about as many evaluations as the fit took, or
        a fixed number if that is more.
    report
        Told what is being done.
    may_replace
        Whether a better optimum becomes the fit. If not, it is among the others: the fit is what
        the solver that was asked for has found.
    """
    if solution.status in _NOWHERE:
        return solution
    place = place_of(solution.q, model)
    report(f"ELBO {solution.elbo:.3f}, looking for other modes")
    found = find_modes(model, place, num_starts, seed, solution.num_evaluations, solution.elbo)
    spent = found.search.num_evaluations
    optima, evaluations = optima_of_others(
        model, kind, found, seed, report, solution.q, solution.num_evaluations
    )
    solution = replace(
        solution,
        search=found.search,
        num_evaluations=solution.num_evaluations + spent + evaluations,
    )
    fitted = [each for each in optima if each.num_evaluations]
    best = max(fitted, key=lambda each: each.elbo, default=None)
    if best is None or not may_replace or not best.elbo > solution.elbo + _BETTER:
        others = tuple(Optimum(each.q, each.elbo) for each in optima)
        return replace(solution, others=others)
    # The first fit is now one of the others, unless it holds nothing, even by a bound so loose.
    rest = [Optimum(each.q, each.elbo) for each in (solution, *optima) if each is not best]
    rest = [each for each in rest if each.elbo > best.elbo - 2.0 * NEGLIGIBLE]
    # What is within reach is now another mode.
    search = find_modes(model, place_of(best.q, model), num_starts, seed, spent, best.elbo).search
    return replace(
        best,
        search=search,
        others=tuple(rest),
        num_evaluations=solution.num_evaluations + search.num_evaluations,
    )


def optima_of_others(
    model: Model,
    kind: Kind,
    found: Found,
    seed: int,
    report: Report = silent,
    q: Family | None = None,
    budget: float = np.inf,
) -> tuple[list[Solution], int]:
    """Fit the modes beyond reach that matter, and count the evaluations.

    A mode matters unless the rest of the posterior holds far more: other modes, or the
    approximation itself. Where a fit from a mode leaves it for one that is known, the member of
    the family that its curvature makes stands for it.
    """
    search, curvature = found.search, found.curvature
    others = np.arange(search.num_reached, len(search.log_p))
    others = others[~search.is_negligible[others]]
    known: list[Family] = [] if q is None else [q]
    optima: list[Solution] = []
    evaluations = 0
    for row in others[:_MOST_FITTED]:
        if evaluations >= budget and not found.is_cheap:
            break  # the rest stays what the search says of it
        report(f"fitting the mode at log density {search.log_p[row]:.2f}")
        fitted = SingleFit(Options(), model, kind, seed, silent).solve_from(search.z[row])
        evaluations += fitted.num_evaluations
        if fitted.status in _NOWHERE or any(_is_same(fitted.q, each) for each in known):
            at = jax.tree.map(lambda part: part[row], curvature)  # noqa: B023
            member = kind.start(search.z[row], at)
            if any(_is_same(member, each) for each in known):
                continue
            mass = search.log_mass[row]
            elbo = mass if np.isfinite(mass) else search.log_p[row]
            fitted = Solution(member, FitStatus.STALLED, float(elbo), 0)
        known.append(fitted.q)
        optima.append(fitted)
    return optima, evaluations


def _is_same(one: Family, other: Family) -> bool:
    """Whether two members lie at the same place with the same scales."""
    (mean, sd), (other_mean, other_sd) = (
        tuple(np.asarray(part) for part in mean_and_sd(each)) for each in (one, other)
    )
    apart = np.abs(mean - other_mean) / np.minimum(sd, other_sd)
    stretched = np.abs(np.log(sd / other_sd))
    return bool((apart < _APART).all() and (stretched < np.log(_STRETCHED)).all())
