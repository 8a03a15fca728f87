"""Make ``rescue_truths.json``: moments by long runs of NUTS, for rescues of posteriors without any.

``python benchmarks/rescue_truths.py``, some minutes. Location-scale sites that make a funnel are
sampled in non-centred coordinates; the moments are those of the sites themselves.
"""

from __future__ import annotations

import json
from pathlib import Path

import rescue

import vicheck
from vicheck.adapters.numpyro.reparametrise import location_scale_sites, with_degrees

PATH = Path(__file__).with_suffix(".json")
NUM_CHAINS, NUM_DRAWS, NUM_WARMUP, TARGET = 4, 10_000, 2000, 0.99
MODELS = {
    "logistic regression, correlation 0.99": rescue.logistic,
    "gamma-Poisson": rescue.gamma_poisson,
    "20 groups, two varying coefficients": rescue.radon,
    "local level, 25 steps": rescue.local_level,
    "hierarchical logistic regression, 4 groups, centred": rescue.groups,
}


def main() -> None:
    stored = {}
    for name, make in MODELS.items():
        model = make()
        found = vicheck.reference(
            with_degrees(model, dict.fromkeys(location_scale_sites(model), 0.0)),
            num_chains=NUM_CHAINS,
            num_draws=NUM_DRAWS,
            num_warmup=NUM_WARMUP,
            target_accept=TARGET,
        )
        table = found.moments
        stored[name] = {
            "sampler": f"NUTS, {NUM_CHAINS} chains of {NUM_DRAWS}, target acceptance {TARGET}",
            "version": f"vicheck {vicheck.__version__}",
            "divergences": int(found.num_divergent),
            "largest_rhat": float(table["rhat"].max()),
            "least_ess": float(table["ess"].min()),
            "moments": {
                label: [float(row["mean"]), float(row["sd"])] for label, row in table.iterrows()
            },
        }
        print(name, {k: v for k, v in stored[name].items() if k != "moments"}, flush=True)
    PATH.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
