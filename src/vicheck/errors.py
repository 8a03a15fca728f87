"""Exceptions and warnings of vicheck, and checks of arguments and optional dependencies."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from numbers import Integral
from typing import Any

__all__ = [
    "ARGUMENTS_DO_NOT_FIT",
    "EXTRAS",
    "ArgumentError",
    "CacheError",
    "CacheWarning",
    "DamagedStoreError",
    "HintedError",
    "InputFileError",
    "LostWorkerWarning",
    "MissingExtraError",
    "ModelError",
    "NotConvergedWarning",
    "NothingToShowError",
    "OtherMachineWarning",
    "OutOfTimeError",
    "StoreError",
    "UndefinedKhatWarning",
    "UnreadableError",
    "UnreliableWarning",
    "described",
    "in_brief",
    "not_in_jax",
    "refuse_unused",
    "require_count",
    "require_extra",
]

EXTRAS = {
    "blackjax": "blackjax",
    "cmdstanpy": "cmdstanpy",
    "dask": "distributed",
    "flow": "flowjax",
    "parquet": "pyarrow",
    "pymc": "pymc",
    "pyro": "pyro",
    "stan": "httpstan",
}
"""The library behind each optional extra."""

ARGUMENTS_DO_NOT_FIT = "arguments-do-not-fit"
"""Code of a `ModelError`: the function does not take these arguments."""


class UndefinedKhatWarning(UserWarning):
    """khat is undefined for this input; the result's status and message say why."""


class OtherMachineWarning(UserWarning):
    """A run is continued on another kind of machine: results agree only up to rounding."""


class CacheWarning(UserWarning):
    """Compiled code cannot be kept, so it is compiled each time; the message says what to do."""


class LostWorkerWarning(UserWarning):
    """An executor has lost workers; what they were computing was computed again."""


class UnreliableWarning(UserWarning):
    """Estimates or draws are taken from a check whose verdict says not to rely on them."""


class NotConvergedWarning(UnreliableWarning):
    """The same, if the reason is that the optimiser has not found its optimum."""


class HintedError(Exception):
    """An error with a sentence that says what is wrong and, if known, a hint on what to do.

    Its ``code`` tells errors apart: each class has one, which a more specific one may replace.
    Codes do not change when the words do.
    """

    code: str = "error"

    def __init__(self, sentence: str, *, hint: str = "", code: str = "") -> None:
        super().__init__(f"{sentence}: {hint}" if hint else sentence)
        self.sentence, self.hint = sentence, hint
        if code:
            self.code = code


class ArgumentError(HintedError, ValueError):
    """An argument that cannot be used: its name, and what is wrong with it.

    Code that uses another name for it, such as the command line, calls `sentence_with`.

    Examples
    --------
    >>> error = ArgumentError("time_limit", "must be positive, got 0", hint="leave it out")
    >>> print(error)
    time_limit must be positive, got 0: leave it out
    >>> error.sentence_with("--time-limit")
    '--time-limit must be positive, got 0'
    """

    code = "argument"

    def __init__(
        self, argument: str, problem: str, *, value: object = None, hint: str = "", code: str = ""
    ) -> None:
        self.argument, self.problem, self.value = argument, problem, value
        super().__init__(self.sentence_with(argument), hint=hint, code=code)

    def sentence_with(self, name: str) -> str:
        """Return the sentence with another name for the argument.

        The value is in the sentence if that is what it is about.
        """
        value = "" if self.value is None else f"={self.value!r}"
        return f"{name}{value} {self.problem}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.argument, self.problem), vars(self) | {"args": self.args}


class ModelError(HintedError, ValueError):
    """A model, or data given to it, that cannot be used; the message names the site or argument."""

    code = "model"


class InputFileError(HintedError, ValueError):
    """A file could be opened but does not hold what was asked for."""

    code = "input-file"


class UnreadableError(ValueError):
    """Content that is not what it should be; the message continues after the name of a file."""


class StoreError(HintedError):
    """A store of results cannot be used, or cannot be written to; the message says what to do."""

    code = "store"


class CacheError(HintedError):
    """There is no directory in which compiled code can be kept; the message says what to do."""

    code = "cache"


class OutOfTimeError(HintedError):
    """The seconds that something may take are used up; nothing has come of it."""

    code = "out-of-time"


class DamagedStoreError(StoreError, InputFileError):
    """A store whose manifest is damaged, or was not written by vicheck."""

    code = "store-damaged"


class MissingExtraError(HintedError, ImportError):
    """An optional dependency is not installed; the message names the command that installs it."""

    code = "missing-extra"


def described(found: Any) -> str:
    """Return what a function has returned, in words: the shape of an array, or a type."""
    shape = getattr(found, "shape", None)
    return type(found).__name__ if shape is None else f"an array of shape {shape}"


def not_in_jax(name: str, error: Exception) -> str:
    """Return what to say of a function that JAX cannot trace."""
    return (
        f"{name} must be written in JAX: use jax.numpy in place of numpy, and jnp.where in place "
        f"of if ({type(error).__name__}: {str(error).splitlines()[0].rstrip('.')})"
    )


def require_count(name: str, value: object, least: int = 1) -> int:
    """Return an integer argument, or raise when it is none or too small."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        what = "a positive integer" if least == 1 else f"an integer from {least} on"
        raise ArgumentError(name, f"must be {what}, got {value!r}")
    return int(value)


def refuse_unused(arguments: Mapping[str, object], what: str) -> None:
    """Raise for arguments that were given, and so are not None, although they have no effect."""
    names = [name for name, value in arguments.items() if value is not None]
    if names:
        plural = len(names) > 1
        raise TypeError(
            f"{' and '.join(names)} {'do' if plural else 'does'} not apply to {what}: leave "
            f"{'them' if plural else 'it'} out"
        )


def require_extra(extra: str) -> None:
    """Raise `MissingExtraError` unless the library behind an optional extra is installed."""
    module = EXTRAS[extra]
    if find_spec(module) is None:
        raise MissingExtraError(
            f"this needs {module}, which is not installed", hint=f"pip install 'vicheck[{extra}]'"
        )


class NothingToShowError(ValueError):
    """The numbers behind a requested figure do not exist; the message is for readers."""


def in_brief(error: BaseException) -> str:
    """Return the kind of an error and the first line of what it says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}{': ' + said[0] if said else ''}"
