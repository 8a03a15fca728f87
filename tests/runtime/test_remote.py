"""Calls on workers: in order, with errors as they are, and what cannot be a worker is refused."""

import multiprocessing
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from vicheck.errors import ArgumentError, LostWorkerWarning, ModelError
from vicheck.runtime.remote import results_of
from vicheck.runtime.workers import packed, require_executor


class Backwards(Executor):
    """Runs nothing until it has everything, and then the last first."""

    def __init__(self, number):
        self.number, self.waiting = number, []

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        self.waiting.append((future, fn, args, kwargs))
        if len(self.waiting) == self.number:
            for each, function, positional, named in reversed(self.waiting):
                each.set_result(function(*positional, **named))
        return future


class UnsendableError(Exception):
    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")


def fail_at_three(number):
    if number == 3:
        raise ModelError("three cannot be used", hint="use four")
    return number


def fail_unsendably(number):
    raise UnsendableError(number, number)


def test_results_come_in_order():
    calls = [(number, 10) for number in range(5)]
    assert list(results_of(Backwards(5), divmod, calls)) == [divmod(i, 10) for i in range(5)]


def test_what_a_call_raises_is_raised_at_its_place():
    with ThreadPoolExecutor(2) as executor:
        results = results_of(executor, fail_at_three, [(number,) for number in range(5)])
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ModelError, match="three cannot be used") as raised:
            next(results)
    assert raised.value.hint == "use four"


def test_an_error_that_cannot_be_sent_is_described():
    with (
        ThreadPoolExecutor(1) as executor,
        # Dask, once it is loaded, makes any error sendable.
        pytest.raises((RuntimeError, UnsendableError), match="1 and 1"),
    ):
        list(results_of(executor, fail_unsendably, [(1,)]))


def test_an_executor_that_was_shut_down_leaves_the_work_here():
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.warns(LostWorkerWarning, match="takes no work"):
        assert list(results_of(executor, abs, [(-2,), (-3,)])) == [2, 3]


def test_executors_that_cannot_be_used_are_refused():
    require_executor(None)
    require_executor(ThreadPoolExecutor(1))
    with pytest.raises(TypeError, match=r"executor must be an Executor of concurrent\.futures"):
        require_executor(object())
    with (
        ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as forking,
        pytest.raises(ArgumentError, match="executor must not fork its processes"),
    ):
        require_executor(forking)


def test_what_cannot_be_sent_is_named():
    with pytest.raises(TypeError, match="model_fn cannot be sent to workers"):
        packed(threading.Lock(), "model_fn")
