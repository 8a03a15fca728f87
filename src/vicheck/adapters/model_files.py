"""Models named on the command line: functions in Python files and modules."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from vicheck.errors import InputFileError
from vicheck.runtime.workers import PROGRAM_PREFIX

__all__ = ["load_model_function"]

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

    loaded = getattr(module, name, None)
    if loaded is None:
        raise InputFileError(f"{target} has no {name!r}", hint=_candidates(module, name))
    if not callable(loaded) and not isinstance(loaded, Model):
        raise InputFileError(
            f"{name!r} in {target} must be a function with NumPyro statements or a vicheck.Model, "
            f"got {type(loaded).__name__}",
            hint=_candidates(module, name),
        )
    return loaded


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
