"""A check as a file: what is kept, and what a file must hold to be one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.results.archive import ArchiveFormat, Arrays
from vicheck.results.chains import ShortChains
from vicheck.results.convergence import Convergence, PooledModes
from vicheck.results.estimates import Predictive
from vicheck.results.modes import ModeSearch
from vicheck.results.provenance import Provenance
from vicheck.results.record import Record

__all__ = ["RECORDS", "load_fields", "save_fields"]

_DIMS = {"log_p": 1, "log_q": 1, "values": 2, "elbo_trace": 1}
"""The arrays, and how many dimensions they have."""
RECORDS = ("convergence", "pooled", "modes", "chains", "predictive", "provenance")
"""Fields of a check that hold a record or nothing."""


@dataclass(frozen=True, eq=False, repr=False)
class _Description(Record):
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


_FORMAT = ArchiveFormat("check", 3, _Description)


def save_fields(path: str | Path, check: Any) -> None:
    """Write a check to a file, whole or not at all."""
    described = _Description(
        **{each.name: getattr(check, each.name) for each in fields(_Description)}
    )
    arrays = {name: np.asarray(getattr(check, name), np.float64) for name in _DIMS}
    _FORMAT.save(path, described, arrays)


def load_fields(path: str | Path) -> dict[str, Any]:
    """Return the fields of a check from what `save_fields` has written.

    Raises
    ------
    InputFileError
        If the file holds anything else.
    """
    return _FORMAT.load(path, _fields_of)


def _fields_of(description: _Description, arrays: Arrays) -> dict[str, Any]:
    _require_fitting(description, arrays)
    return {each.name: getattr(description, each.name) for each in fields(description)} | arrays


def _require_fitting(description: _Description, arrays: Arrays) -> None:
    """Raise `ValueError` unless the arrays are those of one check and fit their description."""
    dims = {name: array.ndim for name, array in arrays.items() if array.dtype == np.float64}
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
