"""Log ratios from files: .npy, .npz, .csv and .parquet, or any of them on standard input."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import InputFileError, UnreadableError, require_extra
from vicheck.files.csv_reader import parse_csv, parse_number
from vicheck.files.numpy_reader import NPY_MAGIC, NpzFile, explained, most_expanded, read_npy

__all__ = ["read_log_ratios"]

_RATIO_NAMES = ("log_ratios", "log_ratio")
_LOG_P, _LOG_Q = "log_p", "log_q"
_STAN_COLUMN = "log_g__"
_NAMES_SHOWN = 20

_ZIP_MAGIC = b"PK\x03\x04"
_PARQUET_MAGIC = b"PAR1"

Floats = NDArray[np.float64]
Columns = tuple[str, ...]


def read_log_ratios(source: str, *, log_p: str | None = None, log_q: str | None = None) -> Floats:
    """Read log ratios from a file, or from standard input for ``-``.

    Parameters
    ----------
    source
        Path of a ``.npy``, ``.npz``, ``.csv`` or ``.parquet`` file; the content, not the name,
        tells which. Lines of a CSV file that start with ``#`` are skipped, and a first line
        without numbers is the header. Columns that are not asked for may hold anything.
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
    wanted = None if log_p is None or log_q is None else (log_p, log_q)
    if log_p is not None and log_p == log_q:
        raise InputFileError(f"log_p and log_q are both {log_p!r}: their difference would be zero")
    if source == "-" and sys.stdin is None:
        raise InputFileError("standard input is closed")
    content = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    name = "standard input" if source == "-" else source
    if not content.strip():
        raise InputFileError(f"{name} is empty")
    if content.startswith(_PARQUET_MAGIC):
        columns = _read_parquet(content, name, wanted)
    elif content.startswith((NPY_MAGIC, _ZIP_MAGIC)):
        columns = _read_numpy(content, name, wanted)
    else:
        columns = _read_csv(content, name, wanted)
    vectors = [_as_vector(column, name) for column in columns]
    if len(vectors) == 1:
        return vectors[0]
    first, second = vectors
    if first.size != second.size:
        raise InputFileError(f"{name}: {first.size} values of log_p but {second.size} of log_q")
    with np.errstate(invalid="ignore"):  # -inf - -inf is NaN, which psis reports
        return first - second


def _choose(names: list[str], wanted: Columns | None, name: str) -> Columns:
    """Return the name of the column with log ratios, or those of log_p and log_q."""
    if _STAN_COLUMN in names:
        raise InputFileError(
            f"{name} is variational output of Stan, whose first row is a mean and not a draw",
            hint="use vicheck check, or vicheck.read_stan_csv, which know that",
        )
    if not names:
        raise InputFileError(f"{name} holds no columns")
    chosen = wanted or _choose_by_name(names)
    if chosen is None:
        raise InputFileError(
            f"{name} has columns {_listed(names)}",
            hint="name the two log densities by --log-p and --log-q, or call a column log_ratios",
        )
    for key in chosen:
        if key not in names:
            raise InputFileError(f"{name} has no column {key!r}", hint=f"it has {_listed(names)}")
        if names.count(key) > 1:
            raise InputFileError(f"{name} has {names.count(key)} columns called {key!r}")
    return chosen


def _choose_by_name(names: list[str]) -> Columns | None:
    for key in _RATIO_NAMES:
        if key in names:
            return (key,)
    if _LOG_P in names and _LOG_Q in names:
        return (_LOG_P, _LOG_Q)
    return (names[0],) if len(names) == 1 else None


def _read_numpy(content: bytes, name: str, wanted: Columns | None) -> list[NDArray[Any]]:
    try:
        if not content.startswith(NPY_MAGIC):
            file = NpzFile(content)
            return [file.read(key) for key in _choose(file.names, wanted, name)]
        if wanted:
            raise InputFileError(
                f"{name} holds one array without a name, so --log-p and --log-q do not apply",
                hint="leave them out when the array holds log ratios",
            )
        return [read_npy(content)]
    except UnreadableError as error:
        raise InputFileError(f"{name} is not a readable NumPy file: it {error}") from None


def _read_parquet(content: bytes, name: str, wanted: Columns | None) -> list[NDArray[Any]]:
    require_extra("parquet")
    import pyarrow.parquet

    try:
        with explained():
            file = pyarrow.parquet.ParquetFile(io.BytesIO(content))
            names, length = list(file.schema_arrow.names), file.metadata.num_rows
        chosen = _choose(names, wanted, name)
        if 8 * length > most_expanded(len(content)):
            raise UnreadableError(f"claims to hold {length} rows in {len(content)} bytes")
        with explained():
            table = file.read(columns=list(chosen))
            return [table[key].to_numpy() for key in chosen]
    except UnreadableError as error:
        raise InputFileError(f"{name} is not a readable Parquet file: it {error}") from None


def _read_csv(content: bytes, name: str, wanted: Columns | None) -> list[NDArray[Any]]:
    file = parse_csv(content, name, not_text="is none of .npy, .npz, .csv and .parquet")
    file.require_lines()
    first = file.cells(file.lines[0])
    header = [] if any(parse_number(cell) is not None for cell in first) else first
    names = header or [str(column) for column in range(len(first))]
    chosen = [names.index(key) for key in _choose(names, wanted, name)]
    draws = file.lines[1:] if header else file.lines
    if not draws:
        raise InputFileError(f"{name} has a header but no draws")
    file.require_width(draws, len(first))
    return list(file.numbers(draws, chosen).T)


def _as_vector(values: NDArray[Any], name: str) -> Floats:
    if values.dtype.kind not in "fiu":
        raise InputFileError(f"{name}: log ratios must be real numbers, got dtype {values.dtype}")
    if values.ndim != 1 or values.size == 0:
        raise InputFileError(f"{name}: log ratios must have shape (S,), got shape {values.shape}")
    return np.asarray(values, dtype=np.float64)


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(key) for key in names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
