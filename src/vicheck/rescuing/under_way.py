"""A rescue under way: remedies are carried out, screened by few draws, and judged by many.

What a remedy has made is looked at twice, on draws that it has not seen: a few thousand, which need
no gradients, say whether khat can be below 0.5; only then many draws and short chains judge it. A
candidate that is better and not good enough is what the next remedy begins with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from vicheck.errors import in_brief
from vicheck.quantities import Spec
from vicheck.rescuing.believed import doubtful_sds, endless_sds
from vicheck.rescuing.candidate import NUM_SCREENED, Candidate, judged, screened
from vicheck.rescuing.ladder import Patient, Rung
from vicheck.rescuing.ranking import (
    CLOSE,
    Meter,
    can_be_used,
    is_enough,
    is_promising,
    khat_of,
    largest_drift,
    num_draws_of,
    rank,
)
from vicheck.rescuing.sampling import duration, sampled
from vicheck.results.check import Check
from vicheck.results.reference import MIN_ESS_PER_CHAIN, Reference
from vicheck.results.rescue import Attempt, Rescue

__all__ = ["UnderWay"]

_NOTICED = 0.02
"""khat has to fall by more than this on few draws for a candidate to be better."""


class UnderWay:
    """The most promising candidate so far, the best that was judged, and the trail."""

    def __init__(
        self,
        patient: Patient,
        first: Attempt,
        quantities: Spec,
        num_draws: int,
        say: Callable[[str], None],
        *,
        given: bool = False,
    ) -> None:
        self._given = given
        self.patient, self.trail, self.say = patient, [first], say
        self.quantities, self.num_draws = quantities, num_draws
        self.best, self.original = patient.check, patient.check
        self.best_candidate = patient.candidate
        self.kept: list[str] = []
        self.kept_for_best: tuple[str, ...] = ()
        self.reference: Reference | None = None
        self.stopped = ""
        self._number = 0

    @property
    def is_judged(self) -> bool:
        """Whether the most promising candidate has been judged by all draws and chains."""
        return self.best_candidate is self.patient.candidate and self.best.chains is not None

    def go(self, rungs: Sequence[Rung | None]) -> None:
        """Try remedies, None for NUTS, until the verdict is good enough or the budget used up."""
        for rung in rungs:
            if self._is_enough:
                return
            if self.patient.budget.is_used_up:
                self.stopped = "the budget is used up"
                return
            if rung is None:
                self._settle()
                if not self._is_enough:
                    self._sample()
                return
            self._try(rung)
        self._settle()

    def _try(self, rung: Rung) -> None:
        """Carry a remedy out; if it raises, that is a row of the trail."""
        self._number += 1
        self.say(f"{rung.name}: khat is {self.patient.khat:.2f}")
        meter = self._meter(rung.name)
        after: Check | None = None
        try:
            made = rung.run(self.patient)
            if isinstance(made, str):
                self.trail.append(meter.row(None, kept=False, why=made))
                return
            seen = screened(made, min(NUM_SCREENED, self.num_draws), self._seed)
            if is_promising(seen):
                after = self._judge(made, rung.name, chains_below=CLOSE)
        except Exception as error:  # whatever a density or a solver can raise
            self.trail.append(meter.row(None, kept=False, why=f"failed: {in_brief(error)}"))
            return
        khat = khat_of(seen) if after is None else khat_of(after)
        better = khat < self.patient.khat - _NOTICED
        why = "khat above 0.5 on a few draws: not judged further" if after is None else ""
        if after is not None:
            better = better or rank(after) > rank(self.best)
        if better:
            self.kept.append(rung.name)
            self.patient = replace(
                self.patient, candidate=made, khat=khat, check=after or self.patient.check
            )
        else:
            why = "no better than before"
        if after is not None and rank(after) > rank(self.best):
            self._take(made, after)
        self.trail.append(meter.row(after or seen, kept=better, why=why))

    def _judge(self, made: Candidate, name: str, chains_below: float = np.inf) -> Check:
        title = f"rescued: {name}"
        asked = self.quantities, self.num_draws, self._seed
        return judged(made, title, *asked, chains_below=chains_below)

    def _take(self, made: Candidate, after: Check) -> None:
        self.best_candidate, self.best = made, after
        self.kept_for_best = tuple(self.kept)

    @property
    def _seed(self) -> int:
        return self.patient.seed + 1000 * self._number  # draws that no remedy has seen

    def _meter(self, name: str) -> Meter:
        return Meter(name, self.patient.khat, self.patient.budget.used)

    def _settle(self) -> None:
        """Judge the most promising candidate by all draws and chains, if it has not been."""
        if self.is_judged or self.patient.budget.is_used_up or self.patient.candidate.q is None:
            return
        self._number += 1
        self.say("judging the most promising")
        meter = self._meter("judgement")
        try:
            after = self._judge(self.patient.candidate, self.kept[-1] if self.kept else "none")
        except Exception as error:
            self.trail.append(meter.row(None, kept=False, why=f"failed: {in_brief(error)}"))
            return
        first = self.best.chains is None and self.best_candidate is self.patient.candidate
        kept = first or rank(after) > rank(self.best)
        if kept:
            self._take(self.patient.candidate, after)
        self.patient = replace(self.patient, khat=khat_of(after), check=after)
        self.trail.append(meter.row(after, kept=kept, why="the most promising, judged in full"))

    def _sample(self) -> None:
        """Sample by NUTS; its draws stand beside the best check."""
        self.say("mcmc: sampling")
        meter = self._meter("mcmc")
        why, kept = "", False
        try:
            found = sampled(self.patient)
            if isinstance(found, str):
                why = found
            else:
                kept, self.reference = True, found
                why = found.caution or "chains have mixed"
        except Exception as error:
            why = f"failed: {in_brief(error)}"
        self.trail.append(meter.row(None, kept=kept, why=why))

    def result(self, seed: int) -> Rescue:
        """Return what has come of it."""
        mixed = self.reference is not None and not self.reference.caution
        doubtful = {}
        if mixed and self.reference is not None and not self._is_usable:
            doubtful = doubtful_sds(self.reference, self.best)
        return Rescue(
            check=self.best,
            attempts=tuple(self.trail),
            succeeded=self._is_usable or (mixed and not doubtful),
            sentence=self._sentence(mixed, doubtful),
            code=self._code(seed),
            remedies=self._remedies,
            fit=self.best_candidate.fit,
            reference=self.reference,
            doubtful=tuple(doubtful),
            before=self.original,
        )

    @property
    def _is_usable(self) -> bool:
        """Whether the best can be used, and chains have had their say.

        They need not have had it of a check that the user brought: it is returned as it is.
        """
        as_given = self._given and self.best is self.original
        return can_be_used(self.best) and (as_given or self.best.chains is not None)

    @property
    def _is_enough(self) -> bool:
        return self._is_usable and is_enough(self.best)

    def _sentence(self, mixed: bool, doubtful: dict[str, str]) -> str:
        best = self.best
        if best is self.original and self._is_enough:
            return f"There was nothing to mend: the verdict is {best.verdict.level}."
        change = _change(self.original, best)
        if self._is_usable:
            done = ", ".join(self.kept_for_best) or "a closer look alone"
            return f"Rescued by {done}: {change}, and short chains do not disagree."
        if doubtful:
            return _in_doubt(doubtful)
        if mixed:
            return "No approximation is good enough, but NUTS has mixed: use its draws."
        reason = f" ({self.stopped})" if self.stopped else ""
        endless = endless_sds(best) if best.verdict.level in ("good", "usable") else []
        if endless:
            others = f", and {len(endless) - 1} more" if len(endless) > 1 else ""
            return (
                f"Not rescued{reason}: {change}, but the tail of {endless[0]}{others} is so heavy "
                f"that there may be no sd. Means and quantiles may be used.{self._of_nuts()}"
            )
        said = best.verdict.sentence
        return f"Not rescued{reason}: {change}; {said}{self._drifting()}{self._of_nuts()}"

    def _drifting(self) -> str:
        drift = largest_drift(self.best)
        if self.best.chains is None:
            return " It was not looked at by short chains."
        if drift is None:
            return ""
        count = int((np.abs(self.best.chains.drift) > 0.1).sum())
        of_all = f", and {count - 1} others by more than 0.1" if count > 1 else ""
        return f" Short chains move the mean of {drift[0]} by {drift[1]:+.2f} sd{of_all}."

    def _of_nuts(self) -> str:
        """Say what NUTS has cost or would cost, if it was come to."""
        row = self.trail[-1]
        if row.remedy != "mcmc" or not row.why:
            return ""
        found = self.reference
        if found is None:
            return f" {row.why if row.why.startswith('NUTS') else f'NUTS {row.why}'}."
        took = f"in {row.gradients:,} gradients and {duration(row.seconds)}"
        least = MIN_ESS_PER_CHAIN * found.num_chains
        seldom = min(found.min_ess, found.min_tail_ess)
        more = ""
        if seldom < least:
            more = f" An ESS of {least} would take at least {least / seldom:.2g} times as long."
        return f" NUTS has not mixed {took}: {row.why}.{more}"

    @property
    def _remedies(self) -> tuple[str, ...]:
        return *self.kept_for_best, *(("mcmc",) if self.reference is not None else ())

    def _code(self, seed: int) -> str:
        if not self._remedies:
            return "check = vicheck.check(fit)"
        names = ", ".join(f'"{name}"' for name in self._remedies)
        call = f"rescued = vicheck.rescue(fit, remedies=[{names}], seed={seed})"
        return "\n".join([*self.best_candidate.code, call])


def _in_doubt(doubtful: dict[str, str]) -> str:
    """Say of which sds draws by NUTS do not tell, and why."""
    name, reason = next(iter(doubtful.items()))
    others = f", nor {len(doubtful) - 1} more" if len(doubtful) > 1 else ""
    return (
        f"Not rescued: draws by NUTS have mixed, but the sd of {name} is not to be had from them"
        f"{others}: {reason}, as where a tail is too heavy. Quantiles may be used."
    )


def _change(before: Check, after: Check) -> str:
    """Say what khat was and is: with the numbers of draws where these differ, as it grows."""
    if before is after:
        return f"khat {before.khat:.2f}"
    numbers = [num_draws_of(each) for each in (before, after)]
    of = [f" of {number:,} draws" if len(set(numbers)) > 1 else "" for number in numbers]
    return f"khat {before.khat:.2f}{of[0]} before and {after.khat:.2f}{of[1]} after"
