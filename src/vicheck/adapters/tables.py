"""Tables of draws with both log densities: DataFrames, and .csv, .npz and .parquet files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vicheck.adapters.data_files import open_npz
from vicheck.draws import Draws
from vicheck.errors import InputFileError, UnreadableError, require_extra
from vicheck.files.csv_reader import CsvFile, parse_csv, parse_number
from vicheck.files.numpy_reader import NpzFile, explained, most_expanded

__all__ = ["draws_of_table", "is_table", "read_draws"]

_LOG_P = ("log_p", "logp", "lp", "lp__", "log_p__")
_LOG_Q = ("log_q", "logq", "lq", "lq__", "log_q__", "lp_approx__")
"""What columns with the two log densities are called; the first name goes before all others."""
_STAN_ADVI = "log_g__"
_NO_QUANTITIES = {
    "", "unnamed: 0", "index", "chain", "draw", "iteration", ".chain", ".draw", ".iteration",
    "chain__", "draw__", "iter__", "path__",
}  # fmt: skip
"""Columns that number the draws, as pandas, R, ArviZ and CmdStanPy write them."""
_SHOWN = 20
"""Names of columns in a message at most."""


def is_table(path: Any) -> bool:
    """Whether a ``.npz`` file holds nothing but arrays, and so is none that vicheck has saved."""
    try:
        file = NpzFile(Path(path).read_bytes())
    except UnreadableError:
        return False
    return not file.others and "description" not in file.names


def _densities_in(
    names: list[str], log_p: str | None, log_q: str | None, owner: str = "draws"
) -> tuple[str, str]:
    """Return the names of the columns with log p and log q: those given, or those that are clear.

    Raises
    ------
    InputFileError
        If there is no such column, or several could be meant.
    """
    if _STAN_ADVI in names and log_q is None:
        raise InputFileError(
            f"{owner} is output of Stan's ADVI, whose log_g__ lacks constants",
            hint="give vicheck.check the CSV file or the object of CmdStanPy, which says so",
        )
    found = (
        _one(names, log_p, _LOG_P, "log_p", owner),
        _one(names, log_q, _LOG_Q, "log_q", owner),
    )
    if found[0] == found[1]:
        raise InputFileError(f"log_p and log_q are both {found[0]!r}: their ratio would be one")
    return found


def draws_of_table(
    columns: Mapping[str, Any], log_p: str | None, log_q: str | None, owner: str = "draws"
) -> Draws:
    """Return the draws in named columns, the two log densities taken out.

    Columns that number the draws are left out too, and a note says so.
    """
    chosen = _densities_in(list(columns), log_p, log_q, owner)
    others = [name for name in columns if name not in chosen]
    numbering = [name for name in others if name.lower() in _NO_QUANTITIES]
    values = {name: columns[name] for name in others if name not in numbering}
    if not values:
        raise InputFileError(
            f"{owner} holds only log densities, and no draws",
            hint="vicheck.psis, or vicheck psis on the command line, needs no more than that",
        )
    shown = ", ".join(repr(name) for name in numbering)
    notes = (f"Columns that number the draws were left out: {shown}.",) if numbering else ()
    return Draws(values, columns[chosen[0]], columns[chosen[1]], notes=notes)


def read_draws(path: str | Path, log_p: str | None = None, log_q: str | None = None) -> Draws:
    """Read draws with both log densities from a table.

    Parameters
    ----------
    path
        ``.csv`` with a header, ``.npz`` with named arrays, draws first, or ``.parquet``.
    log_p, log_q
        Names of the columns, or arrays, with the log densities; by default ``log_p`` and ``log_q``
        or names like them, where these are clear.

    Raises
    ------
    OSError
        If the file cannot be opened.
    InputFileError
        If it holds something else; the message names the columns, or line and column.
    """
    content, name = Path(path).read_bytes(), str(path)
    if not content.strip():
        raise InputFileError(f"{name} is empty")
    readers = {".csv": _read_csv, ".npz": _read_npz, ".parquet": _read_parquet}
    reader = readers.get(Path(path).suffix.lower())
    if reader is None:
        raise InputFileError(f"{name} must end in one of {', '.join(readers)}")
    columns = reader(content, name)
    try:
        return draws_of_table(columns, log_p, log_q, name)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputFileError):
            raise
        raise InputFileError(f"{name}: {error}") from None


def header_of(file: CsvFile) -> list[str]:
    """Return the names of the columns of a CSV file, or raise when it has none."""
    file.require_lines()
    names = file.cells(file.lines[0])
    if any(parse_number(cell) is not None for cell in names):
        raise InputFileError(
            f"{file.name} must start with a line of names",
            hint="without them it is not known which columns are log_p and log_q",
        )
    return names


def _one(
    names: list[str], given: str | None, known: tuple[str, ...], which: str, owner: str
) -> str:
    has = f"it has {_listed(names)}"
    if given is not None:
        if given not in names:
            raise InputFileError(f"{owner} has no column {given!r} for {which}", hint=has)
        return given
    if known[0] in names:
        return known[0]
    found = [name for name in names if name.lower() in known]
    if len(found) == 1:
        return found[0]
    problem = f"columns {_listed(found)} that could all be" if found else "no column"
    way = f"say which column it is by {which}= (on the command line --{which.replace('_', '-')})"
    if owner.endswith(".csv"):
        has += " (a table of data goes with --data, after the model)"
    raise InputFileError(f"{owner} has {problem} {which}", hint=f"{way}; {has}")


def _read_csv(content: bytes, name: str) -> dict[str, Any]:
    file = parse_csv(content, name, not_text="is no CSV file")
    names = header_of(file)
    repeated = next((key for key in names if names.count(key) > 1), None)
    if repeated is not None:
        raise InputFileError(f"{name} has {names.count(repeated)} columns called {repeated!r}")
    rows = file.lines[1:]
    if not rows:
        raise InputFileError(f"{name} has a header but no draws")
    file.require_width(rows, len(names))
    kept = [place for place, key in enumerate(names) if key.lower() not in _NO_QUANTITIES]
    numbers = file.numbers(rows, kept, names)
    columns: dict[str, Any] = dict.fromkeys(names)
    columns |= {names[place]: numbers[:, i] for i, place in enumerate(kept)}
    return columns


def _read_npz(content: bytes, name: str) -> dict[str, Any]:
    file = open_npz(content, name)
    try:
        return {key: file.read(key) for key in file.names}
    except UnreadableError as error:
        raise InputFileError(f"{name} is not a readable .npz file: it {error}") from None


def _read_parquet(content: bytes, name: str) -> dict[str, Any]:
    require_extra("parquet")
    import pyarrow.parquet

    try:
        with explained():
            file = pyarrow.parquet.ParquetFile(io.BytesIO(content))
            names, length = list(file.schema_arrow.names), file.metadata.num_rows
        if 8 * length > most_expanded(len(content)):
            raise UnreadableError(f"claims to hold {length} rows in {len(content)} bytes")
        with explained():
            table = file.read()
            return {key: np.asarray(table[key].to_numpy()) for key in names}
    except UnreadableError as error:
        raise InputFileError(f"{name} is not a readable Parquet file: it {error}") from None


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(key) for key in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
