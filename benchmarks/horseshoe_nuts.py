"""NUTS for the horseshoe on the leukemia data, once: thinned draws of what Figure 7 shows.

Run by ``make horseshoe-nuts DATA=...``. Each chain is a process of its own, of six to ten minutes,
and a chain that is finished with the same settings is not run again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import arviz
import numpy as np

import vicheck
from vicheck.paper.experiment import write_json
from vicheck.paper.fig7 import make_model, plotted
from vicheck.paper.leukemia import load_leukemia

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "src" / "vicheck" / "paper" / "horseshoe_nuts.json"
THINNED = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="openml", help="the leukemia data")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2, help="chains at a time")
    parser.add_argument("--num-warmup", type=int, default=1500)
    parser.add_argument("--num-draws", type=int, default=6000)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "horseshoe_nuts")
    parser.add_argument("--chain", type=int, help="run this chain only")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.chain is not None:
        run_chain(options)
        return
    waiting = [c for c in range(options.chains) if not chain_file(options, c).exists()]
    running: list[subprocess.Popen[bytes]] = []
    while waiting or running:
        while waiting and len(running) < options.jobs:
            arguments = [*sys.argv, "--chain", str(waiting.pop(0))]
            running.append(subprocess.Popen([sys.executable, *arguments]))
        time.sleep(1.0)
        for process in [process for process in running if process.poll() is not None]:
            running.remove(process)
            if process.returncode:
                for other in running:
                    other.terminate()
                raise SystemExit(f"a chain ended with status {process.returncode}")
    write_json(RESULT, combine(options))


def chain_file(options: Any, chain: int) -> Path:
    return options.work / f"chain-{chain}-{options.num_warmup}-{options.num_draws}.npz"


def run_chain(options: Any) -> None:
    model = make_model(load_leukemia(options.data))
    start = time.perf_counter()
    draws = vicheck.reference(
        model,
        num_draws=options.num_draws,
        num_warmup=options.num_warmup,
        num_chains=1,
        seed=options.chain,
    )
    seconds = time.perf_counter() - start
    kept = {name: values[0] for name, values in plotted(draws.draws).items()}
    partial = chain_file(options, options.chain).with_suffix(".partial.npz")
    np.savez(partial, **kept, seconds=seconds, divergent=draws.num_divergent)
    partial.rename(chain_file(options, options.chain))


def combine(options: Any) -> dict[str, Any]:
    chains = [dict(np.load(chain_file(options, chain))) for chain in range(options.chains)]
    names = ("beta", "log_lambda", "log_tau")
    stacked = {name: np.stack([chain[name] for chain in chains]) for name in names}
    step = max(1, options.num_draws // THINNED)
    return {
        "what": "NUTS on the leukemia data, c2 ~ Inv-Gamma(2, 8); thinned draws, one row a chain",
        "script": "benchmarks/horseshoe_nuts.py",
        "chains": options.chains,
        "num_warmup": options.num_warmup,
        "num_draws": options.num_draws,
        "thinned_by": step,
        "numpyro": version("numpyro"),
        "jax": version("jax"),
        "seconds": [float(chain["seconds"]) for chain in chains],
        "divergent": sum(int(chain["divergent"]) for chain in chains),
        "rhat": {name: float(arviz.rhat(values)) for name, values in stacked.items()},
        "ess": {name: float(arviz.ess(values)) for name, values in stacked.items()},
        "draws": {name: values[:, ::step] for name, values in stacked.items()},
    }


if __name__ == "__main__":
    main()
