"""Exceptions and warnings of vicheck, and the check for optional dependencies."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = [
    "EXTRAS",
    "CacheError",
    "CacheWarning",
    "DamagedStoreError",
    "HintedError",
    "InputFileError",
    "MissingExtraError",
    "ModelError",
    "NothingToShowError",
    "OtherMachineWarning",
    "StoreError",
    "UndefinedKhatWarning",
    "UnreadableError",
    "require_extra",
]

EXTRAS = {
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


class OtherMachineWarning(UserWarning):
    """A run goes on on another kind of machine: equal up to rounding, not to the last bit."""


class CacheWarning(UserWarning):
    """Compiled code cannot be kept, and is made again each time; the message says what to do."""


class HintedError(Exception):
    """An error with a sentence that says what is wrong and, where known, a hint what to do."""

    def __init__(self, sentence: str, *, hint: str = "") -> None:
        super().__init__(f"{sentence}: {hint}" if hint else sentence)
        self.sentence, self.hint = sentence, hint


class ModelError(HintedError, ValueError):
    """A model, or data given to it, that cannot be used; the message names the site or argument."""


class InputFileError(HintedError, ValueError):
    """A file could be opened but does not hold what was asked for."""


class UnreadableError(ValueError):
    """Content that is not what it should be; what is said of it follows the name of a file."""


class StoreError(HintedError):
    """A store of results cannot be used, or not be written to; the message says what to do."""


class CacheError(HintedError):
    """There is no directory in which compiled code can be kept; the message says what to do."""


class DamagedStoreError(StoreError, InputFileError):
    """A store whose manifest is damaged, or is none of vicheck's."""


class MissingExtraError(HintedError, ImportError):
    """An optional dependency is not installed; the message names the command that installs it."""


def require_extra(extra: str) -> None:
    """Raise `MissingExtraError` unless the library behind an optional extra is installed."""
    module = EXTRAS[extra]
    if find_spec(module) is None:
        raise MissingExtraError(
            f"this needs {module}, which is not installed", hint=f"pip install 'vicheck[{extra}]'"
        )


class NothingToShowError(ValueError):
    """A figure was asked for whose numbers do not exist; the message is for readers."""
