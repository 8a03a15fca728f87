"""The verdict on one vector of log ratios."""

from __future__ import annotations

from vicheck.judging.cutoffs import ENOUGH_DRAWS, GOOD_BELOW, UNSURE_ABOVE
from vicheck.judging.findings import Evidence
from vicheck.judging.findings.khat import (
    DrawsWherePIsZero,
    KhatConstant,
    KhatFewDraws,
    KhatGood,
    KhatHigh,
    KhatUncertain,
    KhatUndefined,
    KhatUsable,
)
from vicheck.judging.findings.tail import NotPareto, TailUnseen
from vicheck.judging.levels import verdict_from
from vicheck.remedies.ladder import AFTER_CHECK, applicable
from vicheck.remedies.situations import CheckSituation
from vicheck.results.psis import PsisResult, PsisStatus
from vicheck.results.tail_fits import TailFits
from vicheck.results.verdict import Verdict

__all__ = ["evidence_of_ratios", "judge_psis"]


def judge_psis(result: PsisResult) -> Verdict:
    """Turn the PSIS of one vector of log ratios into a verdict.

    ``good`` when khat is below 0.5 and the threshold, ``usable`` below the threshold,
    ``unreliable`` from there on, and ``none`` when khat is undefined. The threshold is
    min(1 - 1 / log10(S), 0.7); 0.5 and 0.7 are the paper's (section 2.2). The ratios of a check may
    turn out to have no Pareto tail: then a shorter tail decides, or nothing does.

    Examples
    --------
    >>> import numpy as np
    >>> verdict = judge_psis(vicheck.psis(np.random.default_rng(1).normal(size=4000)))
    >>> verdict.level
    'good'
    >>> print(verdict)
    The approximation is good where its draws lie: khat 0.38 (90% interval 0.21 to 0.55) is below
    0.5.
    >>> verdict.decided_by, str(verdict.weights_work)
    ('khat-good', 'yes')
    """
    return verdict_from(evidence_of_ratios(result))


def evidence_of_ratios(result: PsisResult) -> list[Evidence]:
    """Return what the log ratios show: khat first."""
    if not isinstance(result.status, PsisStatus):
        raise ValueError(
            f"judge_psis takes the result for one vector, got a batch of shape {result.khat.shape}"
        )
    if result.tail_fits is not None:
        return [*_not_pareto(result, result.tail_fits), *_zeros(result)]
    return [_khat(result), *_zeros(result), *_uncertainty(result)]


def _not_pareto(result: PsisResult, fits: TailFits) -> list[Evidence]:
    """Say that khat describes no tail, and whether the one further out is low for sure."""
    number = float(result.khat), result.tail_length, result.num_draws
    found: list[Evidence] = [NotPareto(*number, fits.khat, fits.tail_length, fits.largest)]
    if not fits.high < result.threshold:
        found.append(TailUnseen(*number, fits.khat, fits.tail_length, result.threshold))
    return found


def _khat(result: PsisResult) -> Evidence:
    if result.status is PsisStatus.CONSTANT:
        return KhatConstant(threshold=result.threshold)
    if result.status is not PsisStatus.OK:
        return KhatUndefined(result.status, result.message, result.num_draws)
    low, high = map(float, result.khat_interval())
    khat = float(result.khat), low, high, result.threshold, result.num_draws
    if result.khat < result.threshold:
        return KhatGood(*khat) if result.khat < GOOD_BELOW else KhatUsable(*khat)
    few = result.num_draws < ENOUGH_DRAWS
    if few and result.exceedance_probability < 0.5:  # the weak prior has lifted khat above it
        return KhatFewDraws(*khat)
    return KhatHigh(*khat, min_draws=float(result.min_draws), advice=_advice_without_model(result))


def _advice_without_model(result: PsisResult) -> tuple[str, ...]:
    """Return what helps against a high khat where nothing else is known; more draws are extra."""
    situation = CheckSituation("unreliable", frozenset({KhatHigh.code}), result, None)
    return tuple(
        remedy.advice(situation)
        for remedy in applicable(AFTER_CHECK, situation)
        if remedy.name != "draw-more"
    )


def _zeros(result: PsisResult) -> list[Evidence]:
    if not result.num_zero or result.status is PsisStatus.ALL_ZERO:
        return []
    return [DrawsWherePIsZero(int(result.num_zero), result.num_draws)]


def _uncertainty(result: PsisResult) -> list[Evidence]:
    if result.status is not PsisStatus.OK:
        return []
    above = float(result.exceedance_probability)
    if not UNSURE_ABOVE < above < 1.0 - UNSURE_ABOVE:
        return []
    return [KhatUncertain(above, result.threshold, result.num_draws)]
