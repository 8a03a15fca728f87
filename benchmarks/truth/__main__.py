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
from truth.run import ROOT, Sources, code_digest, run_all
from truth.scores import summarise

RESULTS = ROOT / "benchmarks" / "truth.json"
PAGE = ROOT / "docs" / "truth.md"
PICTURE = ROOT / "docs" / "pictures" / "truth.png"


def main() -> None:
    parser = argparse.ArgumentParser(prog="truth", description=__doc__)
    parser.add_argument("problems", nargs="*", help="by name; all unless given, and then no page")
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
    unknown = [name for name in options.problems if name not in sources.problems()]
    if unknown:
        parser.error(f"there is no problem {unknown[0]!r}; there are: "
                     f"{', '.join(sources.problems())}")  # fmt: skip
    records = run_all(options.records, sources, options.problems or None, options.workers)
    scores = summarise(records) | {"made": made(options.note)}
    if options.problems:
        print(as_markdown({"now": scores}))
        return
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results[options.label] = scores
    if options.label == "now" and "before" in results:
        results["before"].pop("points", None)  # the picture and the lists show the last run
    RESULTS.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    PAGE.write_text(as_markdown(results))
    write_picture(scores["points"], PICTURE)
    print(f"{PAGE.relative_to(ROOT)} is written", file=sys.stderr)


def made(note: str) -> str:
    """Return the version, what tells its code from other code, the day, and the note."""
    code, day = code_digest()[:8], f"{datetime.now(UTC):%Y-%m-%d}"
    return f"vicheck {vicheck.__version__} (code {code}), {day}" + (f", {note}" if note else "")


if __name__ == "__main__":
    main()
