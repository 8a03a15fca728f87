"""The verdict on one fit: khat, growth, convergence and other modes together."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from vicheck.judging.chains import evidence_of_chains
from vicheck.judging.cutoffs import (
    KHAT_GROWTH,
    MAX_ITERATE_MCSE,
    MAX_RHAT,
    MISSING_MASS,
    NO_APPROXIMATION,
    REJECTED_BELOW,
    SMALL_GROWTH,
    SMALL_SHIFT,
)
from vicheck.judging.findings import Evidence
from vicheck.judging.findings.khat import KhatFewDraws, KhatGrowing, KhatHigh
from vicheck.judging.findings.optimum import (
    Converged,
    ConvergenceUnknown,
    GradientNotZero,
    GradientUndefined,
    IteratesUnsettled,
    ModeMissed,
    ModesUncertain,
    NoApproximation,
    NotConverged,
    OtherOptimum,
    StanCriterion,
)
from vicheck.judging.levels import decide, verdict_from
from vicheck.judging.psis import evidence_of_ratios
from vicheck.remedies.ladder import AFTER_CHECK, applicable
from vicheck.remedies.remedy import joined
from vicheck.remedies.situations import CheckSituation
from vicheck.results.chains import ShortChains
from vicheck.results.convergence import Convergence, PooledModes
from vicheck.results.psis import PsisResult
from vicheck.results.status import FitStatus
from vicheck.results.verdict import Verdict

__all__ = ["choose_estimate", "judge_check", "misses_a_mode"]


def judge_check(
    result: PsisResult,
    khat_growth: dict[int, float],
    convergence: Convergence | None,
    pooled: PooledModes | None,
    chains: ShortChains | None = None,
) -> Verdict:
    """Turn everything a check has found into a verdict.

    The level is that of khat (see `judge_psis`), but ``unreliable`` when the fit is no
    approximation of anything, or when another mode, which khat cannot see, holds part of the
    posterior, or when short chains leave its weighted draws; and no better than ``usable`` when
    they leave plain ones. What to do depends on whether the fit has converged: if not, keep
    optimising; if it has, change the family or the parametrization.

    Parameters
    ----------
    result
        The PSIS of the draws.
    khat_growth
        khat of the first draws, by their number.
    convergence
        What is known of the optimiser; None for draws that were made elsewhere, of which it is not
        known whether it has converged.
    pooled
        The mixture of all optima, when there are several.
    chains
        Where short chains have led, if any were run.
    """
    evidence = [
        *evidence_of_ratios(result),
        *_growth(khat_growth),
        *_modes(pooled, result.threshold),
        *evidence_of_chains(chains),
        *_convergence(convergence),
    ]
    decider, level = decide(evidence)
    situation = CheckSituation(
        level, frozenset(each.code for each in evidence), result, convergence
    )
    steps = [remedy.step(situation) for remedy in applicable(AFTER_CHECK, situation)]
    return verdict_from(evidence, steps, _hint(decider, situation))


def misses_a_mode(pooled: PooledModes | None, threshold: float) -> bool:
    """Whether another mode holds more of the posterior than can be passed over, or may do so."""
    return pooled is not None and not (pooled.khat < threshold and pooled.missed <= MISSING_MASS)


def choose_estimate(
    khat: float, threshold: float, shift: float, growth: float
) -> Literal["vi", "psis", "neither"]:
    """Choose between the estimates of one quantity.

    Its own khat, that of (h - mean) r, governs the error of its weighted mean: from the threshold
    on, neither can be trusted. Below it the weighted estimate is right, and the plain one will
    do when both agree in mean (``shift``, in sds) and in log sd (``growth``).
    """
    if math.isnan(khat) or khat >= threshold:
        return "neither"
    agree = abs(shift) < SMALL_SHIFT and not abs(growth) >= SMALL_GROWTH
    return "vi" if agree else "psis"


def _hint(decider: Evidence, situation: CheckSituation) -> str:
    """Say what to do about a high khat of a fit whose optimiser is known, or nothing."""
    if not isinstance(decider, KhatHigh | KhatFewDraws) or not situation.made_here:
        return ""
    if isinstance(decider, KhatFewDraws) and not situation.khat_is_hopeless:
        return ""
    remedies = applicable(AFTER_CHECK, situation)
    advice = [each.advice(situation) for each in remedies if each.name != "draw-more"]
    if situation.misses_a_mode:
        return ModeMissed.hint
    if situation.unsettled:
        return f"Mend the fit first: {joined(advice)}."
    if isinstance(decider, KhatHigh) and not situation.khat_is_hopeless:
        return replace(decider, advice=tuple(advice)).hint
    return (
        f"The fit has converged, so optimising longer will not help: {joined(advice)}. The joint "
        "posterior cannot be trusted; the column `use` says which single quantities can."
    )


def _growth(khat_growth: dict[int, float]) -> list[Evidence]:
    known = {size: khat for size, khat in khat_growth.items() if not math.isnan(khat)}
    if len(known) < 2:
        return []
    (first, low), (last, high) = min(known.items()), max(known.items())
    # The error of khat is about (1 + k) / sqrt(M), with M = 3 sqrt(S) ratios in the tail.
    noise = (1.0 + max(low, 0.0)) / math.sqrt(3.0 * math.sqrt(first))
    if high - low <= max(KHAT_GROWTH, 2.0 * noise):
        return []
    return [KhatGrowing(first, low, last, high)]


def _modes(pooled: PooledModes | None, threshold: float) -> list[Evidence]:
    if pooled is None:
        return []
    if not pooled.khat < threshold:
        kind: type[ModesUncertain | ModeMissed | OtherOptimum] = ModesUncertain
    elif misses_a_mode(pooled, threshold):
        kind = ModeMissed
    else:
        kind = OtherOptimum
    return [kind(len(pooled.masses) - 1, pooled.missed, pooled.khat)]


def _convergence(convergence: Convergence | None) -> list[Evidence]:
    if convergence is None:
        return []
    doubts = [*_status(convergence), *_gradient(convergence), *_iterates(convergence)]
    test = convergence.gradient
    if not doubts:
        doubts = [Converged(test.size, test.p_value, test.tolerance)]
    return [*doubts, *_stan_criterion(convergence)]


def _status(convergence: Convergence) -> list[Evidence]:
    status = convergence.status
    if status is FitStatus.CONVERGED:
        return []
    if status in NO_APPROXIMATION:
        kind: type[NoApproximation | ConvergenceUnknown | NotConverged] = NoApproximation
    elif status is not FitStatus.UNKNOWN:
        kind = NotConverged
    elif math.isnan(convergence.gradient.p_value):
        kind = ConvergenceUnknown
    else:  # the gradient on fresh draws decides where the solver's status is not known
        return []
    return [kind(status, convergence.solver, convergence.gradient_norm)]


def _gradient(convergence: Convergence) -> list[Evidence]:
    test = convergence.gradient
    if math.isnan(test.p_value):
        return [GradientUndefined(test.size, test.p_value)]
    if test.p_value < REJECTED_BELOW:
        return [GradientNotZero(test.size, test.p_value, test.worst, convergence.solver)]
    return []


def _iterates(convergence: Convergence) -> list[Evidence]:
    if convergence.rhat > MAX_RHAT or convergence.iterate_mcse > MAX_ITERATE_MCSE:
        return [IteratesUnsettled(convergence.rhat, convergence.iterate_mcse)]
    return []


def _stan_criterion(convergence: Convergence) -> list[Evidence]:
    if math.isnan(convergence.relative_change_median):
        return []
    return [StanCriterion(convergence.relative_change_mean, convergence.relative_change_median)]
