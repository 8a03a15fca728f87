"""The page of the scoreboard, from its numbers alone."""

from __future__ import annotations

from typing import Any

__all__ = ["as_markdown"]

Scores = dict[str, Any]

INTRODUCTION = """\
# Is the verdict right?

Written by `make truth` (`benchmarks/truth/`); do not edit.

Every verdict is compared with posteriors whose means and sds are known. A mean is **wrong**
when it is off by more than 0.1 posterior sds, and an sd when it is off by more than 10%, each
after allowing for three Monte Carlo errors (its own and the reference's, at most 0.2 in all);
otherwise it is **right**. `good` promises that q's own numbers may be used, `usable` that the
weighted ones may: either is a **false assurance** when one of these means or sds is wrong. A
**false alarm** rejects what is right. *Far modes* are posteriors with a mode that no draw from
a q at another mode can see; what the search misses there is a known limitation, and listed like
everything else."""

PICTURE = """\
![Largest error of the means of each fit, by VI and by PSIS, against khat](pictures/truth.png)

Each point is a fit, and its error that of the worst mean, in posterior sds. The dashed lines
mark an error of 0.1 and a khat of 0.7."""

WITNESSES = """\
All fits of the last run. *Passed* counts the means and sds that the witness accepts; *wrong* is
the share of these that are wrong, and *refused* the share of VI's right ones that it does not
accept."""

COVERAGE = """\
How often 95% intervals (1.96 standard errors) contain the exact value where khat is below the
threshold, without far modes and without posteriors known only from reference draws. Each fit
counts once."""

COST = """\
Medians, with two problems run at a time on two cores. Code that an earlier case or run has
compiled is not compiled again."""

ASSURANCES = """\
The number of fits is in brackets. The worst mean and sd are among those that were recommended
by name (`use_mean`, `use_sd`) and wrong: errors of means are in posterior sds, and sds are
multiples of the true one."""

PROBLEMS = """\
Levels are counted over all families, solvers and seeds. *Wrong* counts recommended means and
sds that are wrong, *alarms* right ones of VI that are called `neither`."""

FRESH = """\
The held-out half has been looked at while rules were chosen, so it confirms them less than it
should. These have not been: the posteriors of a full checkout of posteriordb, by their own Stan
programs, that are not on the scoreboard (`--fresh --posteriordb`). Mean field and full rank; two
seeds of the deterministic solver and one of Stan's ADVI; 20,000 draws each, because a Stan program
is evaluated one draw after the other."""
LIMITS = """\
Posteriors beside the scoreboard, in none of the shares above, that show where the verdict ends:

- A search finds a mode if enough of its boxes leads there. With up to three parameters points fill
  the space, and a basin of a three-hundredth of the widest box is found; much narrower ones are
  missed, and so are modes a tenth as wide as q in six dimensions. What is missed is not suspected
  either: khat and chains see nothing of it, and the level is *good*. A good verdict therefore says
  no more than how many starts found no other mode.
- Two widths at one centre, in tens of dimensions: no draw of q is of the other width, nothing moves
  the means, and chains take long from one to the other. Here the level is not wrong, but right
  means are refused.
- Few draws, as files of other programs have them: with 10,000 draws of models of three parameters
  the means may be used as with 100,000, but where p / q has a heavy tail single sds may not, and
  then the level is *unreliable* although most numbers are right."""

SINCE = """\
These problems alone, all of their fits, were measured again after the rest of this page. Sums over
them, and then the rows that have changed:"""

LABELS = ("before", "now")


def as_markdown(results: dict[str, Scores]) -> str:
    """Return the page; ``results`` has the scores of a run ``before``, ``now``, or both."""
    runs = {name: results[name] for name in LABELS if name in results}
    last = list(runs.values())[-1]
    parts = [INTRODUCTION, _about(runs, last)]
    parts += ["## The table", _headline(runs)]
    if "since" in results:
        parts += ["## Rerun since", f"{results['since']['made']}. {SINCE}"]
        parts += _since(last["by_problem"], results["since"]["by_problem"])
    parts += ["## The picture", PICTURE, _khat_table(last)]
    parts += ["## What each witness would have said alone", WITNESSES, _witness_table(last)]
    parts += ["## Stated errors", COVERAGE, _coverage_table(last)]
    parts += ["## Cost", COST, _cost_table(last)]
    parts += ["## Every false assurance", ASSURANCES, _assurances(last)]
    parts += ["## All problems", PROBLEMS, _problem_table(last)]
    if "fresh" in results:
        fresh = results["fresh"]
        parts += ["## Posteriors that no rule was chosen by", FRESH, _headline({"fresh": fresh})]
        parts += [_assurances(fresh), _problem_table(fresh), f"{fresh['made']}."]
    if "limits" in results:
        limits = results["limits"]
        parts += ["## Known limits", LIMITS, _problem_table(limits), f"{limits['made']}."]
    return "\n\n".join(parts) + "\n"


def _about(runs: dict[str, Scores], last: Scores) -> str:
    found = ", ".join(f"{number} by {how}" for how, number in sorted(last["found_by"].items()))
    text = (
        f"{last['problems']} problems (truths: {found}), {last['fits']} fits, "
        f"{last['quantities']:,} quantities. Mean field and full rank, the deterministic solver "
        "and Stan's ADVI, several seeds. "
    )
    text += "; ".join(f"*{name}*: {scores['made']}" for name, scores in runs.items()) + "."
    if last["refused"]:
        text += f" Fits refused with an error, and not counted: {len(last['refused'])}."
    return text


HEADLINE = (
    ("fits called `good`", "", lambda s: str(s["all"]["levels"]["good"]["said"])),
    ("... falsely", "", lambda s: _false(s["all"], "good")),
    ("... falsely, without far modes", "0", lambda s: _false(s["without_far_modes"], "good")),
    ("... with a wrong mean", "0", lambda s: _false(s["without_far_modes"], "good", "false_means")),
    ("fits called `usable`", "", lambda s: str(s["all"]["levels"]["usable"]["said"])),
    ("... falsely", "", lambda s: _false(s["all"], "usable")),
    ("... falsely, without far modes", "1%", lambda s: _false(s["without_far_modes"], "usable")),
    ("recommended means that are wrong", "", lambda s: _wrong(s["all"], "means")),
    ("... without far modes", "1%", lambda s: _wrong(s["without_far_modes"], "means")),
    ("... on the held-out half", "", lambda s: _wrong(s["held_out"], "means")),
    ("recommended sds that are wrong", "", lambda s: _wrong(s["all"], "sds")),
    ("... without far modes", "3%", lambda s: _wrong(s["without_far_modes"], "sds")),
    ("... on the held-out half", "", lambda s: _wrong(s["held_out"], "sds")),
    ("right means called `neither`", "10%", lambda s: _refused(s["all"], "means")),
    ("right sds called `neither`", "20%", lambda s: _refused(s["all"], "sds")),
    (
        "fits with all means and sds right, called unreliable",
        "",
        lambda s: _share(s["all"]["all_right_refused"], s["all"]["all_right"]),
    ),
    (
        "95% intervals of means contain the truth, khat below 0.5",
        "92 to 98%",
        lambda s: _held(s, 0, "means"),
    ),
    ("... khat from 0.5 to the threshold", "92 to 98%", lambda s: _held(s, 1, "means")),
    (
        "95% intervals of log evidence contain the truth, khat below 0.5",
        "",
        lambda s: _held(s, 0, "log_evidence"),
    ),
    ("... khat from 0.5 to the threshold", "", lambda s: _held(s, 1, "log_evidence")),
)


def _headline(runs: dict[str, Scores]) -> str:
    lines = [f"| | target | {' | '.join(runs)} |", "|---|---|" + "---|" * len(runs)]
    for label, target, of in HEADLINE:
        lines.append(f"| {label} | {target} | {' | '.join(of(s) for s in runs.values())} |")
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole:,} ({part / whole:.1%})" if whole else "none"


def _false(answers: Scores, level: str, what: str = "false") -> str:
    counts = answers["levels"][level]
    return _share(counts[what], counts["said"])


def _wrong(answers: Scores, what: str) -> str:
    return _share(answers[what]["wrong"], answers[what]["recommended"])


def _refused(answers: Scores, what: str) -> str:
    return _share(answers[what]["refused"], answers[what]["right"])


def _held(scores: Scores, place: int, what: str) -> str:
    return _percent(scores["coverage"][place][what])


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _khat_table(scores: Scores) -> str:
    lines = [
        "| khat | fits | worst error of a mean, median: VI | PSIS | some mean wrong: VI | PSIS "
        "| some sd wrong: VI | PSIS |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in scores["by_khat"]:
        errors = ["" if row[f"{way}_error"] is None else f"{row[f'{way}_error']:.2g}"
                  for way in ("vi", "psis")]  # fmt: skip
        wrong = [_percent(row[f"{way}_{what}_wrong"])
                 for what in ("means", "sds") for way in ("vi", "psis")]  # fmt: skip
        lines.append(f"| {row['khat']} | {row['fits']} | {' | '.join(errors + wrong)} |")
    return "\n".join(lines)


def _witness_table(scores: Scores) -> str:
    lines = [
        "| witness | means passed | wrong | right ones refused | sds passed | wrong "
        "| right ones refused |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in scores["witnesses"]:
        cells = []
        for what in ("means", "sds"):
            counts = row[what]
            if not counts.get("right"):
                cells += ["", "", ""]
                continue
            passed = counts.get("recommended", 0)
            wrong = f"{counts.get('wrong', 0) / passed:.1%}" if passed else ""
            refused = f"{counts.get('refused', 0) / counts['right']:.1%}"
            cells += [f"{passed:,}", wrong, refused]
        if any(cells):
            lines.append(f"| {row['name']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _coverage_table(scores: Scores) -> str:
    lines = ["| khat | fits | means | fits | log evidence |", "|---|---|---|---|---|"]
    lines += [
        f"| {row['khat']} | {row['fits']} | {_percent(row['means'])} | {row['evidences']} | "
        f"{_percent(row['log_evidence'])} |"
        for row in scores["coverage"]
    ]
    return "\n".join(lines)


def _cost_table(scores: Scores) -> str:
    lines = [
        "| family | solver | fits | fit, s | check with moments, s | all, s "
        "| all, s of processor time |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['family']} | {row['solver']} | {row['fits']} | {row['fit']} | {row['check']} | "
        f"{row['all']} | {row.get('processor', 'not measured')} |"
        for row in scores["cost"]
    ]
    return "\n".join(lines)


def _assurances(scores: Scores) -> str:
    lines = [
        "| problem | false levels | means wrong | sds wrong | worst mean | worst sd |",
        "|---|---|---|---|---|---|",
    ]
    for row in scores["by_problem"]:
        means, sds = (row["answers"][what]["wrong"] for what in ("means", "sds"))
        if not (row["false"] or means or sds):
            continue
        levels = "; ".join(f"{where} ({number})" for where, number in sorted(row["false"].items()))
        far = " (far mode)" if "far mode" in row["tags"] else ""
        lines.append(
            f"| {row['name']}{far} | {levels} | {means or ''} | {sds or ''} | "
            f"{_worst(row['worst'], 'mean')} | {_worst(row['worst'], 'sd')} |"
        )
    return "\n".join(lines) if len(lines) > 2 else "None."


def _worst(found: Scores, what: str) -> str:
    if what not in found:
        return ""
    name, error = found[what]["quantity"], found[what]["error"]
    if error is None:
        return f"{name}: undefined"
    return f"{name}: {error:+.2g}" if what == "mean" else f"{name}: {1 + error:.2g}"


def _problem_table(scores: Scores) -> str:
    lines = [
        "| problem | truth | good / usable / unreliable / none | means: wrong, alarms "
        "| sds: wrong, alarms |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(_row_of, scores["by_problem"])])


def _row_of(row: Scores) -> str:
    levels = " / ".join(
        str(row["levels"].get(level, 0)) for level in ("good", "usable", "unreliable", "none")
    )
    cells = [_counts(row["answers"][what]) for what in ("means", "sds")]
    return f"| {row['name']} | {row['found_by']} | {levels} | {' | '.join(cells)} |"


SUMS = (
    ("fits called `good`", lambda a: a["levels"]["good"]["said"]),
    ("... falsely", lambda a: a["levels"]["good"]["false"]),
    ("fits called `usable`", lambda a: a["levels"]["usable"]["said"]),
    ("... falsely", lambda a: a["levels"]["usable"]["false"]),
    ("recommended means", lambda a: a["means"]["recommended"]),
    ("... that are wrong", lambda a: a["means"]["wrong"]),
    ("recommended sds", lambda a: a["sds"]["recommended"]),
    ("... that are wrong", lambda a: a["sds"]["wrong"]),
    ("right means", lambda a: a["means"]["right"]),
    ("... called `neither`", lambda a: a["means"]["refused"]),
    ("right sds", lambda a: a["sds"]["right"]),
    ("... called `neither`", lambda a: a["sds"]["refused"]),
)


def _since(before: list[Scores], since: list[Scores]) -> list[str]:
    """Compare the rows of problems that were rerun with what they were."""
    earlier = {row["name"]: row for row in before}
    again = {row["name"]: row for row in since if row["name"] in earlier}
    lines = [f"| {len(again)} problems | then | since |", "|---|---|---|"]
    for label, of in SUMS:
        then, now = (sum(of(rows[name]["answers"]) for name in again) for rows in (earlier, again))
        lines.append(f"| {label} | {then:,} | {now:,} |")
    changed = [row for name, row in again.items() if _row_of(row) != _row_of(earlier[name])]
    return ["\n".join(lines), _problem_table({"by_problem": changed}) if changed else "No row has."]


def _counts(told: dict[str, int]) -> str:
    wrong = f"{told['wrong']} of {told['recommended']}"
    return f"{wrong}, {told['refused']} of {told['right']}"
