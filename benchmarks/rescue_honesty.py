"""How often a rescue calls good what is not: a hundred rescues of a target that has no remedy.

A funnel of fifteen parameters as a bare density, so that there are no sites to reparametrise: no t
reaches its neck, whatever it is adapted to. Run by ``python benchmarks/rescue_honesty.py``; keeps
how many of the rescues said that they had succeeded, and the khats of the best candidates, for the
page that ``make bench-rescue`` writes.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import vicheck

RESULTS = Path(__file__).with_suffix(".json")
DIM = 15
REMEDIES = ("heavier-tails", "adapt")


def log_density(x: Any) -> Any:
    scale = dist.Normal(0.0, jnp.exp(0.5 * x[0]))
    return dist.Normal(0.0, 3.0).log_prob(x[0]) + scale.log_prob(x[1:]).sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=100)
    options = parser.parse_args()
    fit = vicheck.fit(vicheck.from_log_density(log_density, np.zeros(DIM)))
    start, said, khats = time.process_time(), 0, []
    for seed in range(options.repeats):
        found = vicheck.rescue(fit, remedies=REMEDIES, seed=seed, num_draws=10_000, budget=1e6)
        said += found.succeeded
        khats.append(float(np.nanmin(found.trail["khat_after"])))
    numbers = {
        "repeats": options.repeats,
        "called rescued": said,
        "lowest khat": round(min(khats), 2),
        "median khat": round(float(np.median(khats)), 2),
        "seconds": round(time.process_time() - start),
    }
    RESULTS.write_text(json.dumps(numbers, indent=1) + "\n")
    print(json.dumps(numbers))


if __name__ == "__main__":
    main()
