"""Log ratios from files: .npy, .npz, .csv and .parquet, or any of them on standard input."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import InputFileError, require_extra

__all__ = ["read_log_ratios"]

_RATIO_NAMES = ("log_ratios", "log_ratio")
_LOG_P, _LOG_Q = "log_p", "log_q"
_STAN_COLUMN = "log_g__"

_NPY_MAGIC = b"\x93NUMPY"
_ZIP_MAGIC = b"PK"
_PARQUET_MAGIC = b"PAR1"

Columns = dict[str, NDArray[Any]]


def read_log_ratios(
    source: str, *, log_p: str | None = None, log_q: str | None = None
) -> NDArray[np.float64]:
    """Read log ratios from a file, or from standard input for ``-``.

    Parameters
    ----------
    source
        Path of a ``.npy``, ``.npz``, ``.csv`` or ``.parquet`` file; the content, not the name,
        tells which. Lines of a CSV file that start with ``#`` are skipped, and a first line
        without numbers is the header.
    log_p, log_q
        Names of the columns with the two log densities, whose difference is taken. Without them:
        a column ``log_ratios``, or columns ``log_p`` and ``log_q``, or the only column there is.

    Returns
    -------
    numpy.ndarray
        Log ratios, shape ``(S,)``.

    Raises
    ------
    OSError
        If the file cannot be opened.
    InputFileError
        If it holds no such columns, or something that is not a number.
    """
    if (log_p is None) != (log_q is None):
        missing = "log_q" if log_q is None else "log_p"
        raise InputFileError(f"log_p and log_q go together, but {missing} is missing")
    content = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    name = "standard input" if source == "-" else source
    if not content.strip():
        raise InputFileError(f"{name} is empty")
    return _pick(_read_columns(content, name), name, log_p, log_q)


def _read_columns(content: bytes, name: str) -> Columns:
    if content.startswith(_PARQUET_MAGIC):
        return _read_parquet(content, name)
    if content.startswith((_NPY_MAGIC, _ZIP_MAGIC)):
        return _read_numpy(content, name)
    return _read_csv(content, name)


def _read_numpy(content: bytes, name: str) -> Columns:
    try:
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        return {key: loaded[key] for key in loaded.files}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise InputFileError(f"{name} is not a readable NumPy file: {error}") from None


def _read_parquet(content: bytes, name: str) -> Columns:
    require_extra("parquet")
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(io.BytesIO(content))
    except (pyarrow.ArrowException, OSError) as error:
        raise InputFileError(f"{name} is not a readable Parquet file: {error}") from None
    return {key: table[key].to_numpy() for key in table.column_names}


def _read_csv(content: bytes, name: str) -> Columns:
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputFileError(
            f"{name} is none of .npy, .npz, .csv and .parquet: it starts with {content[:8]!r}"
        ) from None
    start = next((i for i, line in enumerate(lines) if _holds_data(line)), None)
    if start is None:
        raise InputFileError(f"{name} holds no data, only comments")
    first = _cells(lines[start])
    header = [] if any(_is_number(cell) for cell in first) else first
    body = lines[start + 1 :] if header else lines[start:]
    if not any(_holds_data(line) for line in body):
        raise InputFileError(f"{name} has a header but no draws")
    try:
        table = np.loadtxt(body, delimiter=",", comments="#", ndmin=2)
    except ValueError as error:
        raise InputFileError(
            _first_fault(lines, start, bool(header), name) or f"{name}: {error}"
        ) from None
    keys = header or [str(column) for column in range(len(first))]
    if len(keys) != table.shape[1]:
        raise InputFileError(
            f"{name}: the header names {len(keys)} columns, but the lines hold {table.shape[1]}"
        )
    return dict(zip(keys, table.T, strict=True))


def _first_fault(lines: list[str], start: int, has_header: bool, name: str) -> str:
    """Say which line cannot be read, and why."""
    width = len(_cells(lines[start]))
    for number, line in enumerate(lines[start + has_header :], start=start + has_header + 1):
        cells = _cells(line)
        if not _holds_data(line):
            continue
        if len(cells) != width:
            return f"{name}, line {number}: expected {width} values, got {len(cells)}"
        for column, cell in enumerate(cells, start=1):
            if not _is_number(cell):
                return f"{name}, line {number}, column {column}: {cell!r} is not a number"
    return ""


def _cells(line: str) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(",")]


def _holds_data(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _pick(columns: Columns, name: str, log_p: str | None, log_q: str | None) -> NDArray[np.float64]:
    """Return the log ratios that the columns hold."""
    if _STAN_COLUMN in columns:
        raise InputFileError(
            f"{name} is variational output of Stan, whose first row is a mean and no draw: "
            "remove that row, and rename the columns log_p__ and log_g__ to log_p and log_q"
        )
    if log_p is not None and log_q is not None:
        for key in (log_p, log_q):
            if key not in columns:
                raise InputFileError(f"{name} has no column {key!r}; it has {_listed(columns)}")
        return _difference(columns[log_p], columns[log_q], name)
    for key in _RATIO_NAMES:
        if key in columns:
            return _vector(columns[key], name)
    if _LOG_P in columns and _LOG_Q in columns:
        return _difference(columns[_LOG_P], columns[_LOG_Q], name)
    if len(columns) == 1:
        return _vector(next(iter(columns.values())), name)
    raise InputFileError(
        f"{name} has columns {_listed(columns)}: name the two log densities by "
        "--log-p and --log-q, or call a column log_ratios"
    )


def _difference(log_p: NDArray[Any], log_q: NDArray[Any], name: str) -> NDArray[np.float64]:
    first, second = _vector(log_p, name), _vector(log_q, name)
    if first.size != second.size:
        raise InputFileError(f"{name}: {first.size} values of log_p but {second.size} of log_q")
    with np.errstate(invalid="ignore"):  # -inf - -inf is NaN, which psis reports
        return first - second


def _vector(values: NDArray[Any], name: str) -> NDArray[np.float64]:
    if values.dtype.kind not in "fiu":
        raise InputFileError(f"{name}: log ratios must be real numbers, got dtype {values.dtype}")
    if values.ndim != 1 or values.size == 0:
        raise InputFileError(f"{name}: log ratios must have shape (S,), got shape {values.shape}")
    return np.asarray(values, dtype=np.float64)


def _listed(columns: Columns) -> str:
    return ", ".join(repr(key) for key in columns)
