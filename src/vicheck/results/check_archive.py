"""A check as a file: what is kept, and what a file must hold to be one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ArgumentError, UnreliableWarning
from vicheck.indexing import Indexing
from vicheck.results.archive import ArchiveFormat, Arrays
from vicheck.results.chains import ShortChains
from vicheck.results.conclusions import Conclusions, columns_of
from vicheck.results.convergence import Convergence, PooledModes
from vicheck.results.estimates import Predictive
from vicheck.results.modes import ModeSearch
from vicheck.results.provenance import Provenance
from vicheck.results.record import Record

__all__ = [
    "RECORDS",
    "CheckDescription",
    "described_check",
    "fields_of",
    "load_fields",
    "save_fields",
]

_DIMS = {"log_p": 1, "log_q": 1, "values": 2, "elbo_trace": 1}
"""The arrays, and how many dimensions they have."""
RECORDS = ("convergence", "pooled", "modes", "chains", "predictive", "provenance")
"""Fields of a check that hold a record or nothing."""


@dataclass(frozen=True, eq=False, repr=False)
class CheckDescription(Record):
    """What is kept beside the arrays: fields of `Check` by the same names."""

    names: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]
    khat_growth: dict[int, float]
    title: str
    notes: tuple[str, ...]
    unnormalized: str
    extra: dict[str, dict[str, float]]
    convergence: Convergence | None
    pooled: PooledModes | None
    modes: ModeSearch | None
    predictive: Predictive | None
    provenance: Provenance | None
    chains: ShortChains | None = None
    dims: dict[str, tuple[str, ...]] = field(default_factory=dict)
    coords: dict[str, tuple[str | int | float, ...]] = field(default_factory=dict)
    indexing: Indexing = Indexing.PYTHON
    prob: tuple[float, ...] = (0.05, 0.5, 0.95)
    conclusions: Conclusions | None = None


_FORMAT = ArchiveFormat("check", 3, CheckDescription)


def save_fields(path: str | Path, check: Any, *, draws: bool, dtype: str) -> None:
    """Write a check to a file, whole or not at all."""
    _FORMAT.save(path, *described_check(check, draws=draws, dtype=dtype))


def described_check(check: Any, *, draws: bool, dtype: str) -> tuple[CheckDescription, Arrays]:
    """Return what is kept of a check.

    Without the draws, or with fewer digits of them, that is also what follows from all of them.
    """
    if str(dtype) not in ("float64", "float32"):
        raise ArgumentError("dtype", f"must be 'float64' or 'float32', got {dtype!r}")
    named = {each.name: getattr(check, each.name) for each in fields(CheckDescription)}
    if named["conclusions"] is None and not (draws and dtype == "float64"):
        named["conclusions"] = _conclusions_of(check)
    named["coords"] = {dim: tuple(map(_plain, labels)) for dim, labels in check.coords.items()}
    arrays = {name: np.asarray(getattr(check, name), np.float64) for name in _DIMS}
    arrays["values"] = arrays["values"][: None if draws else 0].astype(dtype)
    return CheckDescription(**named), arrays


def _conclusions_of(check: Any) -> Conclusions:
    with warnings.catch_warnings():  # a file keeps the verdict beside the numbers
        warnings.simplefilter("ignore", UnreliableWarning)
        tables = (check.moments, check.quantiles(), check.summary())
    return Conclusions(check.verdict, *map(columns_of, tables))


def _plain(label: Any) -> str | int | float:
    """Return a label as JSON can hold it: a date becomes text."""
    value = label.item() if isinstance(label, np.generic) else label
    return value if type(value) in (str, int, float) else str(label)


def load_fields(path: str | Path) -> dict[str, Any]:
    """Return the fields of a check from what `save_fields` has written.

    Raises
    ------
    InputFileError
        If the file holds anything else.
    """
    return _FORMAT.load(path, fields_of)


def fields_of(description: CheckDescription, arrays: Arrays) -> dict[str, Any]:
    """Return the fields of a check, or raise `ValueError` where its parts do not fit."""
    _require_fitting(description, arrays)
    doubled = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
    return {each.name: getattr(description, each.name) for each in fields(description)} | doubled


def _require_fitting(description: CheckDescription, arrays: Arrays) -> None:
    """Raise `ValueError` unless the arrays are those of one check and fit their description."""
    short = description.conclusions
    kinds = ("float64",) if short is None else ("float64", "float32")  # of the draws
    dims = {
        name: array.ndim
        for name, array in arrays.items()
        if array.dtype.name in (kinds if name == "values" else kinds[:1])
    }
    if dims != _DIMS or len(arrays) != len(_DIMS):
        raise ValueError(f"it must have the arrays {', '.join(_DIMS)}, got {', '.join(arrays)}")
    log_p, log_q, values = arrays["log_p"], arrays["log_q"], arrays["values"]
    if not 0 < len(log_p) == len(log_q) >= len(values):
        raise ValueError(f"it has {len(log_p)} log_p, {len(log_q)} log_q, {len(values)} draws")
    if not _are_columns(description.shapes, description.names, values):
        raise ValueError("its names and shapes are not those of its columns")
    if len(set(description.names)) != len(description.names):
        raise ValueError("two of its quantities have the same name")
    if any(size < 1 for size in description.khat_growth):
        raise ValueError("its khat_growth is that of no draws")
    if not description.prob or not all(0.0 < each < 1.0 for each in description.prob):
        raise ValueError("its prob are no probabilities")
    _require_fitting_records(description)
    if short is not None and not short.fit(description.names):
        raise ValueError("its tables are not those of its quantities")


def _require_fitting_records(description: CheckDescription) -> None:
    if description.pooled is not None:
        masses, locations = description.pooled.masses, description.pooled.locations
        if masses.ndim != 1 or locations.ndim != 2 or not 0 < len(masses) == len(locations):
            raise ValueError("its modes have no mass and place each")
        effects = description.pooled.shift.shape, description.pooled.growth.shape
        if effects != ((len(description.pooled.names),),) * 2:
            raise ValueError("its quantities have no effect of the modes each")
    if description.modes is not None:
        search = description.modes
        shapes = {search.log_p.shape, search.log_mass.shape, search.counts.shape}
        if search.z.ndim != 2 or shapes != {search.z.shape[:1]}:
            raise ValueError("its search has no place and numbers for each mode")
    if description.chains is not None and not description.chains.fits(description.names):
        raise ValueError("its chains are not those of its quantities")
    if description.convergence is not None and description.convergence.gradient_trace.ndim != 1:
        raise ValueError("its gradient_trace is no vector")


def _are_columns(
    shapes: Mapping[str, tuple[int, ...]], names: tuple[str, ...], values: NDArray[np.float64]
) -> bool:
    sizes = [prod(shape) for shape in shapes.values()]
    positive = all(size >= 0 for shape in shapes.values() for size in shape)
    return positive and sum(sizes) == len(names) == values.shape[1] > 0
