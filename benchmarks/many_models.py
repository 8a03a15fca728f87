"""A thousand different models in one process: what compiled code they leave behind.

Each model is a fresh closure over another number, as a simulation study makes them; each is fitted
and checked. Before compiled code was bounded, the process failed at about the 145th, at the
system's limit of memory maps. Prints a line after every hundredth::

    python benchmarks/many_models.py [number of models]
"""

import sys
from pathlib import Path

import jax.numpy as jnp

import vicheck
from vicheck.runtime.compiling import MOST_KEPT, num_kept


def model_with(shift: float) -> vicheck.Model:
    def log_density(x):
        return -jnp.sum((x - shift) ** 2) / 2

    return vicheck.from_log_density(log_density, jnp.zeros(2))


def main(number: int) -> None:
    print(f"at most {MOST_KEPT} pieces of compiled code are kept")
    print("| models | pieces kept | memory maps | resident MB |\n|---|---|---|---|")
    for count in range(1, number + 1):
        checked = vicheck.check(vicheck.fit(model_with(count / 8), num_starts=1), num_draws=1000)
        assert abs(checked.moments.loc["x[0]", "vi_mean"] - count / 8) < 0.2
        if count in (10, 50) or count % 100 == 0:
            maps = len(Path("/proc/self/maps").read_text().splitlines())
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            print(f"| {count} | {num_kept()} | {maps} | {pages * 4096 / 1e6:.0f} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
