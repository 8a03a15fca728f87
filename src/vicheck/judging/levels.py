"""From findings to a verdict: one table says which finding decides, and which level it means."""

from __future__ import annotations

from collections.abc import Sequence

from vicheck.judging.findings import Evidence
from vicheck.judging.questions import answers_from
from vicheck.results.verdict import Level, NextStep, Verdict

__all__ = ["LEVELS", "decide", "verdict_from"]

LEVELS: dict[str, Level] = {
    # One fit. Where khat is undefined or high, nothing else has to be known; where it is low, there
    # are things that it cannot see.
    "khat-undefined": "none",
    "swapped-densities": "none",
    "khat-high": "unreliable",
    "khat-few-draws": "unreliable",
    "no-approximation": "unreliable",
    "endless-tail": "unreliable",
    "mode-missed": "unreliable",
    "modes-uncertain": "unreliable",
    "mode-beyond-reach": "unreliable",
    "tail-unseen": "none",
    "tied-draws": "none",
    "dependent-draws": "none",
    "clipped-ratios": "none",
    "ratios-too-coarse": "none",
    "few-effective-draws": "unreliable",
    "chains-drift-weighted": "unreliable",
    # What the table of estimates refuses the level cannot promise.
    "not-all-usable": "unreliable",
    "not-pareto": "usable",
    "khat-usable": "usable",
    "plain-off": "usable",
    "chains-drift": "usable",
    # What has not converged is not good, even where its draws are: its numbers will change.
    "not-converged": "usable",
    "still-rising": "usable",
    "gradient-not-zero": "usable",
    "iterates-unsettled": "usable",
    "khat-constant": "good",
    "khat-good": "good",
    # Fits to many simulated datasets.
    "too-many-unconverged": "none",
    "too-few-datasets": "none",
    "bias-found": "unreliable",
    "likelihood-low": "unreliable",
    "far-too-narrow": "unreliable",
    "asymmetric": "usable",
    "wrong-scale": "usable",
    "not-covering": "usable",
    "likelihood-off": "usable",
    "joint-missed": "usable",
    "no-bias-found": "good",
}
"""The level that each finding forces, in the order of precedence: the first that was found decides.
Findings that are not here never decide."""


def decide(evidence: Sequence[Evidence]) -> tuple[Evidence, Level]:
    """Return the finding that decides, and the level that it means."""
    by_code = {each.code: each for each in evidence}
    return next((by_code[code], level) for code, level in LEVELS.items() if code in by_code)


def verdict_from(
    evidence: Sequence[Evidence], next_steps: Sequence[NextStep] = (), hint: str = ""
) -> Verdict:
    """Sum findings up.

    Parameters
    ----------
    evidence
        What was found, in the order in which to show it; at least one finding that can decide.
    next_steps
        What to do next.
    hint
        What to do in words, where the deciding finding's own hint does not know enough.
    """
    decider, level = decide(evidence)
    findings = {each.code: each.finding(decides=each is decider) for each in evidence}
    return Verdict(
        level=level,
        sentence=findings[decider.code].sentence,
        hint=hint or findings[decider.code].hint,
        findings=tuple(findings.values()),
        decided_by=decider.code,
        next_steps=tuple(next_steps),
        **answers_from({each.code for each in evidence}),
    )
