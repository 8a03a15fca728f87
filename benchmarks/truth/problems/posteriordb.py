"""Posteriors of posteriordb: NumPyro models, or the Stan programs of a full checkout.

The moments and the data are other people's and not part of the project: ``directory`` has one JSON
file for each posterior. In a full checkout (github.com/stan-dev/posteriordb) every posterior with
reference draws is a problem, by its Stan program.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from posteriordb_models import OTHERS, REGRESSIONS, Posterior, load

import vicheck
from truth.problem import MULTIMODAL, Moments, Problem, Truth
from vicheck.model import Model

KIND = "posteriordb"
BY_STAN = "Stan: "
"""Before the names of those by their Stan programs."""
NUM_DRAWS = 10_000
"""Of the reference, as good as independent."""
SLOW = frozenset({"hudson_lynx_hare-lotka_volterra", "one_comp_mm_elim_abs-one_comp_mm_elim_abs"})
"""Differential equations: fewer draws."""
MULTIPLE = frozenset({"hudson_lynx_hare-lotka_volterra"})


def problems(directory: Path) -> Iterator[Problem]:
    """Yield the posteriors of a directory of JSON files, those that are there."""
    for posterior in (*REGRESSIONS, *OTHERS):
        if (directory / f"{posterior.name}.json").exists():
            yield _in_numpyro(directory, posterior)


def _in_numpyro(directory: Path, posterior: Posterior) -> Problem:
    def truth() -> Truth:
        _, known = load(directory, posterior.name)
        moments = {name: Moments(each["mean"], each["sd"]) for name, each in known.items()}
        return Truth(moments, "reference draws", num_draws=NUM_DRAWS)

    def make() -> Model:
        arrays, _ = load(directory, posterior.name)
        return vicheck.from_numpyro(posterior.model, **arrays)

    return Problem(
        posterior.name,
        KIND,
        truth,
        make,
        quantities=tuple(posterior.names),
        tags=frozenset({MULTIMODAL}) if posterior.name in MULTIPLE else frozenset(),
        num_draws=20_000 if posterior.name in SLOW else None,
    )


def stan_problems(checkout: Path) -> Iterator[Problem]:
    """Yield every posterior of a full checkout that has reference draws.

    Raises
    ------
    ValueError
        When the directory is not a checkout of posteriordb.
    """
    database = checkout / "posterior_database"
    if not (database / "posteriors").is_dir():
        raise ValueError(f"{checkout} is no checkout of posteriordb: it has no {database.name}")
    for path in sorted((database / "posteriors").glob("*.json")):
        described = json.loads(path.read_text(encoding="utf-8"))
        name = described.get("reference_posterior_name")
        draws = database / "reference_posteriors" / "draws" / "draws" / f"{name}.json.zip"
        if name and draws.exists():
            yield _in_stan(database, described, draws)


def _in_stan(database: Path, described: dict[str, Any], draws: Path) -> Problem:
    program = database / "models" / "stan" / f"{described['model_name']}.stan"
    data = database / "data" / "data" / f"{described['data_name']}.json.zip"

    @cache
    def truth() -> Truth:
        chains = zipped_json(draws)
        # Names are those of Stan here and in a check of its program.
        columns = {name: np.concatenate([chain[name] for chain in chains]) for name in chains[0]}
        moments = {
            name: Moments(float(each.mean()), float(each.std())) for name, each in columns.items()
        }
        return Truth(moments, "reference draws", num_draws=len(next(iter(columns.values()))))

    return Problem(
        f"{BY_STAN}{described['name']}",
        "posteriordb by Stan",
        truth,
        lambda: vicheck.from_stan(program, zipped_json(data)),
        num_draws=20_000,
        seeds={"deterministic": 2, "stan_advi": 1},
    )


def zipped_json(path: Path) -> Any:
    """Read the one JSON file in an archive."""
    with zipfile.ZipFile(path) as archive:
        (name,) = archive.namelist()
        return json.loads(archive.read(name))
