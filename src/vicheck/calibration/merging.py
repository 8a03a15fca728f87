"""Several runs of the same model and settings as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from vicheck.results.run_settings import RunSettings

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["merge_runs"]


def merge_runs(
    runs: Sequence[tuple[xr.Dataset, RunSettings]],
) -> tuple[xr.Dataset, RunSettings]:
    """Join data and settings of runs on different datasets.

    Datasets keep their numbers when these differ, and are renumbered when they do not; their
    seeds stay.

    Raises
    ------
    ValueError
        When models, settings or quantities differ, or a dataset is in more than one run.
    """
    import xarray as xr

    parts, settings = [data for data, _ in runs], [each for _, each in runs]
    for other in settings[1:]:
        _require_mergeable(settings[0], other)
    seeds = np.concatenate([part["seed"].to_numpy() for part in parts])
    repeated = [seed for seed, count in Counter(seeds.tolist()).items() if count > 1]
    if repeated:
        raise ValueError(
            f"the runs share {len(repeated)} datasets, the first with seed {repeated[0]}: "
            "merge runs with different seeds"
        )
    merged = xr.concat(
        parts,
        "dataset",
        data_vars="minimal",
        coords="minimal",
        compat="equals",
        join="exact",
        combine_attrs="drop",
    )
    numbers = merged["dataset"].to_numpy()
    if len(set(numbers.tolist())) == len(numbers):
        merged = merged.sortby("dataset")
    else:
        merged = merged.assign_coords(dataset=np.arange(len(numbers)))
    machines = {*chain.from_iterable(each.machines for each in settings)}
    return merged, replace(
        settings[0],
        num_datasets=len(numbers),
        seeds=tuple(dict.fromkeys(chain.from_iterable(each.seeds for each in settings))),
        machines=tuple(sorted(machines)),
    )


def _require_mergeable(first: RunSettings, other: RunSettings) -> None:
    if first.quantities != other.quantities:
        raise ValueError(
            f"the runs must have the same quantities, got {', '.join(first.quantities[:5])} ... "
            f"and {', '.join(other.quantities[:5])} ..."
        )
    for name, mine, theirs in first.differences(other):
        raise ValueError(f"the runs must have the same {name}, got {mine!r} and {theirs!r}")
