"""Rescues of every posterior of posteriordb with reference draws, by its Stan program.

Run by ``make bench-rescue-stan POSTERIORDB=checkout``, with names to rerun some; written to docs/.
The checkout (github.com/stan-dev/posteriordb) is not part of the project.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from rescue import number, rescued
from truth.problems.posteriordb import BY_STAN, stan_problems

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "rescue_stan.json", ROOT / "docs" / "rescue-posteriordb.md"
MEAN, SD = 0.1, 0.1
"""A mean further off than this many sds, or an sd by more than this share, is wrong."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("names", nargs="*", help="of posteriors; all by default")
    options = parser.parse_args()
    listed = {each.name.removeprefix(BY_STAN): each for each in stan_problems(options.checkout)}
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in options.names or listed:
        rows[name] = rescued(listed[name])
        print(name, json.dumps(rows[name]), flush=True)
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
        PAGE.write_text(as_markdown({each: rows[each] for each in listed if each in rows}, listed))


def as_markdown(rows: dict[str, dict[str, Any]], listed: Any) -> str:
    done = [row for row in rows.values() if row["succeeded"]]
    true = [row for row in done if row["mean_error"] < MEAN and row["sd_error"] < SD]
    lines = [
        "# All of posteriordb, rescued",
        "",
        "Written by `make bench-rescue-stan` (`benchmarks/rescue_stan.py`); do not edit.",
        "",
        "Every posterior of [posteriordb](https://github.com/stan-dev/posteriordb) with reference",
        "draws, by its own Stan program and data: fitted by the default mean field, then rescued",
        "with a budget of 900 seconds. The columns are those of",
        "[the other page of rescues](rescue-benchmarks.md). Errors are against the 10,000",
        "reference draws, whose own error is about 0.01 sds.",
        "",
        f"Of {len(rows)} posteriors, {len(done)} were called rescued; of these, all means are "
        f"within {MEAN} sds and",
        f"all sds within {SD:.0%} in {len(true)}.",
        "",
        "| posterior | d | khat before | after | level | by | mean | sd | gradients | s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        level = row["level"] if row["succeeded"] else f"{row['level']}, not rescued"
        if row["succeeded"] and "mcmc" in row["by"]:
            level += ", and NUTS has mixed"
        errors = f"{number(row['mean_error'])} | {number(row['sd_error'])}"
        lines.append(
            f"| {name} | {row['parameters']} | {row['khat_before']:.2f} "
            f"| {row['khat_after']:.2f} | {level} | {', '.join(row['by'])} | {errors} "
            f"| {row['gradients']} | {row['seconds']} |"
        )
    missing = [each for each in listed if each not in rows]
    if missing:
        lines += ["", f"Not measured: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
