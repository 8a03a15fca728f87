"""The verdict on one vector of log ratios."""

from __future__ import annotations

from vicheck.judging.wording import Level, sentence_case, show
from vicheck.results.psis import PsisResult, PsisStatus
from vicheck.results.verdict import Finding, Verdict
from vicheck.stats.reliability import GOOD_BELOW, USABLE_BELOW

__all__ = ["judge_psis"]

_UNSURE_ABOVE = 0.05
"""A verdict is unsure when the threshold has this much posterior probability on its other side."""

_ENOUGH_DRAWS = 1000
"""With fewer, khat leans on its prior."""

_IMPROVE = (
    "run the optimiser to convergence, reparametrise the model (non-centred instead of centred), "
    "use a richer family, or use MCMC"
)

_UNDEFINED_HINTS = {
    PsisStatus.TIED_AT_MAXIMUM: "look for clipped or rounded log densities",
    PsisStatus.TIED_AT_CUTOFF: "look for repeated draws or rounded log densities",
    PsisStatus.TOO_FEW_DRAWS: f"draw at least {_ENOUGH_DRAWS} times from q",
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
            hint=sentence_case(_UNDEFINED_HINTS[result.status]),
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
    few = result.num_draws < _ENOUGH_DRAWS
    if few and result.exceedance_probability < 0.5:  # the weak prior has lifted khat above it
        return Finding(
            severity="bad",
            sentence=(
                f"Too few draws to call the approximation reliable: {khat} is above {threshold}."
            ),
            evidence=evidence,
            hint=f"Draw at least {_ENOUGH_DRAWS} times from q.",
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
    return sentence_case(f"{_IMPROVE}; neither plain nor weighted estimates can be trusted")


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
