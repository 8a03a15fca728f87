"""`rescue`: try remedies, worst cause first, until the verdict on fresh draws is good enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vicheck.checking.run import check
from vicheck.draws import Approximation, Draws
from vicheck.errors import ArgumentError, in_brief, require_count
from vicheck.model import Model
from vicheck.quantities import Spec
from vicheck.rescuing.budget import Budget, budget_for
from vicheck.rescuing.candidate import NUM_CHAINS, NUM_DRAWS, Candidate, judged
from vicheck.rescuing.ladder import LADDER, Patient, Rung, ordered
from vicheck.rescuing.sampling import sampled
from vicheck.results.check import Check
from vicheck.results.fit import Fit
from vicheck.results.reference import Reference
from vicheck.results.rescue import Attempt, Rescue
from vicheck.runtime.interrupts import between_pieces
from vicheck.vi.fitting import fit

__all__ = ["REMEDIES", "rescue"]

REMEDIES = (*(rung.name for rung in LADDER), "mcmc")
"""Names of all remedies."""

_LEVELS = {"none": 0, "unreliable": 0, "usable": 1, "good": 2}
_CLOSE = 0.5
"""khat below which weighted estimates have a finite variance (the paper, section 2)."""


@between_pieces()
def rescue(
    what: Fit | Check | Draws | Model,
    *,
    budget: float | None = None,
    remedies: Sequence[str] | None = None,
    quantities: Spec | None = None,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Rescue:
    """Mend an approximation that failed, or say that it could not be done.

    Remedies are tried one after the other, those first that are against what `Check.explain` has
    found: optimise further, a part for each mode, partly centred coordinates (NumPyro), a normal
    with correlations, a t or split t with heavier tails, moment matching, a mixture of t, and at
    last NUTS. Whatever one has made by looking at draws is judged on fresh ones, with short chains
    and a search for modes, and kept if the verdict is better. It ends when khat is below 0.5,
    chains agree, and every mean and sd can be used.

    Parameters
    ----------
    what
        A fit, a check or draws with their model, or a model, which is fitted first.
    budget
        Seconds after which no further remedy is begun; by default twenty times what the fit took,
        in seconds and in evaluations of the density, and at least a minute.
    remedies
        Names of those to try, in this order: any of ``vicheck.rescuing.run.REMEDIES``. One name
        carries out a single remedy.
    quantities
        As for `vicheck.check`: what has to be right.
    num_draws
        Fresh draws that each candidate is judged by; 100,000 by default.
    seed
        The same seed gives the same bits, as long as the budget does not end it.
    progress
        Called with a sentence before each remedy.

    Returns
    -------
    Rescue
        With the best check, the trail of what was tried, and lines that repeat it. Interrupted, it
        has the best so far.

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
    require_count("seed", seed, 0)
    require_count("num_draws", num_draws, 1000)
    chosen = _chosen(remedies)
    say = progress or (lambda sentence: None)
    start = time.perf_counter()
    if isinstance(what, Model):
        say("fitting")
        what = fit(what, seed=seed)
    first, candidate = _begun(what, quantities, num_draws, seed)
    if quantities is None:
        quantities = tuple(first.shapes)
    solution = None if candidate.fit is None else candidate.fit.solution
    spent = budget_for(
        budget,
        first.seconds or time.perf_counter() - start,
        0 if solution is None else solution.num_evaluations,
    )
    spent.spend(_cost_of(first) + (0 if solution is None else solution.num_evaluations))
    seconds = time.perf_counter() - start
    trail = [_row("none", first, first, spent, 0, seconds, kept=True, why="where it began")]
    patient = Patient(candidate, first, spent, seed)
    run = _Run(patient, trail, quantities, num_draws, say)
    try:
        run.go(chosen if remedies is not None else _by_cause(first, chosen))
    except KeyboardInterrupt:
        run.stopped = "interrupted"
    return run.result(seed)


class _Run:
    """A rescue under way: the best candidate so far, and the trail."""

    def __init__(
        self,
        patient: Patient,
        trail: list[Attempt],
        quantities: Spec,
        num_draws: int,
        say: Callable[[str], None],
    ) -> None:
        self.patient, self.trail, self.say = patient, trail, say
        self.quantities, self.num_draws = quantities, num_draws
        self.kept: list[str] = []
        self.reference: Reference | None = None
        self.stopped = ""
        self.original = patient.check

    def go(self, rungs: Sequence[Rung | None]) -> None:
        """Try remedies, None for NUTS, until the verdict is good enough or the budget used up."""
        for number, rung in enumerate(rungs, start=1):
            if _is_enough(self.patient.check):
                return
            if self.patient.budget.is_used_up:
                self.stopped = "the budget is used up"
                return
            if rung is None:
                self._sample()
            else:
                self._try(rung, number)

    def _try(self, rung: Rung, number: int) -> None:
        """Carry a remedy out; if it raises, that is a row of the trail."""
        self.say(f"{rung.name}: khat is {self.patient.check.khat:.2f}")
        before, used, begun = self.patient.check, self.patient.budget.used, time.perf_counter()

        def row(after: Check | None, kept: bool, why: str) -> Attempt:
            seconds = time.perf_counter() - begun
            spent = self.patient.budget
            return _row(rung.name, before, after, spent, used, seconds, kept=kept, why=why)

        try:
            made = rung.run(self.patient)
            if isinstance(made, str):
                self.trail.append(row(None, False, made))
                return
            seed = self.patient.seed + 1000 * number  # draws that no remedy has seen
            after = judged(made, f"rescued: {rung.name}", self.quantities, self.num_draws, seed)
            self.patient.budget.spend(_cost_of(after))
        except Exception as error:  # whatever a density or a solver can raise
            self.trail.append(row(None, False, f"failed: {in_brief(error)}"))
            return
        better = _rank(after) > _rank(before)
        self.trail.append(row(after, better, "" if better else "no better than before"))
        if better:
            budget, start = self.patient.budget, self.patient.seed
            self.kept.append(rung.name)
            self.patient = Patient(made, after, budget, start)

    def _sample(self) -> None:
        """Sample by NUTS; its draws stand beside the best check."""
        self.say("mcmc: sampling")
        before, used, begun = self.patient.check, self.patient.budget.used, time.perf_counter()
        why, kept = "", False
        try:
            found = sampled(self.patient)
            if isinstance(found, str):
                why = found
            else:
                kept, self.reference = True, found
                why = found.caution or "chains have mixed"
                self.kept.append("mcmc")
        except Exception as error:
            why = f"failed: {in_brief(error)}"
        seconds = time.perf_counter() - begun
        spent = self.patient.budget
        self.trail.append(_row("mcmc", before, None, spent, used, seconds, kept=kept, why=why))

    def result(self, seed: int) -> Rescue:
        """Return what has come of it."""
        best = self.patient.check
        mixed = self.reference is not None and not self.reference.caution
        succeeded = _can_be_used(best) or mixed
        return Rescue(
            check=best,
            attempts=tuple(self.trail),
            succeeded=succeeded,
            sentence=self._sentence(best, mixed),
            code=self._code(seed),
            fit=self.patient.candidate.fit,
            reference=self.reference,
            before=self.original,
        )

    def _sentence(self, best: Check, mixed: bool) -> str:
        if best is self.original and _is_enough(best):
            return f"Nothing had to be mended: the verdict is {best.verdict.level}."
        change = f"khat {self.original.khat:.2f} before and {best.khat:.2f} after"
        done = ", ".join(self.kept)
        if _can_be_used(best):
            return f"Rescued by {done}: {change}, and short chains do not contradict."
        if mixed:
            return "No approximation will do; draws by NUTS have mixed, and are what to use."
        reason = f" ({self.stopped})" if self.stopped else ""
        drift = _largest_drift(best)
        moving = f" Short chains move {drift[0]} by {drift[1]:+.2f} sd." if drift else ""
        return f"Not rescued{reason}: {change}; {best.verdict.sentence}{moving}"

    def _code(self, seed: int) -> str:
        names = ", ".join(f'"{name}"' for name in self.kept)
        lines = [*self.patient.candidate.code]
        call = f"rescued = vicheck.rescue(fit, remedies=[{names}], seed={seed})"
        return "\n".join([*lines, call] if self.kept else ["check = vicheck.check(fit)"])


def _begun(
    what: Any, quantities: Spec | None, num_draws: int, seed: int
) -> tuple[Check, Candidate]:
    """Return the check of what is to be rescued, and it as a candidate."""
    if isinstance(what, Fit):
        checked = check(
            what, num_draws=num_draws, quantities=quantities, seed=seed, chains=NUM_CHAINS
        )
        return checked, Candidate(what.model, what.q, what)
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
    by_name: dict[str, Rung | None] = {rung.name: rung for rung in LADDER} | {"mcmc": None}
    if remedies is None:
        return list(by_name.values())
    if isinstance(remedies, str):
        raise ArgumentError("remedies", f"must be a list of names, got the string {remedies!r}")
    for name in remedies:
        if name not in by_name:
            raise ArgumentError("remedies", f"must be of {', '.join(by_name)}, got {name!r}")
    return [by_name[name] for name in remedies]


def _by_cause(checked: Check, rungs: Sequence[Rung | None]) -> list[Rung | None]:
    """Return remedies in the order of what has gone wrong; NUTS stays the last."""
    try:
        causes = [cause.code for cause in checked.explain().causes]
    except Exception:  # an explanation is of use, but not needed
        causes = []
    return [*ordered([rung for rung in rungs if rung is not None], causes), None]


def _is_enough(checked: Check) -> bool:
    """Whether there is nothing left to gain."""
    return _can_be_used(checked) and bool(checked.khat < _CLOSE or np.isnan(checked.khat))


def _can_be_used(checked: Check) -> bool:
    """Whether all estimates may be used, and short chains have not contradicted them."""
    if checked.verdict.level not in ("good", "usable"):
        return False
    return bool((checked.moments["use"] != "neither").all())


def _rank(checked: Check) -> tuple[float, ...]:
    """Return what candidates are compared by: what can be used first, and then khat."""
    level = checked.verdict.level
    recommended = float((checked.moments["use"] != "neither").mean())
    khat = float(checked.khat)
    if level == "good":
        khat = min(khat, _CLOSE)
    usable = float(_can_be_used(checked))
    return usable, float(_LEVELS[level] > 0), round(recommended, 2), -round(khat, 2)


def _cost_of(checked: Check) -> int:
    """Return how many densities a check has evaluated."""
    of_chains = 0
    if checked.chains is not None:
        of_chains = checked.chains.num_chains * checked.chains.num_gradients
    return len(checked.log_p) + of_chains


def _largest_drift(checked: Check) -> tuple[str, float] | None:
    chains = checked.chains
    if chains is None or np.isnan(chains.drift).all():
        return None
    worst = int(np.nanargmax(np.abs(chains.drift)))
    return chains.names[worst], float(chains.drift[worst])


def _row(
    name: str,
    before: Check,
    after: Check | None,
    budget: Budget,
    used: int,
    seconds: float,
    *,
    kept: bool,
    why: str,
) -> Attempt:
    drift = None if after is None else _largest_drift(after)
    return Attempt(
        remedy=name,
        khat_before=float(before.khat),
        khat_after=np.nan if after is None else float(after.khat),
        level="" if after is None else after.verdict.level,
        effective=np.nan if after is None else float(after.psis.ess) / after.psis.num_draws,
        drift=np.nan if drift is None else drift[1],
        evaluations=budget.used - used,
        seconds=seconds,
        kept=kept,
        why=why,
    )
