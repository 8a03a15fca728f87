"""What a process costs that finds compiled code of an earlier one: the eight schools, from Python.

Processor time, imports apart, of a fit, a check with 1e5 draws and its moments: in a process with
an empty cache, and in others after it. Then a second fit in the same process, and how long it takes
to see whether the model has changed. Medians; prints a table::

    python benchmarks/second_process.py [number of processes]
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np

PROGRAM = """
import json, time
import jax, numba, numpyro, pandas, scipy.stats, equinox
import vicheck
from vicheck.model import double_precision
from vicheck.paper.models import EIGHT_SCHOOLS, eight_schools_noncentred

vicheck.from_numpyro, vicheck.fit, vicheck.check
from vicheck.stats import rows_compiled  # Numba's part, which has a cache of its own

def seconds(run):
    start = time.process_time()
    result = run()
    return result, time.process_time() - start

def median(run):
    return sorted(seconds(run)[1] for _ in range(31))[15]

taken = {}
schools = lambda: vicheck.from_numpyro(eight_schools_noncentred, **EIGHT_SCHOOLS)
model, taken["from_numpyro"] = seconds(schools)
fit, taken["fit"] = seconds(lambda: vicheck.fit(model))
check, taken["check"] = seconds(lambda: vicheck.check(fit, num_draws=100_000))
_, taken["moments"] = seconds(lambda: check.moments)
taken["all of these"] = sum(taken.values())
taken["fit again"] = median(lambda: vicheck.fit(model))
with double_precision():
    look = lambda: model.program.computation("log_density", model.data)
    taken["seeing whether the model has changed"] = median(look)
print(json.dumps(taken))
"""


def run(cache: str) -> dict[str, float]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    env |= {"XDG_CACHE_HOME": cache}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # Python is to compile our sources once
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    taken: dict[str, float] = json.loads(done.stdout)
    return taken


def main(number: int) -> None:
    first, later = [], []
    for _ in range(number):
        with tempfile.TemporaryDirectory() as cache:
            first.append(run(cache))
            later.append(run(cache))
    print("| milliseconds of processor time | first process | later ones |\n|---|---|---|")
    for name in first[0]:
        columns = (1e3 * np.median([each[name] for each in runs]) for runs in (first, later))
        print(f"| {name} | {' | '.join(f'{value:.1f}' for value in columns)} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
