"""Where chunks are computed: in this process, by an executor, or by others with the same store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial

from vicheck.calibration.store import Store
from vicheck.calibration.work import Arrays, Work
from vicheck.runtime.compiling import is_large
from vicheck.runtime.interrupts import check_interrupt, presses
from vicheck.runtime.workers import as_they_end, ended
from vicheck.stats.smoothing import num_cores

__all__ = ["compute_chunks"]

Notify = Callable[[int], None]

_WAIT = 0.5
"""Seconds between checks for chunks that another process is working on."""
_LARGE_CHUNKS = 2
"""Chunks of a large model at a time: XLA spreads its density over the cores, but nothing spreads
what the solver does on the host, so one chunk computes its density while another is there."""


def compute_chunks(
    work: Work, store: Store | None, executor: Executor | None, notify: Notify
) -> list[Arrays]:
    """Return the results of all chunks, in order; ``notify`` is called with the index of each.

    With a store, chunks that are in it are not computed again, and those that another process is
    working on are left to it.
    """
    done: dict[int, Arrays] = {}
    if store is not None:
        for index in sorted(store.finished()):
            arrays = _read_valid(work, store, index) if index < work.num_chunks else None
            if arrays is not None:
                done[index] = arrays
                notify(index)
    while len(done) < work.num_chunks:
        missing = [index for index in range(work.num_chunks) if index not in done]
        compute = _in_this_process if executor is None else partial(_by_executor, executor)
        before = len(done)
        for index, arrays in compute(work, missing, store):
            if arrays is not None:
                done[index] = arrays
                notify(index)
        if len(done) == before:  # other processes are working on all that is missing
            check_interrupt()
            time.sleep(_WAIT)
    return [done[index] for index in range(work.num_chunks)]


def _in_this_process(
    work: Work, missing: list[int], store: Store | None
) -> Iterator[tuple[int, Arrays | None]]:
    """Compute chunks in this process, on all its cores."""
    compute = partial(_compute_and_store, work, store)
    if work.fit is not None:  # the user's code may not be safe to run in threads
        yield from ((index, compute(index)) for index in missing)
        return
    large = is_large(work.model.program, work.model.data)
    # Two threads for each core: while some wait for the interpreter, the others compute.
    pool = ThreadPoolExecutor(_LARGE_CHUNKS if large else 2 * num_cores(), "vicheck")
    try:
        futures = {pool.submit(compute, index): index for index in missing}
        for done in ended(futures):
            yield from ((futures[future], future.result()) for future in done)
    finally:  # threads notice a first Ctrl-C soon; after a second nobody waits for them
        pool.shutdown(wait=presses() == 1, cancel_futures=True)


def _compute_and_store(work: Work, store: Store | None, index: int) -> Arrays | None:
    check_interrupt()
    if store is None:
        return work.chunk(index)
    arrays = _read_valid(work, store, index)
    if arrays is not None:
        return arrays
    with store.claiming(index) as claimed:
        if not claimed:
            return None
        arrays = work.chunk(index)
        store.write(index, arrays)
    return arrays


def _read_valid(work: Work, store: Store, index: int) -> Arrays | None:
    """Return a chunk from the store; one that this work cannot have made counts as damaged."""
    arrays = store.read(index)
    if arrays is None or work.is_chunk(index, arrays):
        return arrays
    store.set_aside(index)
    return None


def _by_executor(
    executor: Executor, work: Work, missing: list[int], store: Store | None
) -> Iterator[tuple[int, Arrays | None]]:
    """Compute chunks by an executor; this process writes them to the store."""
    held: set[int] = set()

    def claimed() -> Iterator[int]:
        for index in missing:
            if store is None or store.claim(index):
                held.add(index)
                yield index

    try:
        for index, arrays in as_they_end(executor, work, claimed()):
            if store is not None:
                store.write(index, arrays)
                store.release(index)
            held.discard(index)
            yield index, arrays
    finally:
        if store is not None:
            for index in held:
                store.release(index)
