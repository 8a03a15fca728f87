"""Data files: named arrays from JSON, NumPy and CSV files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import InputFileError, UnreadableError
from vicheck.files.csv_reader import parse_csv, parse_number
from vicheck.files.json_reader import parse_json
from vicheck.files.numpy_reader import NPY_MAGIC, NpzFile

__all__ = ["column_names", "open_npz", "read_data"]


def read_data(path: str | Path, columns: Sequence[str] | None = None) -> dict[str, Any]:
    """Read named data from a file.

    Parameters
    ----------
    path
        ``.json``: an object of numbers and (nested) lists of numbers. ``.npz``: named arrays.
        ``.csv``: a header and a column for each name; lines that start with ``#`` are skipped, and
        so is a first column without a name, where R and pandas write row numbers.
    columns
        Of a CSV file: names of the columns to read. Others may hold anything.

    Returns
    -------
    dict
        Arrays by name; single numbers stay Python numbers. NaN is let through: the model that
        cannot take it says where it is.

    Raises
    ------
    OSError
        If the file cannot be opened.
    InputFileError
        If it holds something else; the message names the key, or the line and column.
    """
    path = Path(path)
    readers = {".json": _read_json, ".npz": _read_npz, ".csv": _read_csv}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputFileError(f"{path} must end in one of {', '.join(readers)}")
    if columns is not None and path.suffix.lower() == ".csv":
        data = _read_csv(path.read_bytes(), str(path), columns)
    else:
        data = reader(path.read_bytes(), str(path))
    if not data:
        raise InputFileError(f"{path} holds no data")
    return data


def _read_json(content: bytes, name: str) -> dict[str, Any]:
    try:
        values = parse_json(content)
    except UnreadableError as error:
        raise InputFileError(f"{name} {error}") from None
    if not isinstance(values, dict):
        raise InputFileError(
            f"{name} must hold an object of names and values, got {_json_type(values)}"
        )
    return {key: _from_json(value, key, name) for key, value in values.items()}


def _from_json(value: Any, key: str, name: str) -> Any:
    if isinstance(value, bool | int | float):
        if _not_number([value]):
            raise InputFileError(f"{name}: {key!r} must fit into 64 bits, got {value}")
        return value
    if not isinstance(value, list):
        raise InputFileError(
            f"{name}: {key!r} must be a number or a list of numbers, got {_json_type(value)}"
        )
    try:
        array = np.array(value)
    except ValueError:
        raise InputFileError(f"{name}: the lists in {key!r} differ in length or depth") from None
    if array.dtype.kind not in "biuf":
        raise InputFileError(f"{name}: {key!r} must hold numbers only, got {_not_number(value)}")
    return array


def _not_number(values: list[Any]) -> str:
    """Describe the first item in nested lists that is no number."""
    for value in values:
        if isinstance(value, list):
            description = _not_number(value)
            if description:
                return description
        elif not isinstance(value, bool | float) and not (
            isinstance(value, int) and -(2**63) <= value < 2**63
        ):
            return json.dumps(value)
    return ""


def _json_type(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", type(None): "null"}
    return kinds.get(type(value), "a number")


def open_npz(content: bytes, name: str) -> NpzFile:
    """Return the arrays of an .npz file, to be read by their names."""
    if content.startswith(NPY_MAGIC):
        raise InputFileError(
            f"{name} holds one array without a name", hint="write it with numpy.savez"
        )
    try:
        return NpzFile(content)
    except UnreadableError as error:
        raise InputFileError(f"{name} is not a readable .npz file: it {error}") from None


def _read_npz(content: bytes, name: str) -> dict[str, Any]:
    file = open_npz(content, name)
    data = {}
    for key in file.names:
        try:
            array = file.read(key)
        except UnreadableError as error:
            raise InputFileError(f"{name}: {key!r} {error}") from None
        if array.dtype.kind not in "biuf":
            raise InputFileError(f"{name}: {key!r} must hold numbers, got type {array.dtype}")
        data[key] = array if array.ndim else array.item()
    return data


def column_names(path: str | Path) -> list[str]:
    """Return the names in the header of a CSV file, without that of row numbers."""
    file = parse_csv(Path(path).read_bytes(), str(path))
    return [key for key in (file.cells(file.lines[0]) if file.lines else []) if key]


def _read_csv(content: bytes, name: str, columns: Sequence[str] | None = None) -> dict[str, Any]:
    file = parse_csv(content, name)
    if len(file.lines) < 2:
        raise InputFileError(
            f"{name} must hold a header and at least one row, got {len(file.lines)} lines"
        )
    header, body = file.cells(file.lines[0]), file.lines[1:]
    for key in header:
        if parse_number(key) is not None:
            raise InputFileError(f"{name} must start with a line of names, got {key!r} in it")
    key, count = Counter(header).most_common(1)[0]
    if count > 1:
        raise InputFileError(f"{name} has {count} columns called {key!r}")
    if "" in header[1:]:
        raise InputFileError(f"{name}: column {header.index('', 1) + 1} has no name")
    for key in columns or ():
        if key not in header:
            has = ", ".join(repr(each) for each in header if each)
            raise InputFileError(f"{name} has no column {key!r}", hint=f"it has {has}")
    file.require_width(body, len(header))
    rows = [(line.number, file.cells(line)) for line in body]
    return {
        key: _column([(number, cells[i]) for number, cells in rows], key, name)
        for i, key in enumerate(header)
        if key and (columns is None or key in columns)
    }


def _column(cells: list[tuple[int, str]], key: str, name: str) -> NDArray[Any]:
    """Return a column; unlike `CsvFile.numbers` this keeps whole numbers whole."""
    values = []
    for number, cell in cells:
        value = parse_number(cell)
        if value is None:
            what = f"{cell!r} is not a number" if cell else "the cell is empty"
            raise InputFileError(f"{name}, line {number}, column {key!r}: {what}")
        values.append(value)
    return np.array(values)
