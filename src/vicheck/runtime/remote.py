"""Calls on the workers of an executor, with results in order: a lost worker changes nothing.

A call is a function of vicheck's own with arguments that can be pickled. What it raises comes back
as it is; anything else that an executor raises means that the call was lost on the way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

from vicheck.errors import LostWorkerWarning
from vicheck.runtime.interrupts import between_pieces, check_interrupt
from vicheck.runtime.workers import Outcome, ended, outcome_of_call

__all__ = ["results_of"]


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
                with between_pieces():
                    outcome = Outcome(returned=function(*arguments))
            check_interrupt()
            yield outcome.value()
    finally:
        for future in futures:
            if not isinstance(future, BaseException):
                future.cancel()


def _submitted(executor: Executor, function: Callable[..., Any], arguments: Any) -> Any:
    """Return the future of a call, or why there is none: a pool that is broken or shut down."""
    check_interrupt()
    try:
        return executor.submit(_run, function, arguments)
    except RuntimeError as error:
        return error


def _run(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
    return outcome_of_call(partial(function, *arguments))


def _outcome_of(future: Any) -> Any:
    """Wait for a call; return its outcome, or the error by which it was lost."""
    if isinstance(future, BaseException):
        return future
    next(ended([future]))
    try:
        return future.result()
    except Exception as error:
        check_interrupt()  # Ctrl-C reaches processes on this machine too, and breaks their pool
        return error
