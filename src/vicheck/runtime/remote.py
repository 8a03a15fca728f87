"""Calls on the workers of an executor, with results in order: a lost worker changes nothing.

A call is a function of vicheck's own with arguments that can be pickled. What it raises comes back
as it is; anything else that an executor raises means that the call was lost on the way.
"""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, wait
from concurrent.futures import Future as StandardFuture
from typing import Any, NamedTuple

from vicheck.errors import LostWorkerWarning
from vicheck.runtime.interrupts import between_pieces, check_interrupt

__all__ = ["packed", "results_of"]

_LOOK = 0.2
"""Seconds between looks for Ctrl-C, which does not end a wait."""


def packed(what: object, name: str) -> bytes:
    """Return something of the user's as bytes that a worker can read."""
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ImportError:
        dump: Callable[[Any], bytes] = pickle.dumps
    else:
        dump = cloudpickle.dumps
    try:
        return dump(what)
    except Exception as error:  # pickle raises almost anything
        raise TypeError(
            f"{name} cannot be sent to workers ({error}): define functions at the top of a module, "
            "or install cloudpickle"
        ) from error


def results_of(
    executor: Executor, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]
) -> Iterator[Any]:
    """Yield what a function returns for each tuple of arguments, in order.

    A call that is lost is submitted once more and, if that does not help either, made in this
    process; `LostWorkerWarning` says so.
    """
    futures = [_submitted(executor, function, arguments) for arguments in calls]
    try:
        for index, arguments in enumerate(calls):
            outcome = _outcome_of(futures[index])
            if isinstance(outcome, BaseException):
                futures[index] = _submitted(executor, function, arguments)
                outcome = _outcome_of(futures[index])
            if isinstance(outcome, BaseException):
                warnings.warn(
                    f"the executor has lost workers, or takes no work ({type(outcome).__name__}): "
                    "what they were computing is computed in this process, to the same bits",
                    LostWorkerWarning,
                    stacklevel=2,
                )
                outcome = _run(function, arguments)
            check_interrupt()
            if outcome.raised is not None:
                raise outcome.raised
            yield outcome.returned
    finally:
        for future in futures:
            if not isinstance(future, BaseException):
                future.cancel()


class _Outcome(NamedTuple):
    """What a call has returned or raised."""

    returned: Any = None
    raised: Exception | None = None


def _run(function: Callable[..., Any], arguments: tuple[Any, ...]) -> _Outcome:
    try:
        with between_pieces():
            return _Outcome(returned=function(*arguments))
    except Exception as error:
        return _Outcome(raised=_portable(error))


def _portable(error: Exception) -> Exception:
    """Return an error that can be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _submitted(executor: Executor, function: Callable[..., Any], arguments: Any) -> Any:
    """Return the future of a call, or why there is none: a pool that is broken or shut down."""
    check_interrupt()
    try:
        return executor.submit(_run, function, arguments)
    except RuntimeError as error:
        return error


def _outcome_of(future: Any) -> Any:
    """Wait for a call; return its outcome, or the error by which it was lost."""
    if isinstance(future, BaseException):
        return future
    while not future.done():
        check_interrupt()
        if isinstance(future, StandardFuture):
            wait([future], _LOOK)
        else:  # Dask's, which `wait` does not take
            time.sleep(0.01)
    try:
        return future.result()
    except Exception as error:
        check_interrupt()  # Ctrl-C reaches processes on this machine too, and breaks their pool
        return error
