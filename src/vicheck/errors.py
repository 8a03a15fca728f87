"""Exceptions and warnings of vicheck, and the check for optional dependencies."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = [
    "InputFileError",
    "MissingExtraError",
    "ModelError",
    "StoreError",
    "UndefinedKhatWarning",
    "require_extra",
]

_EXTRAS = {
    "blackjax": "blackjax",
    "cmdstanpy": "cmdstanpy",
    "dask": "distributed",
    "parquet": "pyarrow",
    "pymc": "pymc",
    "pyro": "pyro",
    "stan": "httpstan",
}
"""The library behind each optional extra."""


class UndefinedKhatWarning(UserWarning):
    """khat is undefined for this input; the result's status and message say why."""


class ModelError(ValueError):
    """A model, or data given to it, that cannot be used; the message names the site or argument."""


class InputFileError(ValueError):
    """A file could be opened but does not hold what was asked for."""


class StoreError(Exception):
    """A store of results cannot be used, or not be written to; the message says what to do."""


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message names the command that installs it."""


def require_extra(extra: str) -> None:
    """Raise `MissingExtraError` unless the library behind an optional extra is installed."""
    module = _EXTRAS[extra]
    if find_spec(module) is None:
        raise MissingExtraError(
            f"this needs {module}, which is not installed: pip install 'vicheck[{extra}]'"
        )
