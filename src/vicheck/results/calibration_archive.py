"""The dataset of a calibration as a file: what is kept, and what a file must hold to be one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vicheck.files.json_reader import parse_json
from vicheck.results.archive import Arrays, explaining_misfits, load_result, save_result
from vicheck.results.record import Record

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["load_dataset", "save_dataset"]

_FORMAT = 2
_KINDS = {
    "dataset": "iu",
    "exact": "b",
    "khat": "f",
    "message": "U",
    "probability": "f",
    "quantity": "U",
    "seed": "iu",
    "status": "U",
    "symmetric_kl": "f",
}
"""Kinds of numbers or text that variables must have, where they are there."""
_JSON_ATTRIBUTES = ("options", "versions")
"""Attributes that hold an object as JSON."""


@dataclass(frozen=True, eq=False, repr=False)
class _Description(Record):
    """What is kept beside the arrays."""

    attrs: dict[str, Any]
    coords: tuple[str, ...]
    """Which of the arrays are coordinates."""
    dims: dict[str, tuple[str, ...]]
    """Dimensions of each array."""


def save_dataset(path: str | Path, dataset: xr.Dataset) -> None:
    """Write a dataset with numbers, booleans and text to a file, whole or not at all."""
    arrays = {str(name): _plain(each.to_numpy()) for name, each in dataset.variables.items()}
    described = _Description(
        attrs={str(name): dataset.attrs[name] for name in sorted(dataset.attrs)},
        coords=tuple(sorted(map(str, dataset.coords))),
        dims={name: tuple(map(str, dataset[name].dims)) for name in sorted(arrays)},
    )
    save_result(path, "calibration", _FORMAT, described.to_dict(), arrays)


def load_dataset(path: str | Path) -> xr.Dataset:
    """Read what `save_dataset` has written.

    Raises
    ------
    InputFileError
        If the file holds anything else.
    """
    description, arrays = load_result(path, "calibration", _FORMAT)
    with explaining_misfits(path, "calibration"):
        return _dataset(_Description.from_dict(description), arrays)


def _dataset(found: _Description, arrays: Arrays) -> xr.Dataset:
    """Return the dataset, or raise `ValueError` unless all of it fits together."""
    import xarray as xr

    if found.dims.keys() != arrays.keys() or not {*found.coords} <= {*arrays}:
        raise ValueError("its description is not that of its arrays")
    if len(set(found.coords)) != len(found.coords):
        raise ValueError("one of its coordinates comes twice")
    for name, kinds in _KINDS.items():
        if name in arrays and arrays[name].dtype.kind not in kinds:
            raise ValueError(f"{name!r} has the type {arrays[name].dtype}")
    for name, dims in found.dims.items():
        if len(set(dims)) != arrays[name].ndim or len(dims) != arrays[name].ndim:
            raise ValueError(f"{name!r} has other dimensions than {dims}")
    probability = arrays.get("probability", np.empty(0))
    if not probability.size or not np.all(
        (probability >= 0) & (probability <= 1) | np.isnan(probability)
    ):
        raise ValueError("it has no probabilities, or some that do not lie between 0 and 1")
    _require_attributes(found.attrs)
    variables = {name: (dims, arrays[name]) for name, dims in found.dims.items()}
    coordinates = {name: variables.pop(name) for name in found.coords}
    return xr.Dataset(variables, coordinates, found.attrs)


def _require_attributes(attributes: dict[str, Any]) -> None:
    for name in _JSON_ATTRIBUTES:
        text = attributes.get(name) or "{}"
        if not isinstance(text, str) or not isinstance(parse_json(text), dict):
            raise ValueError(f"{name} of attrs is no object")
    machines = parse_json(str(attributes.get("made_on") or "[]"))
    if not isinstance(machines, list) or not all(isinstance(each, str) for each in machines):
        raise ValueError("made_on of attrs is no list of names")
    number = attributes.get("num_draws", 1)
    if type(number) is not int or not 0 < number < 2**63:
        raise ValueError("num_draws of attrs is no number of draws")


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return text that pandas keeps as objects as NumPy's own."""
    return array.astype(str) if array.dtype.kind == "O" else array
