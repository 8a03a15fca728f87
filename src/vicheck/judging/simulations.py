"""What is said about the fits to many simulated datasets, apart from their calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping

from vicheck.judging.statuses import status_hint
from vicheck.judging.wording import sentence_case, show
from vicheck.results.status import FitStatus
from vicheck.results.summaries import Average, KhatSummary
from vicheck.results.verdict import Finding

__all__ = ["judge_failures", "judge_khats", "judge_origin", "judge_symmetric_kl", "withhold"]

_MOST_UNCONVERGED = 0.05
"""Share of fits without convergence above which there is no verdict: theirs is another bias."""

_LEAST_DATASETS = 20
"""With fewer, all on one side is still no small p-value after adjustment for many quantities."""

_OFTEN = 0.1
"""Share of datasets with a high khat that is worth a caution."""

_ONE_DECIDES = 0.5
"""Share of one dataset in an average above which that dataset is all it shows."""

_UNWELL = "failed, did not converge or are inaccurate"


def withhold(statuses: Mapping[FitStatus, int], num_used: int, failures: Finding) -> Finding | None:
    """Say why there can be no verdict, or nothing."""
    total, unconverged = _count(statuses)
    if unconverged > _MOST_UNCONVERGED * total:
        return Finding(
            severity="bad",
            sentence=(
                f"No verdict: {unconverged} of {total} fits {_UNWELL}, more than "
                f"{_MOST_UNCONVERGED:.0%}; such fits show a bias that is not the family's."
            ),
            evidence=failures.evidence,
            hint=failures.hint,
        )
    if num_used < _LEAST_DATASETS:
        return Finding(
            severity="bad",
            sentence=(
                f"No verdict: {num_used} {'dataset has' if num_used == 1 else 'datasets have'} "
                f"calibration probabilities, and fewer than "
                f"{_LEAST_DATASETS} cannot show a bias."
            ),
            evidence={"num_used": num_used},
            hint="Simulate more datasets, num_datasets=1000 for instance.",
        )
    return None


def judge_failures(statuses: Mapping[FitStatus, int], solver: str) -> Finding:
    """Say how the fits ended."""
    total, unconverged = _count(statuses)
    evidence = {status.name: float(count) for status, count in statuses.items() if count}
    if not unconverged:
        return Finding(
            severity="ok",
            sentence=f"All {total} fits have converged.",
            evidence=evidence,
            hint="Nothing needs to be done about the optimiser.",
        )
    others = {
        status: n for status, n in statuses.items() if n and status is not FitStatus.CONVERGED
    }
    ordered = sorted(others, key=lambda status: -others[status])
    counts = ", ".join(f"{others[status]} {status.name}" for status in ordered)
    return Finding(
        severity="bad" if unconverged > _MOST_UNCONVERGED * total else "caution",
        sentence=f"{unconverged} of {total} fits {_UNWELL}: {counts}.",
        evidence=evidence,
        hint=(
            f"{sentence_case(status_hint(ordered[0], solver))} `.failures` lists them with the "
            "seeds that replay them."
        ),
    )


def judge_khats(khat: KhatSummary | None) -> list[Finding]:
    """Say how far the joint posteriors were hit."""
    if khat is None or not khat.num_used:
        return []
    often = khat.share_above > _OFTEN
    undefined = f" It is undefined for {khat.num_undefined}." if khat.num_undefined else ""
    return [
        Finding(
            severity="caution" if often else "ok",
            sentence=(
                f"khat of each dataset: median {show(khat.median)}, 90% between {show(khat.low)} "
                f"and {show(khat.high)}; {khat.share_above:.0%} are above the threshold "
                f"{khat.threshold:.2f}.{undefined}"
            ),
            evidence={"median": khat.median, "share_above": khat.share_above},
            hint=(
                "The joint posterior is often missed: see what vicheck.check says of your data."
                if often
                else "PSIS can correct most of these fits."
            ),
        )
    ]


def judge_symmetric_kl(average: Average | None) -> list[Finding]:
    """Say how far q and posterior are apart."""
    if average is None or not average.num_used:
        return []
    infinite = not math.isfinite(average.mean)
    alone = average.num_used > 1 and average.largest_share > _ONE_DECIDES
    share = f", of which one dataset is {average.largest_share:.0%}" if alone else ""
    return [
        Finding(
            severity="caution" if alone or infinite else "ok",
            sentence=(
                f"Symmetric KL divergence of q and the posterior, on average: {average}{share}."
            ),
            evidence={"mean": average.mean, "low": average.low, "high": average.high},
            hint=(
                "Look at the terms, `.data['symmetric_kl']`: their mean and interval mean little."
                if alone or infinite
                else "Of two families or parametrizations, take the one where it is smaller."
            ),
        )
    ]


def judge_origin(posterior: bool) -> list[Finding]:
    """Say where the true parameters came from, if that is a reason for doubt."""
    if not posterior:
        return []
    return [
        Finding(
            severity="caution",
            sentence=(
                "The true parameters were drawn from the fitted q: if that is bad, so is this "
                "calibration."
            ),
            evidence={},
            hint="Believe what it finds wrong; what it finds right needs a low khat as well.",
        )
    ]


def _count(statuses: Mapping[FitStatus, int]) -> tuple[int, int]:
    total = sum(statuses.values())
    return total, total - statuses.get(FitStatus.CONVERGED, 0)
