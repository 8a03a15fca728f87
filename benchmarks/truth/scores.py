"""From records to the scoreboard: how often which answer was wrong."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from truth.outcomes import Estimate, Outcome, outcomes_of, worst
from truth.problem import FAR
from truth.witnesses import WITNESSES

__all__ = ["summarise"]

Record = dict[str, Any]
Judged = list[tuple[Record, list[Outcome]]]

LEVELS = {"good": "vi", "usable": "psis"}
"""Whose numbers a level says may be used."""
KHATS = (-math.inf, 0.3, 0.5, 0.7, 1.0, math.inf)
WITHIN = 1.96
"""Standard errors of a 95% interval."""


def summarise(records: Iterable[Record]) -> dict[str, Any]:
    """Return the scoreboard of a run as plain values."""
    listed = list(records)
    checked = [record for record in listed if record["level"] != "refused"]
    judged = [(record, list(outcomes_of(record))) for record in checked]
    near = [pair for pair in judged if FAR not in pair[0]["tags"]]
    return {
        "problems": len({record["problem"] for record in listed}),
        "fits": len(listed),
        "refused": sorted(record["key"] for record in listed if record["level"] == "refused"),
        "quantities": sum(len(outcomes) for _, outcomes in judged),
        "found_by": dict(Counter({r["problem"]: r["found_by"] for r in listed}.values())),
        "all": _answers(judged),
        "without_far_modes": _answers(near),
        "held_out": _answers([pair for pair in judged if pair[0]["half"] == "held out"]),
        "witnesses": [_witnessed(witness, judged) for witness in WITNESSES],
        "coverage": _coverage(judged),
        "by_khat": _by_khat(judged),
        "cost": _cost(checked),
        "by_problem": _by_problem(judged),
        "points": _points(judged),
    }


def false_assurance(record: Record, outcomes: list[Outcome]) -> bool:
    """Whether the level allows numbers of which one is wrong."""
    way = LEVELS.get(record["level"])
    return way is not None and any(o.means[way].wrong or o.sds[way].wrong for o in outcomes)


def false_alarm(record: Record, outcomes: list[Outcome]) -> bool:
    """Whether all of q's own numbers are right, and the level calls them unreliable."""
    right = all(o.means["vi"].right and o.sds["vi"].right for o in outcomes)
    return right and record["level"] not in LEVELS


def _answers(judged: Judged) -> dict[str, Any]:
    """Return counts of what was said, and how much of it was wrong."""
    levels = {}
    for level, way in LEVELS.items():
        said = [pair for pair in judged if pair[0]["level"] == level]
        levels[level] = {
            "said": len(said),
            "false": sum(false_assurance(*pair) for pair in said),
            "false_means": sum(any(o.means[way].wrong for o in out) for _, out in said),
        }
    outcomes = [outcome for _, several in judged for outcome in several]
    all_right = [
        pair for pair in judged
        if all(o.means["vi"].right and o.sds["vi"].right for o in pair[1])
    ]  # fmt: skip
    return {
        "fits": len(judged),
        "levels": levels,
        "all_right": len(all_right),
        "all_right_refused": sum(false_alarm(*pair) for pair in all_right),
        "means": _told(outcomes, lambda o: o.means, lambda o: o.use_mean),
        "sds": _told(outcomes, lambda o: o.sds, lambda o: o.use_sd),
    }


def _told(
    outcomes: Iterable[Outcome],
    estimates: Callable[[Outcome], dict[str, Estimate]],
    use: Callable[[Outcome], str | None],
) -> dict[str, int]:
    """Count what is recommended and wrong, and what of VI's is right and refused."""
    counts = {"recommended": 0, "wrong": 0, "right": 0, "refused": 0}
    for outcome in outcomes:
        way = use(outcome)
        if way is None:
            continue
        known = estimates(outcome)
        if way in known:
            counts["recommended"] += 1
            counts["wrong"] += known[way].wrong
        if known["vi"].right:
            counts["right"] += 1
            counts["refused"] += way == "neither"
    return counts


def _witnessed(witness: Any, judged: Judged) -> dict[str, Any]:
    totals: dict[str, Counter[str]] = {"means": Counter(), "sds": Counter()}
    for record, outcomes in judged:
        totals["means"] += Counter(
            _told(outcomes, lambda o: o.means, lambda o: witness.mean(record, o))
        )
        totals["sds"] += Counter(_told(outcomes, lambda o: o.sds, lambda o: witness.sd(record, o)))
    return {"name": witness.name} | {name: dict(counts) for name, counts in totals.items()}


def _coverage(judged: Judged) -> list[dict[str, Any]]:
    """Return how often 95% intervals hold the truth, where khat is below its limit.

    Of exact truths only: the error of reference draws is larger than that of the estimates. Each
    fit counts once, whatever number of quantities it has.
    """
    rows = []
    for name, low, high in (("below 0.5", -math.inf, 0.5), ("0.5 to the threshold", 0.5, 0.7)):
        means, evidences = [], []
        for record, _ in judged:
            if not (record["exact"] and low <= record["khat"] < min(high, record["threshold"])):
                continue
            if FAR in record["tags"]:  # what q does not see is in no error of its estimates
                continue
            hits = [_holds(row["psis"]["mean"], row["psis"]["mcse"], row["mean"])
                    for row in record["quantities"]]  # fmt: skip
            means.append(sum(hits) / len(hits))
            stated = record["log_evidence"]
            if stated["truth"] is not None and math.isfinite(stated["mcse"]):
                evidences.append(_holds(stated["value"], stated["mcse"], stated["truth"]))
        rows.append({
            "khat": name, "fits": len(means), "means": _average(means),
            "evidences": len(evidences), "log_evidence": _average(evidences),
        })  # fmt: skip
    return rows


def _holds(value: float, mcse: float, truth: float) -> bool:
    # A q that is p up to rounding has errors of rounding, which no Monte Carlo error covers.
    return abs(value - truth) <= WITHIN * mcse + 1e-9 + 1e-15 * abs(truth)


def _average(values: list[Any]) -> float | None:
    return sum(values) / len(values) if values else None


def _by_khat(judged: Judged) -> list[dict[str, Any]]:
    rows = []
    for low, high in itertools.pairwise(KHATS):
        these = [out for record, out in judged if low <= record["khat"] < high]
        rows.append(_errors(f"{low:g} to {high:g}" if math.isfinite(low + high) else
                            (f"below {high:g}" if math.isfinite(high) else f"{low:g} and above"),
                            these))  # fmt: skip
    rows.append(_errors("undefined", [out for record, out in judged if math.isnan(record["khat"])]))
    return rows


def _errors(name: str, several: list[list[Outcome]]) -> dict[str, Any]:
    row: dict[str, Any] = {"khat": name, "fits": len(several)}
    for way in ("vi", "psis"):
        means = [worst([o.means[way] for o in out]) for out in several]
        row[f"{way}_error"] = _rounded(statistics.median(means)) if means else None
        for what in ("means", "sds"):
            wrong = [any(getattr(o, what)[way].wrong for o in out) for out in several]
            row[f"{way}_{what}_wrong"] = _average(wrong)
    return row


def _cost(records: list[Record]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record["family"], record["solver"]].append(record)
    return [
        {
            "family": family,
            "solver": solver,
            "fits": len(group),
            "fit": _rounded(statistics.median(r["fit_seconds"] for r in group)),
            "check": _rounded(statistics.median(r["seconds"] - r["fit_seconds"] for r in group)),
            "all": round(sum(r["seconds"] for r in group)),
            "processor": round(sum(r["processor_seconds"] for r in group)),
        }
        for (family, solver), group in groups.items()
    ]


def _by_problem(judged: Judged) -> list[dict[str, Any]]:
    groups: dict[str, Judged] = defaultdict(list)
    for record, outcomes in judged:
        groups[record["problem"]].append((record, outcomes))
    rows = []
    for name, group in groups.items():
        first = group[0][0]
        rows.append({
            "name": name, "kind": first["kind"], "tags": first["tags"],
            "found_by": first["found_by"],
            "levels": dict(Counter(record["level"] for record, _ in group)),
            "false": _where(group, false_assurance),
            "false_alarm": _where(group, false_alarm),
            "answers": _answers(group), "worst": _worst_recommended(group),
        })  # fmt: skip
    return rows


def _where(group: Judged, is_so: Callable[[Record, list[Outcome]], bool]) -> dict[str, int]:
    """Count fits by level, family and solver."""
    return dict(Counter(
        f"{record['level']}: {record['family']}, {record['solver']}"
        for record, outcomes in group if is_so(record, outcomes)
    ))  # fmt: skip


def _worst_recommended(group: Judged) -> dict[str, Any]:
    """Return the worst mean and the worst sd that were recommended and are wrong."""
    found: dict[str, Any] = {}
    for what in ("mean", "sd"):
        wrong = [
            (math.inf if math.isnan(each.error) else abs(each.error), outcome.name, each.error)
            for _, outcomes in group
            for outcome in outcomes
            if (each := getattr(outcome, f"recommended_{what}")) is not None and each.wrong
        ]
        if wrong:
            _, name, error = max(wrong)
            found[what] = {"quantity": name, "error": _rounded(error)}
    return found


def _points(judged: Judged) -> list[list[Any]]:
    """Return for each fit its khat, the largest errors of means by VI and by PSIS, its level."""
    return [
        [
            _rounded(record["khat"]),
            _rounded(worst([o.means["vi"] for o in outcomes])),
            _rounded(worst([o.means["psis"] for o in outcomes])),
            record["level"],
        ]
        for record, outcomes in judged
    ]


def _rounded(value: float) -> float | None:
    """Return three significant digits; None for what is not finite, which JSON cannot say."""
    return float(f"{value:.3g}") if math.isfinite(value) else None
