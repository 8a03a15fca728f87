"""The verdict on one fit: khat, growth, convergence and other modes together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vicheck.judging.chains import evidence_of_chains
from vicheck.judging.cutoffs import (
    ENOUGH_EFFECTIVE,
    ERRORS_AWAY,
    GOOD_BELOW,
    KHAT_GROWTH,
    KHAT_JUMP,
    LEAST_ARRIVED,
    MAX_ITERATE_MCSE,
    MAX_RHAT,
    MODE_GROWTH,
    MODE_SHIFT,
    NO_APPROXIMATION,
    PLAIN_GROWTH,
    PLAIN_SHIFT,
    REJECTED_BELOW,
)
from vicheck.judging.draws import evidence_of_draws
from vicheck.judging.findings import Evidence
from vicheck.judging.findings.khat import (
    KhatConstant,
    KhatFewDraws,
    KhatGood,
    KhatGrowing,
    KhatHigh,
    KhatUnsteady,
)
from vicheck.judging.findings.modes import (
    EndlessTail,
    ModeBeyondReach,
    ModeMissed,
    ModesUncertain,
    NoOtherMode,
    OtherOptimum,
    SearchUnfinished,
)
from vicheck.judging.findings.optimum import (
    Converged,
    ConvergenceUnknown,
    GradientNotZero,
    GradientUndefined,
    IteratesUnsettled,
    NoApproximation,
    NotConverged,
    StanCriterion,
    StillRising,
)
from vicheck.judging.findings.plain import FewEffectiveDraws, PlainOff
from vicheck.judging.levels import decide, verdict_from
from vicheck.judging.psis import evidence_of_ratios
from vicheck.remedies.ladder import AFTER_CHECK, applicable
from vicheck.remedies.remedy import joined
from vicheck.remedies.situations import MISSED, CheckSituation
from vicheck.results.chains import ShortChains
from vicheck.results.convergence import Convergence, PooledModes
from vicheck.results.modes import ModeSearch
from vicheck.results.psis import PsisResult
from vicheck.results.screening import Screening
from vicheck.results.status import FitStatus
from vicheck.results.verdict import Verdict
from vicheck.stats.differences import Difference

__all__ = ["has_converged", "judge_check", "spoilt_by_modes"]


def judge_check(
    result: PsisResult,
    khat_growth: dict[int, float],
    convergence: Convergence | None,
    pooled: PooledModes | None,
    search: ModeSearch | None = None,
    *,
    corrections: Mapping[str, Difference] | None = None,
    screening: Screening | None = None,
    chains: ShortChains | None = None,
    estimates: Sequence[Evidence] = (),
) -> Verdict:
    """Turn everything a check has found into a verdict.

    The level is that of khat (see `judge_psis`), but ``unreliable`` when the fit is no
    approximation of anything, or when another mode, which khat cannot see, holds part of the
    posterior, or when short chains leave its weighted draws, or when a mean or an sd cannot be
    used; and no better than ``usable`` when chains leave plain draws. What to do depends on whether
    the fit has converged: if not, keep optimising; if it has, change the family or the
    parametrization.

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
    search
        How other modes were searched for; None where they were not.
    corrections
        By how much the weights correct each quantity.
    screening
        What was seen of the draws themselves.
    chains
        Where short chains have led, if any were run.
    estimates
        What `evidence_of_estimates` says of the means and sds of single quantities.
    """
    modes = _modes(pooled, search, result.threshold)
    evidence = [
        *_rising(convergence),
        *_told_where(evidence_of_ratios(result), search, modes),
        *evidence_of_draws(screening),
        *_plain(result, corrections or {}),
        *estimates,
        *([] if result.tail_fits is not None else _growth(khat_growth)),
        *modes,
        *evidence_of_chains(chains),
        *_convergence(convergence),
    ]
    decider, level = decide(evidence)
    situation = CheckSituation(
        level, frozenset(each.code for each in evidence), result, convergence
    )
    steps = [remedy.step(situation) for remedy in applicable(AFTER_CHECK, situation)]
    return verdict_from(evidence, steps, _hint(decider, evidence, situation))


def _misses_a_mode(pooled: PooledModes | None, threshold: float) -> bool:
    """Whether another mode changes an estimate by more than can be passed over, or may do so."""
    return pooled is not None and not (pooled.khat < threshold and not _changed(pooled).any())


def spoilt_by_modes(
    names: Sequence[str],
    pooled: PooledModes | None,
    search: ModeSearch | None,
    threshold: float,
) -> NDArray[np.bool_]:
    """Say of which quantities no estimate can be used, because other modes change them or may."""
    if search is not None and search.endless:
        return np.ones(len(names), bool)
    if pooled is None:
        lost = any(isinstance(each, ModeBeyondReach) for each in _searched(search))
        return np.full(len(names), lost)
    if not pooled.khat < threshold:
        return np.ones(len(names), bool)
    changed = dict(zip(pooled.names, _changed(pooled).tolist(), strict=True))
    # Of a quantity that was not looked at it is not known that nothing changes it.
    return np.array([changed.get(name, any(changed.values())) for name in names], bool)


def _changed(pooled: PooledModes) -> NDArray[np.bool_]:
    """Say which quantities other modes change in mean or sd."""
    same = (np.abs(pooled.shift) <= MODE_SHIFT) & (np.abs(pooled.growth) <= MODE_GROWTH)
    return np.asarray(~same)


def _hint(decider: Evidence, evidence: list[Evidence], situation: CheckSituation) -> str:
    """Say what to do about a high khat of a fit whose optimiser is known, or nothing."""
    if not isinstance(decider, KhatHigh | KhatFewDraws) or not situation.is_tested:
        return ""
    if isinstance(decider, KhatFewDraws) and not situation.khat_is_hopeless:
        return ""
    remedies = applicable(AFTER_CHECK, situation)
    advice = [each.advice(situation) for each in remedies if each.name != "draw-more"]
    if situation.misses_a_mode:
        return next(each.hint for each in evidence if each.code in MISSED)
    if situation.unsettled:
        return f"Improve the fit first: {joined(advice)}."
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
    last, khat = max(known.items())
    earlier = sorted(known.items())[:-1]
    for size, low in earlier:
        errors = 2.0 if size == earlier[0][0] else 3.0  # many looks see a rise by chance
        if khat - low > max(KHAT_GROWTH, errors * _noise(size, low)):
            return [KhatGrowing(size, low, last, khat)]
    for size, other in earlier:
        higher = max(other, khat)
        if higher >= GOOD_BELOW and abs(other - khat) > max(KHAT_JUMP, 3.0 * _noise(size, higher)):
            return [KhatUnsteady(size, other, last, khat)]
    return []


def _noise(num_draws: int, khat: float) -> float:
    """Return the error of khat: about (1 + k) / sqrt(M), with M = 3 sqrt(S) ratios in the tail."""
    return (1.0 + max(khat, 0.0)) / math.sqrt(3.0 * math.sqrt(num_draws))


def _plain(result: PsisResult, corrections: Mapping[str, Difference]) -> list[Evidence]:
    """Say whether plain estimates will do, where khat says that weighted ones do."""
    if not result.khat < result.threshold:
        return []
    ess = float(result.ess)
    if ess < ENOUGH_EFFECTIVE < result.num_draws:
        return [FewEffectiveDraws(ess, result.num_draws)]

    def excess(one: Difference) -> float:
        """Return by what factor a correction that is no chance is too large."""
        mean = abs(one.shift) / PLAIN_SHIFT * (abs(one.shift) > ERRORS_AWAY * one.shift_error)
        sd = abs(one.growth) / PLAIN_GROWTH * (abs(one.growth) > ERRORS_AWAY * one.growth_error)
        return max(0.0 if math.isnan(each) else each for each in (mean, sd))

    worst = max(corrections, key=lambda name: excess(corrections[name]), default="")
    if not worst or excess(corrections[worst]) <= 1.0:
        return []
    return [PlainOff(worst, corrections[worst].shift, corrections[worst].growth)]


def _told_where(
    evidence: list[Evidence], search: ModeSearch | None, modes: list[Evidence]
) -> list[Evidence]:
    """Let a good khat say what is known beyond the draws that it rests on."""
    known = ""
    if search is None:
        known = "; other modes were not searched for"
    elif any(isinstance(each, SearchUnfinished) for each in modes):
        known = "; little is known about other modes"
    elif any(isinstance(each, NoOtherMode | OtherOptimum) for each in modes):
        that_matters = " that matters" * bool(search.num_others)
        known = f"; {search.num_starts} starts found no other mode{that_matters}"
    return [
        replace(each, elsewhere=known) if isinstance(each, KhatGood | KhatConstant) else each
        for each in evidence
    ]


def _is_unfinished(search: ModeSearch) -> bool:
    return search.num_arrived < LEAST_ARRIVED * search.num_starts


def _modes(
    pooled: PooledModes | None, search: ModeSearch | None, threshold: float
) -> list[Evidence]:
    if search is not None and search.endless:
        return [EndlessTail(search.endless)]  # where nothing ends, modes are no matter
    if pooled is None:
        return _searched(search)
    if not pooled.khat < threshold:
        kind: type[ModesUncertain | ModeMissed | OtherOptimum] = ModesUncertain
    elif _misses_a_mode(pooled, threshold):
        kind = ModeMissed
    else:
        kind = OtherOptimum
    size = np.maximum(np.abs(pooled.shift) / MODE_SHIFT, np.abs(pooled.growth) / MODE_GROWTH)
    worst = int(np.argmax(np.nan_to_num(size))) if len(size) else 0
    numbers = (
        (pooled.names[worst], float(pooled.shift[worst]), float(pooled.growth[worst]))
        if len(size)
        else ("", math.nan, math.nan)
    )
    symmetry = "" if search is None else search.symmetry
    return [kind(len(pooled.masses) - 1, pooled.missed, pooled.khat, *numbers, symmetry)]


def _searched(search: ModeSearch | None) -> list[Evidence]:
    """Say what the search has found where no other mode was fitted."""
    if search is None:
        return []
    counts = search.num_starts, search.num_arrived, search.num_others
    if not search.others_are_negligible:  # found is found, however many climbs did not arrive
        return [ModeBeyondReach(search.num_others, search.share_of_others, search.symmetry)]
    return [SearchUnfinished(*counts) if _is_unfinished(search) else NoOtherMode(*counts)]


def has_converged(convergence: Convergence | None) -> bool:
    """Whether q is known to be an optimum."""
    return any(isinstance(each, Converged) for each in _convergence(convergence))


def _convergence(convergence: Convergence | None) -> list[Evidence]:
    if convergence is None:
        return []
    doubts = [*_status(convergence), *_gradient(convergence), *_iterates(convergence)]
    test = convergence.gradient
    if not doubts and not _rising(convergence):
        doubts = [Converged(test.size, test.p_value, test.tolerance)]
    return [*doubts, *_stan_criterion(convergence)]


def _rising(convergence: Convergence | None) -> list[Evidence]:
    """Say that the run ended too early: a longer run would change all else."""
    if convergence is None or not convergence.elbo_rise_steps:
        return []
    known = convergence.elbo_rise, convergence.elbo_rise_steps, convergence.solver
    return [StillRising(*known)]


def _status(convergence: Convergence) -> list[Evidence]:
    status = convergence.status
    if not convergence.gradient.num_draws:  # nothing was tested, and the ELBO has the word
        return []
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
    if not test.num_draws:
        return []
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
