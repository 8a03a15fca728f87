"""Chunks of work on an executor: neither where they run nor a worker that dies changes the result.

A chunk is a pure function of the work and its number. What it raises comes back as it is; anything
else that an executor raises means that the chunk was lost on the way, and can be computed again.
"""

from __future__ import annotations

import pickle
import sys
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol, Self, TypeVar

from vicheck.errors import ArgumentError, LostWorkerWarning
from vicheck.runtime.interrupts import between_pieces, check_interrupt, piece

__all__ = [
    "PROGRAM_PREFIX",
    "Outcome",
    "Work",
    "as_they_end",
    "ended",
    "in_order",
    "outcome_of_call",
    "packed",
    "require_executor",
]

T = TypeVar("T")

PROGRAM_PREFIX = "vicheck_program_"
"""Names of the modules that files of the user's are loaded as begin like this."""

_LOOK = 0.2
"""Seconds between looks for Ctrl-C, which does not end a wait."""
_AHEAD = 64
"""Chunks that are under way or waiting for an earlier one, at most, where the order counts."""


class Work(Protocol):
    """What goes to workers, so it can be pickled."""

    def chunk(self, index: int) -> Any:
        """Compute a chunk."""

    def snapshot(self) -> Self:
        """Return a copy for a worker to keep, which is traced only once."""


def require_executor(executor: object) -> None:
    """Raise unless an argument is None or an executor whose workers can run JAX."""
    if executor is None:
        return
    if not callable(getattr(executor, "submit", None)):
        raise TypeError(
            "executor must be an Executor of concurrent.futures, or have its methods, got "
            f"{type(executor).__name__}"
        )
    context = getattr(executor, "_mp_context", None)
    if context is not None and context.get_start_method() == "fork":
        raise ArgumentError(
            "executor",
            "must not fork its processes, because JAX hangs in them",
            hint="ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))",
        )


def as_they_end(
    executor: Executor, work: Work, indices: Iterable[int]
) -> Iterator[tuple[int, Any]]:
    """Submit chunks, and yield the number and the result of each when it is there.

    A chunk that is lost raises what the executor raised.
    """
    submitted = _Submitted(executor, work)
    try:
        for index in indices:
            submitted.send(index)
        while submitted.waiting:
            for future in submitted.next_ended():
                index = submitted.waiting.pop(future)
                with piece():  # Ctrl-C reaches processes on this machine too, and breaks their pool
                    outcome = future.result()
                yield index, outcome.value()
    finally:
        submitted.cancel()


def in_order(executor: Executor, work: Work, indices: Iterable[int]) -> Iterator[Any]:
    """Yield the results of chunks in order, with a bounded number of them under way.

    A chunk that is lost is submitted once more and, if that does not help either, computed in this
    process; `LostWorkerWarning` says so.
    """
    submitted = _Submitted(executor, work)
    left = iter(indices)
    order: deque[int] = deque()
    done: dict[int, Any] = {}
    resent: set[int] = set()

    def send(index: int) -> None:
        try:
            submitted.send(index)
        except BrokenExecutor as error:
            compute_here(index, error)
        except RuntimeError as error:
            if not resent and not done:  # as an executor does that was shut down before
                raise ArgumentError("executor", f"does not take any work: {error}") from error
            compute_here(index, error)

    def compute_here(index: int, error: BaseException) -> None:
        warnings.warn(
            f"the executor has lost workers ({type(error).__name__}): what they were computing is "
            "computed in this process, to the same bits",
            LostWorkerWarning,
            stacklevel=2,
        )
        check_interrupt()
        done[index] = work.chunk(index)

    def receive(future: Future[Outcome]) -> None:
        index = submitted.waiting.pop(future)
        try:
            with piece():
                outcome = future.result()
        except Exception as error:
            if index in resent:
                compute_here(index, error)
            else:
                resent.add(index)
                send(index)
        else:
            done[index] = outcome.value()

    try:
        while True:
            for index in islice(left, _AHEAD - len(order)):
                order.append(index)
                send(index)
            if not order:
                return
            while order[0] not in done:
                for future in submitted.next_ended():
                    receive(future)
            yield done.pop(order.popleft())
    finally:
        submitted.cancel()


class _Submitted:
    """Chunks that an executor was given."""

    def __init__(self, executor: Executor, work: Work) -> None:
        self.executor = executor
        self.payload = packed(work, "the model, quantities or fit")
        self.waiting: dict[Future[Outcome], int] = {}

    def send(self, index: int) -> None:
        check_interrupt()
        self.waiting[self.executor.submit(_run_packed, self.payload, index)] = index

    def next_ended(self) -> list[Future[Outcome]]:
        return next(ended(self.waiting), [])

    def cancel(self) -> None:
        for future in self.waiting:
            future.cancel()


def ended(futures: Iterable[Future[T]]) -> Iterator[list[Future[T]]]:
    """Yield futures that have ended, as they do, whatever library they come from.

    Dask's futures are not those of `concurrent.futures`, whose `wait` takes only its own.
    """
    waiting = list(futures)
    ours = all(isinstance(future, Future) for future in waiting)
    while waiting:
        check_interrupt()
        if ours:
            wait(waiting, _LOOK, FIRST_COMPLETED)
        these = [future for future in waiting if future.done()]
        if these:
            yield these
            waiting = [future for future in waiting if future not in these]
        elif not ours:
            time.sleep(0.01)


@dataclass(frozen=True)
class Outcome:
    """What was returned or raised on a worker."""

    returned: Any = None
    raised: Exception | None = None

    def value(self) -> Any:
        """Return it, or raise it here."""
        if self.raised is not None:
            check_interrupt()
            raise self.raised
        return self.returned


def packed(what: object, name: str) -> bytes:
    """Return something as bytes that a worker can read; an error calls it by a name."""
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ImportError:
        dump: Callable[[Any], bytes] = pickle.dumps
    else:
        dump = cloudpickle.dumps
        # Files named on the command line are not modules that a worker could import.
        for module_name, module in list(sys.modules.items()):
            if module_name.startswith(PROGRAM_PREFIX):
                cloudpickle.register_pickle_by_value(module)
    try:
        return dump(what)
    except Exception as error:  # pickle raises almost anything
        raise TypeError(
            f"{name} cannot be sent to workers ({error}): define functions at the top of a module, "
            "or install cloudpickle"
        ) from error


@lru_cache(maxsize=2)
def _unpack(payload: bytes) -> Any:
    # Cached, so that what it computes is traced only once.
    return pickle.loads(payload).snapshot()


def _run_packed(payload: bytes, index: int) -> Outcome:
    return outcome_of_call(lambda: _unpack(payload).chunk(index))


def outcome_of_call(call: Callable[[], Any]) -> Outcome:
    """Return what a call returns or raises, on a worker, in a form that can be sent."""
    try:
        with between_pieces():
            return Outcome(returned=call())
    except Exception as error:
        return Outcome(raised=_portable(error))


def _portable(error: Exception) -> Exception:
    """Return an error that can be sent, with where it was raised."""
    error.add_note("Raised by a worker:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        stand_in = RuntimeError(f"{type(error).__name__}: {error}")
        stand_in.add_note(error.__notes__[-1])
        return stand_in
    return error
