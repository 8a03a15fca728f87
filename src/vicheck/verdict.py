"""The only home of cut-offs and sentences: what the numbers mean and what to do."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from vicheck.records import (
    Convergence,
    Finding,
    FitStatus,
    PooledModes,
    PsisResult,
    PsisStatus,
    Verdict,
)
from vicheck.stats.reliability import GOOD_BELOW, USABLE_BELOW

__all__ = ["choose_estimate", "judge_check", "judge_psis", "misses_a_mode", "show"]

Level = Literal["good", "usable", "unreliable", "none"]

_UNSURE_ABOVE = 0.05
"""A verdict is unsure when the threshold has this much posterior probability on its other side."""

_IMPROVE = (
    "run the optimiser to convergence, reparametrise the model (non-centred instead of centred), "
    "use a richer family, or use MCMC"
)

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

_STALLED_HINTS = {
    FitStatus.SAMPLING_ERROR: "allow more draws: max_draws",
    FitStatus.STALLED: "look for kinks or jumps in the log density, or use solver='stochastic'",
    FitStatus.AT_INFINITY: (
        "the posterior may be improper: give flat priors a scale, and look for separation in "
        "logistic regressions"
    ),
    FitStatus.NOT_FINITE: "find where the log density is NaN or infinite, and why",
    FitStatus.NO_STEP_SIZE: "rescale the parameters, or use solver='deterministic'",
    FitStatus.INTERRUPTED: "fit again without an interruption",
}

_HOPELESS = (FitStatus.AT_INFINITY, FitStatus.NOT_FINITE, FitStatus.NO_STEP_SIZE)
"""Statuses of fits that are no approximation of anything, whatever khat says."""

_UNDEFINED_HINTS = {
    PsisStatus.TIED_AT_MAXIMUM: "look for clipped or rounded log densities",
    PsisStatus.TIED_AT_CUTOFF: "look for repeated draws or rounded log densities",
    PsisStatus.TOO_FEW_DRAWS: "draw at least 1000 times from q",
    PsisStatus.TOO_FEW_POSITIVE: "q puts mass where p is zero: check supports and constraints",
    PsisStatus.ALL_ZERO: "q and p do not overlap: check supports, constraints and the data",
    PsisStatus.NOT_FINITE: "find the draws where log_p or log_q is not finite, and why",
}


def judge_psis(result: PsisResult) -> Verdict:
    """Turn the PSIS of one vector of log ratios into a verdict.

    ``good`` when khat is below 0.5 and the threshold, ``usable`` below the threshold,
    ``unreliable`` from there on, and ``none`` when khat is undefined. The threshold is
    min(1 - 1 / log10(S), 0.7); 0.5 and 0.7 are the paper's (section 2.2).

    Examples
    --------
    >>> import numpy as np
    >>> verdict = judge_psis(vicheck.psis(np.random.default_rng(1).normal(size=4000)))
    >>> verdict.level
    'good'
    >>> print(verdict)
    The approximation is good: khat 0.38 (90% interval 0.21 to 0.55) is below 0.5.
    """
    if not isinstance(result.status, PsisStatus):
        raise ValueError(
            f"judge_psis takes the result for one vector, got a batch of shape {result.khat.shape}"
        )
    khat = _judge_khat(result)
    findings = (khat, *_judge_zeros(result), *_judge_uncertainty(result))
    level = _level(result)
    return Verdict(level=level, sentence=khat.sentence, hint=khat.hint, findings=findings)


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
    modes = _judge_modes(pooled, result.threshold)
    findings = [*verdict.findings, *_judge_growth(khat_growth), *modes]
    if convergence is not None:
        judged = _judge_convergence(convergence)
        findings += judged
        hopeless = [finding for finding in judged if finding.severity == "bad"]
        if hopeless and verdict.level in ("good", "usable"):
            first = hopeless[0]
            verdict = replace(verdict, level="unreliable", sentence=first.sentence, hint=first.hint)
        elif verdict.level == "unreliable" and result.khat >= USABLE_BELOW:
            verdict = replace(verdict, hint=_hint_after(judged))
    if misses_a_mode(pooled, result.threshold) and verdict.level in ("good", "usable"):
        verdict = replace(
            verdict, level="unreliable", sentence=modes[0].sentence, hint=modes[0].hint
        )
    return replace(verdict, findings=tuple(findings))


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
        return f"First see to the fit itself: {_lower_case(unsettled[0].hint)}"
    return (
        "The fit has converged, so optimising longer will not help: reparametrise the model "
        "(non-centred instead of centred), use a richer family, or use MCMC. The joint posterior "
        "cannot be trusted; the column `use` says which single quantities can."
    )


def _status_hint(convergence: Convergence) -> str:
    if convergence.status is FitStatus.MAX_ITERATIONS:
        return _keep_optimising(convergence.solver)
    return _STALLED_HINTS[convergence.status]


def _keep_optimising(solver: str) -> str:
    if solver == "deterministic":
        return (
            "ask for more draws (num_draws, a smaller sampling_tolerance), or reparametrise the "
            "model"
        )
    return (
        "iterate longer, take a smaller step, more draws a step or a larger minibatch, or use "
        "solver='deterministic'"
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
                severity="bad" if convergence.status in _HOPELESS else "caution",
                sentence=_sentence_case(convergence.status.value),
                evidence={"gradient_norm": convergence.gradient_norm},
                hint=_sentence_case(_status_hint(convergence)),
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
                hint=_sentence_case(f"keep optimising: {_keep_optimising(convergence.solver)}"),
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


def _level(result: PsisResult) -> Level:
    if result.status not in (PsisStatus.OK, PsisStatus.CONSTANT):
        return "none"
    if result.khat >= result.threshold:
        return "unreliable"
    return "good" if result.khat < GOOD_BELOW else "usable"


def _judge_khat(result: PsisResult) -> Finding:
    level = _level(result)
    if level == "none":
        return Finding(
            severity="bad",
            sentence=f"No verdict: {result.message}.",
            evidence={"num_draws": result.num_draws},
            hint=_sentence_case(_UNDEFINED_HINTS[result.status]),
        )
    if result.status is PsisStatus.CONSTANT:
        return Finding(
            severity="ok",
            sentence="The approximation is good: all ratios are equal, so khat is 0.",
            evidence={"khat": 0.0, "threshold": result.threshold},
            hint="Nothing needs to be done.",
        )
    low, high = result.khat_interval()
    khat = f"khat {show(result.khat)} (90% interval {show(low)} to {show(high)})"
    threshold = f"the threshold {result.threshold:.2f} for {result.num_draws} draws"
    evidence = {"khat": result.khat, "threshold": result.threshold}
    if level == "good":
        return Finding(
            severity="ok",
            sentence=f"The approximation is good: {khat} is below {GOOD_BELOW}.",
            evidence=evidence,
            hint="Use the smoothed weights to remove what error is left.",
        )
    if level == "usable":
        return Finding(
            severity="caution",
            sentence=(
                f"The approximation is usable with care: {khat} is above {GOOD_BELOW} "
                f"and below {threshold}."
            ),
            evidence=evidence,
            hint="Report estimates with the smoothed weights and their errors, not plain ones.",
        )
    if result.exceedance_probability < 0.5:  # the weak prior has lifted khat over the threshold
        return Finding(
            severity="bad",
            sentence=(
                f"Too few draws to call the approximation reliable: {khat} is above {threshold}."
            ),
            evidence=evidence,
            hint="Draw at least 1000 times from q.",
        )
    return Finding(
        severity="bad",
        sentence=f"The approximation is not reliable: {khat} is above {threshold}.",
        evidence=evidence,
        hint=_unreliable_hint(result),
    )


def _unreliable_hint(result: PsisResult) -> str:
    if result.khat < USABLE_BELOW:
        return (
            f"More draws from q may be enough: this khat needs about {result.min_draws:.0f}. "
            f"Otherwise {_IMPROVE}."
        )
    return _sentence_case(f"{_IMPROVE}; neither plain nor weighted estimates can be trusted")


def _judge_zeros(result: PsisResult) -> tuple[Finding, ...]:
    if not result.num_zero or result.status is PsisStatus.ALL_ZERO:
        return ()
    return (
        Finding(
            severity="caution",
            sentence=f"{result.num_zero} of {result.num_draws} draws lie where p is zero.",
            evidence={"num_zero": result.num_zero},
            hint="They have weight zero; KL(q, p) is infinite. Check supports and constraints.",
        ),
    )


def _judge_uncertainty(result: PsisResult) -> tuple[Finding, ...]:
    if result.status is not PsisStatus.OK:
        return ()
    above = result.exceedance_probability
    if not _UNSURE_ABOVE < above < 1.0 - _UNSURE_ABOVE:
        return ()
    return (
        Finding(
            severity="caution",
            sentence=(
                f"khat is uncertain: it is above the threshold {result.threshold:.2f} "
                f"with probability {above:.2f}."
            ),
            evidence={"exceedance_probability": above},
            hint=f"More than {result.num_draws} draws from q would narrow it down.",
        ),
    )


def show(number: float) -> str:
    """Write a number with two decimals, or three digits when it is huge."""
    return f"{number:.2f}" if abs(number) < 1000.0 else f"{number:.3g}"


def _lower_case(text: str) -> str:
    return text[0].lower() + text[1:]


def _sentence_case(text: str) -> str:
    return text[0].upper() + text[1:] + "."
