"""`rescue`: try remedies, worst cause first, until the verdict on fresh draws is good enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vicheck.checking.run import check
from vicheck.draws import Approximation, Draws
from vicheck.errors import ArgumentError, require_count
from vicheck.model import Model
from vicheck.quantities import Spec
from vicheck.rescuing.budget import budget_for
from vicheck.rescuing.candidate import NUM_DRAWS, NUM_SCREENED, Candidate, judged
from vicheck.rescuing.ladder import LADDER, ON_REQUEST, Patient, Rung, ordered
from vicheck.rescuing.ranking import CLOSE, Meter, is_promising, khat_of
from vicheck.rescuing.under_way import UnderWay
from vicheck.results.check import Check
from vicheck.results.fit import Fit
from vicheck.results.rescue import Rescue
from vicheck.runtime.interrupts import between_pieces
from vicheck.runtime.progress import Progress, report_of, with_progress
from vicheck.runtime.seeds import Seed, as_seed
from vicheck.runtime.tally import tallied
from vicheck.vi.fitting import fit

__all__ = ["REMEDIES", "rescue"]

REMEDIES = (*(rung.name for rung in LADDER), "mcmc", *(rung.name for rung in ON_REQUEST))
"""Names of all remedies; those after "mcmc" are tried only if asked for."""


@between_pieces()
@with_progress("looking at what went wrong")
def rescue(
    what: Fit | Check | Draws | Model,
    *,
    budget: float | None = None,
    remedies: Sequence[str] | None = None,
    quantities: Spec | None = None,
    num_draws: int = NUM_DRAWS,
    seed: Seed = 0,
    progress: Progress = True,
) -> Rescue:
    """Mend an approximation that failed, or say that it could not be done.

    Remedies are tried one after the other, beginning with those against what `Check.explain` has
    found: optimise further, a mixture with a component on each mode, partly centred coordinates
    (NumPyro), a normal with correlations, a t or split t with heavier tails, moment matching,
    a mixture of t distributions, normals given the coordinates that their widths depend on, a
    flow, and lastly NUTS. What a remedy has made by looking at draws is
    judged on fresh ones, with short chains and a search for modes, and kept if the verdict is
    better. The rescue ends when khat is below 0.5, chains agree, and every mean and sd can be
    used.

    Parameters
    ----------
    what
        A fit, a check, draws with their model, or a model, which is fitted first.
    budget
        Seconds after which no further remedy is started. By default twenty times what the fit
        took, in seconds and in evaluations of the density, but at least five minutes.
    remedies
        Names of those to try, in this order: any of ``vicheck.rescuing.run.REMEDIES``.
    quantities
        As for `vicheck.check`: what has to be right.
    num_draws
        Number of fresh draws by which a promising candidate is judged; 32,000 by default. Another
        8000 decide whether it is promising.
    seed
        An integer or a JAX key. The same seed gives the same bits, unless the budget runs out.
    progress
        Whether to show a progress line on standard error, after a second and only in a terminal or
        a notebook; or a function to be called with each sentence instead.

    Returns
    -------
    Rescue
        The best check, the trail of what was tried, and lines that repeat it. After an interrupt
        it has the best so far.

    Raises
    ------
    TypeError
        For anything else, and for draws without a model: there is nothing to evaluate.

    Examples
    --------
    >>> from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_centred
    >>> model = vicheck.from_numpyro(eight_schools_centred, **EIGHT_SCHOOLS)
    >>> rescued = vicheck.rescue(vicheck.fit(model))
    >>> rescued.succeeded, bool(rescued.check.khat < 0.5)
    (True, True)
    """
    seed = as_seed(seed)
    require_count("num_draws", num_draws, 1000)
    chosen = _chosen(remedies)
    say = report_of(progress)
    spent = budget_for(budget, 0.0, 0)
    meter = Meter("none", np.nan, spent.used)
    with tallied(spent.used):
        if isinstance(what, Model):
            say("fitting")
            what = fit(what, seed=seed)
        elif isinstance(what, Fit):
            spent.used.gradients += what.solution.num_evaluations
        first, candidate = _begun(what, quantities, num_draws, seed)
        if quantities is None:
            quantities = tuple(first.shapes)
        if budget is None:
            took = first.seconds or spent.elapsed
            spent = replace(budget_for(None, took, spent.used.gradients), used=spent.used)
        row = meter.row(first, kept=True, why="where it began")
        row = replace(row, khat_before=float(first.khat))
        patient = Patient(candidate, khat_of(first), first, spent, seed)
        given = not isinstance(what, Fit)
        run = UnderWay(patient, row, quantities, num_draws, say, given=given)
        try:
            run.go(chosen if remedies is not None else _by_cause(first, chosen))
        except KeyboardInterrupt:
            run.stopped = "interrupted"
        return run.result(seed)


def _begun(
    what: Any, quantities: Spec | None, num_draws: int, seed: int
) -> tuple[Check, Candidate]:
    """Return the check of what is to be rescued, and it as a candidate."""
    if isinstance(what, Fit):
        candidate = Candidate(what.model, what.q, what)
        few = min(NUM_SCREENED, num_draws)
        checked = check(what, num_draws=few, quantities=quantities, seed=seed, chains=False)
        if is_promising(checked.psis):
            asked = quantities, num_draws, seed + 1
            checked = judged(candidate, "", *asked, chains_below=CLOSE)
        return checked, candidate
    if isinstance(what, Draws):
        checked = check(what, quantities=quantities)
    elif isinstance(what, Check):
        checked = what
    else:
        raise TypeError(
            "what must be a Fit, a Check, Draws with their model, or a Model, got "
            f"{type(what).__name__}"
        )
    if checked.model is None:
        raise ArgumentError(
            "what",
            "must come with its model, because remedies evaluate its density: make one by "
            "vicheck.from_numpyro, from_pymc or from_stan and pass it, or a fit of it",
        )
    q = checked.q
    if isinstance(q, Approximation):
        q = q.family()
    return checked, Candidate(checked.model, q)


def _chosen(remedies: Sequence[str] | None) -> list[Rung | None]:
    if remedies is None:
        return [*LADDER, None]
    by_name: dict[str, Rung | None] = {rung.name: rung for rung in (*LADDER, *ON_REQUEST)}
    by_name["mcmc"] = None
    if isinstance(remedies, str):
        raise ArgumentError("remedies", f"must be a list of names, got the string {remedies!r}")
    for name in remedies:
        if name not in by_name:
            raise ArgumentError("remedies", f"must be among {', '.join(REMEDIES)}, got {name!r}")
    return [by_name[name] for name in remedies]


def _by_cause(checked: Check, rungs: Sequence[Rung | None]) -> list[Rung | None]:
    """Return remedies in the order of what has gone wrong; NUTS stays the last."""
    try:
        causes = [cause.code for cause in checked.explain().causes]
    except Exception:  # an explanation is of use, but not needed
        causes = []
    return [*ordered([rung for rung in rungs if rung is not None], causes), None]
