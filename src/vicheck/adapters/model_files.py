"""Models and data named on the command line: functions in Python files, data in data files."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import InputFileError, UnreadableError
from vicheck.files.csv_reader import parse_csv, parse_number
from vicheck.files.json_reader import parse_json
from vicheck.files.numpy_reader import NPY_MAGIC, NpzFile

__all__ = ["PROGRAM_PREFIX", "load_model_function", "read_data"]

PROGRAM_PREFIX = "vicheck_program_"
"""Names of the modules that files are loaded as begin like this."""

_DEFAULT_NAME = "model"


def load_model_function(spec: str) -> Any:
    """Load what a file or module calls a model.

    Parameters
    ----------
    spec
        ``path/to/file.py:name`` or ``package.module:name``; without ``:name`` the name is
        ``model``. The file's directory, or the current one for a module, can be imported from
        while it is loaded.

    Returns
    -------
    Any
        A function with NumPyro statements, or a `vicheck.Model`.

    Raises
    ------
    InputFileError
        When there is no such file, module or name, or importing it fails; the message gives the
        line in the user's file.
    """
    target, name = _split(spec)
    if target.endswith(".py") or Path(target).name != target:
        path = Path(target)
        if not path.is_file():
            reason = "is a directory" if path.is_dir() else "does not exist"
            hint = "expected a Python file, as in file.py:model"
            raise InputFileError(f"{target} {reason}", hint=hint)
        with _importable(path.resolve().parent):
            module = _run_file(path)
    else:
        with _importable(Path.cwd()):
            module = _import_module(target)
    from vicheck.model import Model  # late, as with all that loads JAX

    found = getattr(module, name, None)
    if found is None:
        raise InputFileError(f"{target} has no {name!r}", hint=_candidates(module, name))
    if not callable(found) and not isinstance(found, Model):
        raise InputFileError(
            f"{name!r} in {target} must be a function with NumPyro statements or a vicheck.Model, "
            f"got {type(found).__name__}",
            hint=_candidates(module, name),
        )
    return found


def _split(spec: str) -> tuple[str, str]:
    target, colon, name = spec.rpartition(":")
    if not colon or "/" in name or "\\" in name:  # no colon, or the one after a drive's letter
        target, name = spec, _DEFAULT_NAME
    if not target or not name.isidentifier():
        raise InputFileError(
            f"{spec!r} names no model", hint="expected path/to/file.py:name or package.module:name"
        )
    return target, name


@contextmanager
def _importable(directory: Path) -> Iterator[None]:
    before = list(sys.path)
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        sys.path[:] = before


def _run_file(path: Path) -> ModuleType:
    """Run a file as a module; it stays in `sys.modules`, where its classes expect to be found."""
    name = f"{PROGRAM_PREFIX}{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputFileError(f"{path} is no Python file", hint="expected a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InputFileError(f"importing {path} failed{_describe(error, str(path))}") from error
    return module


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent is not None and (name == absent or name.startswith(f"{absent}.")):
            raise InputFileError(
                f"there is no module {absent!r}",
                hint="expected path/to/file.py:name or package.module:name",
            ) from None
        raise InputFileError(f"importing {name} failed{_describe(error, None)}") from error


def _describe(error: BaseException, path: str | None) -> str:
    """Return the line of the user's file (or the last one anywhere), the type and the message."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f" at line {error.lineno}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if path is None or _same_file(frame.filename, path)]
    where = ""
    if own:
        where = f" at line {own[-1].lineno}" + ("" if path else f" of {own[-1].filename}")
    return f"{where}: {type(error).__name__}: {error}"


def _same_file(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def _candidates(module: ModuleType, wanted: str) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]
    guess = "".join(f"did you mean {name}? " for name in get_close_matches(wanted, names, n=1))
    return f"{guess}it has {', '.join(names)}" if names else "it has no public functions"


def read_data(path: str | Path) -> dict[str, Any]:
    """Read named data from a file.

    Parameters
    ----------
    path
        ``.json``: an object of numbers and (nested) lists of numbers. ``.npz``: named arrays.
        ``.csv``: a header and a column for each name; lines that start with ``#`` are skipped, and
        so is a first column without a name, where R and pandas write row numbers.

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
            found = _not_number(value)
            if found:
                return found
        elif not isinstance(value, bool | float) and not (
            isinstance(value, int) and -(2**63) <= value < 2**63
        ):
            return json.dumps(value)
    return ""


def _json_type(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", type(None): "null"}
    return kinds.get(type(value), "a number")


def _read_npz(content: bytes, name: str) -> dict[str, Any]:
    if content.startswith(NPY_MAGIC):
        raise InputFileError(
            f"{name} holds one array without a name", hint="write it with numpy.savez"
        )
    try:
        file = NpzFile(content)
    except UnreadableError as error:
        raise InputFileError(f"{name} is not a readable .npz file: it {error}") from None
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


def _read_csv(content: bytes, name: str) -> dict[str, Any]:
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
    file.require_width(body, len(header))
    rows = [(line.number, file.cells(line)) for line in body]
    return {
        key: _column([(number, cells[i]) for number, cells in rows], key, name)
        for i, key in enumerate(header)
        if key
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
