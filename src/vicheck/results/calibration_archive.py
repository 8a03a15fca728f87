"""A calibration as a file: its settings, and its dataset taken apart into arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

from vicheck.results.archive import ArchiveFormat, Arrays
from vicheck.results.record import Record
from vicheck.results.run_settings import RunSettings

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["load_fields", "save_fields"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class _Description(Record):
    """What is kept beside the arrays."""

    settings: RunSettings
    coords: tuple[str, ...]
    """Which of the arrays are coordinates."""
    dims: dict[str, tuple[str, ...]]
    """Dimensions of each array."""


_FORMAT = ArchiveFormat("calibration", 3, _Description)


def save_fields(path: str | Path, data: xr.Dataset, settings: RunSettings) -> None:
    """Write data with numbers, booleans and text, and settings, to a file, whole or not at all."""
    arrays = {str(name): _plain(each.to_numpy()) for name, each in data.variables.items()}
    description = _Description(
        settings=settings,
        coords=tuple(sorted(map(str, data.coords))),
        dims={name: tuple(map(str, data[name].dims)) for name in sorted(arrays)},
    )
    _FORMAT.save(path, description, arrays)


def load_fields(path: str | Path, build: Callable[[xr.Dataset, RunSettings], T]) -> T:
    """Return what ``build`` makes of the data and settings that `save_fields` has written.

    Raises
    ------
    InputFileError
        If the file holds anything else, or ``build`` raises a `ValueError`.
    """
    import xarray as xr

    def assemble(description: _Description, arrays: Arrays) -> T:
        _require_fitting(description, arrays)
        variables = {name: (dims, arrays[name]) for name, dims in description.dims.items()}
        coordinates = {name: variables.pop(name) for name in description.coords}
        return build(xr.Dataset(variables, coordinates), description.settings)

    return _FORMAT.load(path, assemble)


def _require_fitting(description: _Description, arrays: Arrays) -> None:
    """Raise `ValueError` unless the description is that of the arrays."""
    if description.dims.keys() != arrays.keys() or not {*description.coords} <= {*arrays}:
        raise ValueError("its description is not that of its arrays")
    if len(set(description.coords)) != len(description.coords):
        raise ValueError("one of its coordinates comes twice")
    for name, dims in description.dims.items():
        if len(set(dims)) != arrays[name].ndim or len(dims) != arrays[name].ndim:
            raise ValueError(f"{name!r} has other dimensions than {dims}")


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return text that pandas keeps as objects as NumPy's own."""
    return array.astype(str) if array.dtype.kind == "O" else array
