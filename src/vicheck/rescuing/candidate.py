"""A candidate: an approximation that a remedy has made, and how it is judged on fresh draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vicheck.checking.fitted import check_fit
from vicheck.checking.given import check_given
from vicheck.draws import Approximation, Draws
from vicheck.evaluation import evaluate_draws_of
from vicheck.model import Model, double_precision
from vicheck.quantities import Quantities, Spec, reported_quantities
from vicheck.rescuing.ranking import CLOSE, can_be_used, khat_of
from vicheck.results.check import Check
from vicheck.results.fit import Fit
from vicheck.results.psis import PsisResult
from vicheck.stats.tail_lengths import judged_psis
from vicheck.vi.families.family import Family

__all__ = [
    "NUM_DRAWS",
    "NUM_SCREENED",
    "Candidate",
    "Proposal",
    "has_perhaps_moved",
    "judged",
    "num_chains",
    "screened",
]

NUM_DRAWS = 32_000
"""Fresh draws that a candidate is judged by, unless more are asked for."""
NUM_SCREENED = 8000
"""Draws by which it is decided whether a candidate is worth that."""
_CHAINS, _CHAINS_OF_ADAPTED = 128, 256
"""Short chains from a fit, and from what was adapted to draws: that may have settled where its
draws happened to be, and chains are what can tell."""
_MORE_CHAINS = 4
"""Times as many run once more, from other draws, where some quantity has perhaps moved."""
_PERHAPS = 0.2
"""Probability, for all quantities together, below which one has: more than a verdict asks for, as
nothing else tells a funnel whose neck the weights do not know."""
_STREAM, _AGAIN = 71, 72
"""Added to the seeds of screening and of a second look, so that none uses draws of another."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """An approximation of a posterior, of the user's model or of it in other coordinates."""

    model: Model
    q: Family | None
    """None for draws made elsewhere whose density vicheck does not have."""
    fit: Fit | None = None
    """Where a solver has found it."""
    code: tuple[str, ...] = ()
    """Lines of Python that make the model, where it is not the user's own."""
    adapted: bool = False
    """Whether its location and shape come from weighted draws."""


@dataclass(frozen=True, eq=False)
class Proposal(Approximation):
    """An approximation that no solver has fitted: something to draw from, and to weight."""

    model: Model
    q: Family
    title: str = ""

    def draws(self, num_draws: int, seed: int = 0) -> Draws:
        """Draw all parameters, and what is derived from them, with both log densities."""
        with double_precision():
            model = self.model.snapshot()
            names = (*reported_quantities(model, None).shapes, *dict(model.program.layout))
            reported = reported_quantities(model, tuple(dict.fromkeys(names)))
            drawn = evaluate_draws_of(model, self.q, reported, num_draws, seed)
        sizes = [int(np.prod(shape)) for shape in reported.shapes.values()]
        parts = np.split(drawn.values, np.cumsum(sizes)[:-1], axis=1)
        values = {
            name: part.reshape(len(part), *shape)
            for (name, shape), part in zip(reported.shapes.items(), parts, strict=True)
        }
        return Draws(values, drawn.log_p, drawn.log_q, title=self.title, model=self.model, q=self)

    def family(self) -> Family:
        """Return what is drawn from."""
        return self.q


def screened(candidate: Candidate, num_draws: int, seed: int) -> PsisResult:
    """Return the PSIS of a few draws of a candidate, without quantities, gradients or chains."""
    assert candidate.q is not None
    with double_precision():
        model = candidate.model.snapshot()
        drawn = evaluate_draws_of(model, candidate.q, Quantities(), num_draws, seed + _STREAM)
    with np.errstate(invalid="ignore"):
        ratios = drawn.log_p - drawn.log_q
    return judged_psis(np.where(np.isnan(ratios), -np.inf, ratios))


def num_chains(candidate: Candidate) -> int:
    """Return how many short chains a candidate is judged by."""
    return _CHAINS_OF_ADAPTED if candidate.adapted else _CHAINS


def judged(
    candidate: Candidate,
    title: str,
    quantities: Spec | None,
    num_draws: int,
    seed: int,
    *,
    chains_below: float = np.inf,
) -> Check:
    """Check a candidate on draws that it has never seen, with short chains and a search.

    Chains take more gradients than all else together, so they are run only where khat is below a
    cut-off, from the same draws. Where it takes more of them to tell, as a mean has perhaps moved,
    or as an estimate has too high a khat of its own and chains do not confirm it, it is looked at
    once more, by other draws and by more chains from them.
    """
    asked = candidate, title, quantities, num_draws
    found = _checked(*asked, seed, num_chains(candidate), chains_below)
    if has_perhaps_moved(found) if can_be_used(found) else _is_open(found):
        return _checked(*asked, seed + _AGAIN, _MORE_CHAINS * num_chains(candidate), chains_below)
    return found


def has_perhaps_moved(checked: Check) -> bool:
    """Whether short chains leave it open that they have moved a mean."""
    chains = checked.chains
    if chains is None:
        return False
    drift = chains.from_starts if chains.starts == "weighted" else chains.from_q
    probabilities = drift.shift_p[np.isfinite(drift.shift_p)]
    return bool(probabilities.size and probabilities.min() * probabilities.size < _PERHAPS)


def _is_open(checked: Check) -> bool:
    """Whether more chains could confirm what cannot be used.

    The weights work, and chains from weighted draws have not disproved them.
    """
    if checked.chains is None or checked.chains.starts != "weighted":
        return False
    found = {finding.code for finding in checked.findings}
    return khat_of(checked) < CLOSE and "chains-drift-weighted" not in found


def _checked(
    candidate: Candidate,
    title: str,
    quantities: Spec | None,
    num_draws: int,
    seed: int,
    chains: int,
    chains_below: float,
) -> Check:
    if candidate.fit is not None:
        asked = num_draws, quantities, None, None, seed, np.inf, None, chains
        return check_fit(candidate.fit, *asked, chains_below=chains_below)
    assert candidate.q is not None
    draws = Proposal(candidate.model, candidate.q, title).draws(num_draws, seed)
    return check_given(
        draws, quantities, chains=chains, num_starts=None, seed=seed, chains_below=chains_below
    )
