"""Run the scoreboard, and write ``benchmarks/truth.json``, ``docs/truth.md`` and its picture."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import vicheck
from truth.page import LABELS, as_markdown
from truth.picture import write_picture
from truth.problem import LIMIT
from truth.problems.posteriordb import BY_STAN
from truth.run import ROOT, Sources, code_digest, run_all
from truth.scores import summarise

RESULTS = ROOT / "benchmarks" / "truth.json"
PAGE = ROOT / "docs" / "truth.md"
PICTURE = ROOT / "docs" / "pictures" / "truth.png"


def main() -> None:
    parser = argparse.ArgumentParser(prog="truth", description=__doc__)
    parser.add_argument("problems", nargs="*", help="by name; all unless given, and then no page")
    parser.add_argument("--limits", action="store_true", help="known limits alone, on the page")
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="on the page: Stan's posteriors (--posteriordb) that are not on the scoreboard",
    )
    parser.add_argument(
        "--partly", action="store_true", help="put the named problems on the page as rerun since"
    )
    parser.add_argument("--as", dest="label", choices=LABELS, default="now", help="column to fill")
    parser.add_argument(
        "--moments",
        type=Path,
        default=ROOT.parent / "shared" / "data" / "posteriordb",
        help="directory of data and moments of posteriordb",
    )
    parser.add_argument("--posteriordb", type=Path, help="full checkout, for its Stan programs")
    parser.add_argument("--records", type=Path, default=ROOT / ".truth" / "records.jsonl")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--note", default="", help="on how it was run, for the page")
    options = parser.parse_args()
    sources = Sources(options.moments, options.posteriordb)
    problems = sources.problems()
    unknown = [name for name in options.problems if name not in problems]
    if unknown:
        parser.error(f"there is no problem {unknown[0]!r}; there are: {', '.join(problems)}")
    limits = [name for name, problem in problems.items() if LIMIT in problem.tags]
    fresh = [name for name in problems if name.removeprefix(BY_STAN) not in problems]
    if options.fresh and not fresh:
        parser.error("--fresh needs --posteriordb, a full checkout")
    chosen = options.problems or (limits if options.limits else fresh if options.fresh else None)
    records = run_all(options.records, sources, chosen, options.workers)
    beside = [record for record in records if LIMIT in record["tags"]]
    counted = [record for record in records if LIMIT not in record["tags"]]
    when = {"made": made(options.note)}
    if options.problems and not options.partly and not options.fresh:
        print(as_markdown({"now": summarise(records) | when}))
        return
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if options.fresh:
        results["fresh"] = summarise(counted) | when
        results["fresh"].pop("points")
    whole = counted and not options.partly and not options.fresh
    if beside:
        results["limits"] = {"by_problem": summarise(beside)["by_problem"]} | when
    if options.partly:
        results["since"] = {"by_problem": summarise(counted)["by_problem"]} | when
    if whole:
        results[options.label] = summarise(counted) | when
        results.pop("since", None)
    if options.label == "now" and "before" in results:
        results["before"].pop("points", None)  # the picture and the lists show the last run
    RESULTS.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    PAGE.write_text(as_markdown(results))
    if whole:
        write_picture(results[options.label]["points"], PICTURE)
    print(f"{PAGE.relative_to(ROOT)} is written", file=sys.stderr)


def made(note: str) -> str:
    """Return the version, what tells its code from other code, the day, and the note."""
    code, day = code_digest()[:8], f"{datetime.now(UTC):%Y-%m-%d}"
    return f"vicheck {vicheck.__version__} (code {code}), {day}" + (f", {note}" if note else "")


if __name__ == "__main__":
    main()
