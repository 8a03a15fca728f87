"""Chunks on an executor: in order, bounded, and computed again when they are lost."""

import multiprocessing
import os
import pickle
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field

import pytest

from vicheck.errors import ArgumentError, LostWorkerWarning
from vicheck.runtime import workers
from vicheck.runtime.workers import as_they_end, in_order, require_executor


@dataclass(frozen=True)
class Squares:
    """Work whose chunks are squares; some raise."""

    bad: dict = field(default_factory=dict)

    def snapshot(self):
        return self

    def chunk(self, index):
        if index in self.bad:
            raise self.bad[index]
        return index**2


@dataclass(frozen=True)
class Deadly:
    """Work that ends each process but one."""

    survivor: int

    def snapshot(self):
        return self

    def chunk(self, index):
        if os.getpid() != self.survivor and index == 2:
            os._exit(1)
        return index**2


class Held(Executor):
    """Keeps what it is given until it has so much of it, and then does the last first."""

    def __init__(self, number):
        self.number, self.most, self.waiting = number, 0, []

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        self.waiting.append((future, fn, args))
        self.most = max(self.most, len(self.waiting))
        if len(self.waiting) >= self.number:
            for each, function, positional in reversed(self.waiting):
                each.set_result(function(*positional))
            self.waiting.clear()
        return future


class Losing(Executor):
    """Loses chunks so many times before it computes them."""

    def __init__(self, times, error=None):
        self.times, self.seen = times, []
        self.error = error or BrokenProcessPool("a process died")

    def submit(self, fn, /, payload, index):
        future = Future()
        self.seen.append(index)
        if self.seen.count(index) <= self.times.get(index, 0):
            future.set_exception(self.error)
        else:
            future.set_result(fn(payload, index))
        return future


def test_results_come_in_order_whatever_ends_first():
    assert list(in_order(Held(5), Squares(), range(10))) == [n**2 for n in range(10)]
    with ThreadPoolExecutor(3) as pool:
        assert list(in_order(pool, Squares(), range(3, 30))) == [n**2 for n in range(3, 30)]
        assert dict(as_they_end(pool, Squares(), range(5))) == {n: n**2 for n in range(5)}


def test_no_more_than_a_bounded_number_is_under_way(monkeypatch):
    monkeypatch.setattr(workers, "_AHEAD", 4)
    executor = Held(4)
    assert len(list(in_order(executor, Squares(), range(20)))) == 20
    assert executor.most == 4


BEGUN = []


class Slowly(Squares):
    def chunk(self, index):
        BEGUN.append(index)
        time.sleep(0.05)
        return super().chunk(index)


def test_what_was_not_begun_is_cancelled_when_nobody_wants_it():
    BEGUN.clear()
    with ThreadPoolExecutor(1) as pool:
        results = in_order(pool, Slowly(), range(60))
        assert next(results) == 0
        results.close()
    assert 1 <= len(BEGUN) < 60


def test_a_chunk_that_is_lost_once_is_submitted_again():
    executor = Losing({2: 1}, RuntimeError("connection lost"))
    assert list(in_order(executor, Squares(), range(4))) == [0, 1, 4, 9]
    assert sorted(executor.seen) == [0, 1, 2, 2, 3]


def test_a_chunk_that_is_lost_twice_is_computed_here():
    executor = Losing({2: 9})
    with pytest.warns(LostWorkerWarning, match=r"lost workers .BrokenProcessPool."):
        assert list(in_order(executor, Squares(), range(4))) == [0, 1, 4, 9]
    assert executor.seen.count(2) == 2


@pytest.mark.slow
def test_a_pool_whose_process_dies_changes_nothing():
    """A process pool does not replace it: what is left is computed here."""
    spawn = multiprocessing.get_context("spawn")
    work = Deadly(os.getpid())
    with ProcessPoolExecutor(2, spawn) as pool:
        with pytest.warns(LostWorkerWarning):
            assert list(in_order(pool, work, range(8))) == [n**2 for n in range(8)]
        with pytest.warns(LostWorkerWarning):  # and that pool stays broken
            assert list(in_order(pool, work, range(2))) == [0, 1]


def test_an_error_of_the_work_is_raised_as_it_is_and_not_tried_again():
    executor = Losing({})
    with pytest.raises(KeyError, match="no such thing") as caught:
        list(in_order(executor, Squares(bad={1: KeyError("no such thing")}), range(3)))
    assert executor.seen.count(1) == 1
    assert "Raised by a worker" in caught.value.__notes__[0]


class Unsendable(Exception):  # noqa: N818
    def __init__(self, one, two):
        super().__init__(one)


def test_an_error_that_cannot_be_sent_keeps_its_words():
    with pytest.raises(TypeError):
        pickle.loads(pickle.dumps(Unsendable("a", "b")))
    outcome = workers._run_packed(pickle.dumps(_raising), 0)
    with pytest.raises(RuntimeError, match="Unsendable: what happened"):
        outcome.value()


class _Raising:
    def snapshot(self):
        return self

    def chunk(self, index):
        raise Unsendable("what happened", "there")


_raising = _Raising()


def test_work_that_cannot_be_sent_is_named():
    with pytest.raises(TypeError, match=r"cannot be sent to workers \(.*lock"):
        list(in_order(Losing({}), Squares(bad={0: threading.Lock()}), range(1)))


def test_an_executor_that_was_shut_down_is_refused():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(ArgumentError, match=r"executor does not take any work: .*shutdown"):
        list(in_order(pool, Squares(), range(1)))


def test_what_is_no_executor_is_refused():
    require_executor(None)
    with pytest.raises(TypeError, match=r"executor must be an Executor .* got int"):
        require_executor(4)


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork here"
)
def test_processes_that_would_be_forked_are_refused():
    """JAX has threads, and a forked process hangs."""
    with (
        ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool,
        pytest.raises(ArgumentError, match=r"must not fork its processes.*'spawn'"),
    ):
        require_executor(pool)
