"""Make ``references.json``: moments by long runs of NUTS, for problems with no exact answer.

Run from ``benchmarks`` by ``python -m truth.references``; takes some minutes.
"""

from __future__ import annotations

import json

import vicheck
from truth.problems import hierarchical

NUM_CHAINS, NUM_DRAWS, TARGET = 4, 10_000, 0.999


def main() -> None:
    stored = {}
    for problem in hierarchical.problems():
        assert problem.make is not None
        draws = vicheck.reference(
            problem.make(), num_chains=NUM_CHAINS, num_draws=NUM_DRAWS, target_accept=TARGET
        )
        table = draws.moments.loc[list(problem.quantities or ())]
        stored[problem.name] = {
            "sampler": f"NUTS, {NUM_CHAINS} chains of {NUM_DRAWS}, target acceptance {TARGET}",
            "version": f"vicheck {vicheck.__version__}",
            "divergences": int(draws.num_divergent),
            "largest_rhat": float(table["rhat"].max()),
            "least_ess": float(table["ess"].min()),
            "moments": {
                name: [float(row["mean"]), float(row["sd"])] for name, row in table.iterrows()
            },
        }
        print(problem.name, {k: v for k, v in stored[problem.name].items() if k != "moments"})
    hierarchical.REFERENCES.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
