"""The verdict on one fit: khat, growth, convergence and other modes together."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from vicheck.judging.next_steps import line_after_check
from vicheck.judging.psis import judge_psis
from vicheck.judging.statuses import NO_APPROXIMATION, keep_optimising, status_hint
from vicheck.judging.wording import lower_case, sentence_case, show
from vicheck.results.convergence import Convergence, PooledModes
from vicheck.results.psis import PsisResult
from vicheck.results.status import FitStatus
from vicheck.results.verdict import Finding, Verdict
from vicheck.stats.reliability import USABLE_BELOW

__all__ = ["choose_estimate", "judge_check", "misses_a_mode"]

_REJECTED_BELOW = 0.01
"""p-value below which the gradient at q is not zero."""

_GROWTH = 0.1
"""khat that rises by more than this over the draws has not been seen whole."""

_MISSING_MASS = 0.05
"""A mode that holds more of the posterior than this, and that q misses, spoils the fit."""

_SMALL_SHIFT, _SMALL_GROWTH = 0.05, 0.05
"""Corrections of a mean, in sds, and of a log sd that make no difference."""

_RHAT_BELOW, _ITERATE_MCSE_BELOW = 1.1, 0.05
"""Dhaka et al. (2020): above these a stochastic run has not settled."""


def judge_check(
    result: PsisResult,
    khat_growth: dict[int, float],
    convergence: Convergence | None,
    pooled: PooledModes | None,
) -> Verdict:
    """Turn everything a check has found into a verdict.

    The level is that of khat (see `judge_psis`), but ``unreliable`` when another mode, which khat
    cannot see, holds part of the posterior. What to do depends on whether the fit has converged:
    if not, keep optimising; if it has, change the family or the parametrization.
    """
    verdict = judge_psis(result)
    settled = True
    modes = _judge_modes(pooled, result.threshold)
    findings = [*verdict.findings, *_judge_growth(khat_growth), *modes]
    if convergence is not None:
        judged = _judge_convergence(convergence)
        findings += judged
        settled = all(finding.severity == "ok" for finding in judged)
        hopeless = [finding for finding in judged if finding.severity == "bad"]
        if hopeless and verdict.level in ("good", "usable"):
            first = hopeless[0]
            verdict = replace(verdict, level="unreliable", sentence=first.sentence, hint=first.hint)
        elif verdict.level == "unreliable" and result.khat >= USABLE_BELOW:
            verdict = replace(verdict, hint=_hint_after(judged))
    missed = misses_a_mode(pooled, result.threshold)
    if missed and verdict.level in ("good", "usable"):
        verdict = replace(
            verdict, level="unreliable", sentence=modes[0].sentence, hint=modes[0].hint
        )
    if verdict.level == "unreliable" and findings[0].severity != "bad":
        findings[0] = _by_khat_alone(findings[0])
    code = line_after_check(verdict.level, result, convergence, settled=settled, missed_mode=missed)
    return replace(verdict, findings=tuple(findings), code=code)


def _by_khat_alone(khat: Finding) -> Finding:
    """Say what khat says where something else has decided."""
    return replace(
        khat,
        sentence=f"By khat alone: {lower_case(khat.sentence)}",
        hint="khat cannot see what is wrong here.",
    )


def misses_a_mode(pooled: PooledModes | None, threshold: float) -> bool:
    """Whether another mode holds more of the posterior than can be passed over, or may do so."""
    return pooled is not None and not (pooled.khat < threshold and pooled.missed <= _MISSING_MASS)


def choose_estimate(
    khat: float, threshold: float, shift: float, growth: float
) -> Literal["vi", "psis", "neither"]:
    """Choose between the estimates of one quantity.

    Its own khat, that of (h - mean) r, governs the error of its weighted mean: from the threshold
    on, neither is to be trusted. Below it the weighted estimate is right, and the plain one will
    do when both agree in mean (``shift``, in sds) and in log sd (``growth``).
    """
    if math.isnan(khat) or khat >= threshold:
        return "neither"
    agree = abs(shift) < _SMALL_SHIFT and not abs(growth) >= _SMALL_GROWTH
    return "vi" if agree else "psis"


def _hint_after(judged: list[Finding]) -> str:
    """Say what to do about a high khat: converge first, then change family or model."""
    unsettled = [finding for finding in judged if finding.severity != "ok"]
    if unsettled:
        return f"First see to the fit itself: {lower_case(unsettled[0].hint)}"
    return (
        "The fit has converged, so optimising longer will not help: reparametrise the model "
        "(non-centred instead of centred), use a richer family, or use MCMC. The joint posterior "
        "cannot be trusted; the column `use` says which single quantities can."
    )


def _judge_growth(khat_growth: dict[int, float]) -> list[Finding]:
    known = {size: khat for size, khat in khat_growth.items() if not math.isnan(khat)}
    if len(known) < 2:
        return []
    (first, low), (last, high) = min(known.items()), max(known.items())
    # The error of khat is about (1 + k) / sqrt(M), with M = 3 sqrt(S) ratios in the tail.
    noise = (1.0 + max(low, 0.0)) / math.sqrt(3.0 * math.sqrt(first))
    if high - low <= max(_GROWTH, 2.0 * noise):
        return []
    return [
        Finding(
            severity="caution",
            sentence=(
                f"khat rises with the number of draws, from {show(low)} at {first} to {show(high)} "
                f"at {last}: more of the tail may lie beyond."
            ),
            evidence={str(size): khat for size, khat in known.items()},
            hint="Take more draws before relying on khat.",
        )
    ]


def _judge_modes(pooled: PooledModes | None, threshold: float) -> list[Finding]:
    if pooled is None:
        return []
    count = len(pooled.masses) - 1
    others = "Another optimum was" if count == 1 else f"{count} other optima were"
    if not pooled.khat < threshold:
        sentence = (
            f"{others} found, and how much of the posterior lies there cannot be estimated "
            f"(khat of the mixture of all: {show(pooled.khat)})."
        )
    elif pooled.missed > _MISSING_MASS:
        sentence = (
            f"The approximation misses another mode: about {pooled.missed:.0%} of the posterior "
            "lies where it has no draws, and khat cannot see that."
        )
    else:
        sentence = (
            f"{others} found; about {pooled.missed:.1%} of the posterior lies where this fit has "
            "no draws."
        )
    return [
        Finding(
            severity="bad" if misses_a_mode(pooled, threshold) else "caution",
            sentence=sentence,
            evidence={"missed": pooled.missed, "pooled_khat": pooled.khat},
            hint="Look at fit.solution.others; use MCMC, or average over the optima.",
        )
    ]


def _judge_convergence(convergence: Convergence) -> list[Finding]:
    findings = []
    test = convergence.gradient
    if convergence.status is not FitStatus.CONVERGED:
        findings.append(
            Finding(
                severity="bad" if convergence.status in NO_APPROXIMATION else "caution",
                sentence=sentence_case(convergence.status.value),
                evidence={"gradient_norm": convergence.gradient_norm},
                hint=sentence_case(status_hint(convergence.status, convergence.solver)),
            )
        )
    evidence = {"gradient": test.size, "p_value": test.p_value}
    if math.isnan(test.p_value):
        findings.append(
            Finding(
                severity="caution",
                sentence="Convergence cannot be tested: the gradient is not finite.",
                evidence=evidence,
                hint="Find where the log density, or its gradient, is NaN or infinite.",
            )
        )
    elif test.p_value < _REJECTED_BELOW:
        findings.append(
            Finding(
                severity="caution",
                sentence=(
                    f"The fit is not at its optimum: the gradient on fresh draws is "
                    f"{test.size:.2g} sd, largest for {test.worst} (p = {test.p_value:.1g})."
                ),
                evidence=evidence,
                hint=sentence_case(f"keep optimising: {keep_optimising(convergence.solver)}"),
            )
        )
    if convergence.rhat > _RHAT_BELOW or convergence.iterate_mcse > _ITERATE_MCSE_BELOW:
        findings.append(
            Finding(
                severity="caution",
                sentence=(
                    f"The iterates have not settled: R-hat {convergence.rhat:.2f}, error of their "
                    f"average {convergence.iterate_mcse:.2g} sd."
                ),
                evidence={"rhat": convergence.rhat, "mcse": convergence.iterate_mcse},
                hint="Iterate longer, with a smaller step or a larger minibatch.",
            )
        )
    if not findings:
        findings.append(
            Finding(
                severity="ok",
                sentence=(
                    f"The fit has converged: the gradient on fresh draws is {test.size:.2g} sd, "
                    f"not above {test.tolerance:g}."
                    if test.size <= test.tolerance
                    else f"The fit has converged: the gradient on fresh draws, {test.size:.2g} sd, "
                    "is no larger than its noise."
                ),
                evidence=evidence,
                hint="Nothing needs to be done about the optimiser.",
            )
        )
    if not math.isnan(convergence.relative_change_median):
        findings.append(
            Finding(
                severity="ok",
                sentence=(
                    f"Stan's criterion, the relative change of the ELBO: mean "
                    f"{convergence.relative_change_mean:.2g}, median "
                    f"{convergence.relative_change_median:.2g}."
                ),
                evidence={
                    "mean": convergence.relative_change_mean,
                    "median": convergence.relative_change_median,
                },
                hint="It says that progress is slow, not that the optimum is near.",
            )
        )
    return findings
