"""A dataset as one ``.npz`` file: the same content gives the same bits, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np

from vicheck.durable_files import whole_file
from vicheck.errors import InputFileError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["read_dataset", "write_dataset"]

_DATE = (1980, 1, 1, 0, 0, 0)
"""A zip file keeps a date for each member; the earliest it can hold stands for none."""
_DESCRIPTION = "description"


def write_dataset(path: str | Path, dataset: xr.Dataset) -> None:
    """Write a dataset with numbers, booleans and strings; an old file stays until all is there."""
    with whole_file(Path(path)) as file:
        _write_members(file, dataset)


def read_dataset(path: str | Path, kind: str, known_format: int) -> xr.Dataset:
    """Read what `write_dataset` has written.

    Raises
    ------
    InputFileError
        When the file holds anything else, or a format that this version does not know.
    """
    import xarray as xr

    try:
        # Opened here, because NumPy leaves a file open that it cannot read.
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            described = json.loads(str(file[_DESCRIPTION]))
            texts = {name: np.array(value, dtype=str) for name, value in described["texts"].items()}
            variables = {
                name: (tuple(dims), texts[name] if name in texts else file[name])
                for name, dims in described["dims"].items()
            }
            attributes = described["attrs"]
            found = attributes["format"]
    except (BadZipFile, EOFError, KeyError, TypeError, ValueError) as error:
        raise InputFileError(f"{path} is not a {kind} that vicheck has saved") from error
    if found != known_format:
        raise InputFileError(f"{path} has format {found}, this version reads {known_format}")
    coordinates = {name: variables.pop(name) for name in described["coords"]}
    return xr.Dataset(variables, coordinates, attributes)


def _write_members(file: IO[bytes], dataset: xr.Dataset) -> None:
    arrays = {str(name): variable.to_numpy() for name, variable in dataset.variables.items()}
    texts = {name: array.tolist() for name, array in arrays.items() if array.dtype.kind in "OU"}
    described = {
        "attrs": {str(name): _plain(value) for name, value in dataset.attrs.items()},
        "coords": sorted(map(str, dataset.coords)),
        "dims": {name: list(map(str, dataset[name].dims)) for name in arrays},
        "texts": texts,
    }
    members = {name: array for name, array in arrays.items() if name not in texts}
    members[_DESCRIPTION] = np.array(json.dumps(described, sort_keys=True))
    with ZipFile(file, "w") as archive:  # not compressed: zlib's versions differ in their bits
        for name in sorted(members):
            member = ZipInfo(f"{name}.npy", _DATE)
            member.create_system = 3  # that of the machine would be kept
            with archive.open(member, "w", force_zip64=True) as stream:
                array = members[name]
                little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
                np.lib.format.write_array(stream, little.reshape(array.shape), allow_pickle=False)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
