"""Where chunks are computed makes no difference, and neither does what happens on the way."""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from distributed import Client, LocalCluster

import vicheck
from tests.calibration.problems import (
    CHUNK_SIZE,
    NUM_DATASETS,
    draw_dying,
    draw_exactly,
    draw_noting,
    pair_model,
    run_foreign,
    saved,
)
from vicheck.calibration.run import vsbc
from vicheck.calibration.work import Work
from vicheck.errors import StoreError
from vicheck.files.durable import is_temporary
from vicheck.results.archive import decode_arrays, encode_arrays

ROOT = Path(__file__).parents[2]
SIZE, NUM = CHUNK_SIZE, NUM_DATASETS
ALL = set(range(NUM // SIZE))


def run(**options):
    settings = {"num_datasets": NUM, "chunk_size": SIZE, "progress": False}
    return vsbc(pair_model(), **settings | options)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The file of a run that nothing has happened to."""
    return saved(run(), tmp_path_factory.mktemp("reference") / "file")


@pytest.fixture
def computed(monkeypatch):
    """Indices of the chunks that this process computes, in order."""
    indices = []
    compute = Work.chunk

    def noting(self, index):
        indices.append(index)
        return compute(self, index)

    monkeypatch.setattr(Work, "chunk", noting)
    return indices


def chunks(store):
    return {int(path.stem.removeprefix("chunk-")): path for path in store.glob("chunk-*.bin")}


def leftovers(store):
    return [path.name for path in store.iterdir() if path.suffix not in (".bin", ".json")]


# ---- executors ----


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


def spawned(number):
    """Processes that have nothing of this one but what is sent to them."""
    return ProcessPoolExecutor(number, multiprocessing.get_context("spawn"))


@pytest.mark.parametrize(
    "make",
    [partial(ThreadPoolExecutor, 3), partial(ThreadPoolExecutor, 1), partial(Backwards, len(ALL))],
    ids=["three threads", "one thread", "backwards"],
)
def test_any_executor_gives_the_same_bits(make, reference, tmp_path):
    with make() as executor:
        assert saved(run(executor=executor), tmp_path / "file") == reference


@pytest.mark.slow
def test_other_processes_give_the_same_bits(reference, tmp_path):
    with spawned(1) as executor:  # Dask below has two, and two share a store
        assert saved(run(executor=executor), tmp_path / "file") == reference


@pytest.fixture(scope="module")
def dask():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client.get_executor()


@pytest.mark.slow
def test_dask_workers_give_the_same_bits(dask, reference, tmp_path):
    assert saved(run(executor=dask), tmp_path / "file") == reference


@pytest.mark.slow
def test_functions_made_on_the_spot_can_be_sent(dask):
    shift = 1.0
    found = run_foreign(
        lambda data, seed: draw_exactly(data, seed, shift=shift),
        quantities={"largest": lambda theta: theta["theta"].max()},
        executor=dask,
        num_datasets=20,
        chunk_size=20,
    )
    assert found.tests.loc["largest", "direction"] == "over"


@pytest.mark.slow
def test_a_dask_worker_that_is_killed_is_replaced(dask, tmp_path):
    marker = tmp_path / "killed"
    found = run_foreign(partial(draw_dying, marker=str(marker)), executor=dask)
    assert marker.exists()
    np.testing.assert_array_equal(found.probabilities, run_foreign().probabilities)
    assert found.failures.empty


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_run_and_a_store_keeps_the_rest(tmp_path, computed):
    """A process pool does not replace its workers."""
    fit = partial(draw_dying, marker=str(tmp_path / "killed"))
    store = tmp_path / "store"
    with spawned(1) as executor, pytest.raises(BrokenProcessPool):
        run_foreign(fit, executor=executor, store=store)
    assert leftovers(store) == []
    kept = set(chunks(store))
    assert kept < ALL
    found = run_foreign(fit, store=store)
    assert set(computed) == ALL - kept
    np.testing.assert_array_equal(found.probabilities, run_foreign().probabilities)


def test_what_cannot_be_sent_is_named():
    lock = threading.Lock()

    def locked(data, seed):
        with lock:
            return draw_exactly(data, seed)

    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(TypeError, match=r"cannot be sent to workers \(.*lock"),
    ):
        run_foreign(locked, executor=executor)


def test_an_error_of_the_function_comes_through_an_executor():
    with (
        ThreadPoolExecutor(2) as executor,
        pytest.raises(TypeError, match="fit must return named draws"),
    ):
        run_foreign(lambda data, seed: None, executor=executor)


def test_chunks_of_another_size_change_only_the_rounding():
    """Up to 1e-6, relatively; the last chunk is not a full one."""
    one, other = run(num_datasets=60), run(num_datasets=60, chunk_size=25)
    for name in ("dataset", "seed", "status", "num_evaluations"):
        np.testing.assert_array_equal(other.data[name], one.data[name])
    for name in ("probability", "symmetric_kl"):
        np.testing.assert_allclose(other.data[name], one.data[name], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(other.khat, one.khat, rtol=1e-4)


# ---- a store ----


def test_a_store_changes_nothing_and_what_is_in_it_is_not_computed_again(
    reference, tmp_path, computed
):
    store = tmp_path / "store"
    assert saved(run(store=store), tmp_path / "one") == reference
    assert sorted(computed) == sorted(ALL)
    assert set(chunks(store)) == ALL
    assert leftovers(store) == []
    computed.clear()
    heard = []
    again = run(store=str(store), progress=lambda *now: heard.append(now[:2]))
    assert saved(again, tmp_path / "two") == reference
    assert computed == []
    assert heard[-1] == (NUM, NUM)


def test_numbers_of_numpy_are_numbers(tmp_path, computed):
    run(store=tmp_path / "store")
    computed.clear()
    run(
        store=tmp_path / "store",
        num_datasets=np.int64(NUM),
        seed=np.int64(0),
        chunk_size=np.int32(SIZE),
        num_draws=np.int16(1000),
    )
    assert computed == []


STOPPED = """
import os, signal, sys
from tests.calibration.problems import CHUNK_SIZE, NUM_DATASETS, pair_model
from vicheck.results.archive import decode_arrays, encode_arrays
from vicheck.calibration.run import vsbc

signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(os, "sched_setaffinity"):  # with many cores all would be done at once
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


def stop(done, total, seconds):
    if done >= 50:
        os.kill(os.getpid(), int(sys.argv[2]))


vsbc(
    pair_model(), num_datasets=NUM_DATASETS, chunk_size=CHUNK_SIZE, store=sys.argv[1], progress=stop
)
"""
SIGNALS = (signal.SIGKILL, signal.SIGINT)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Stores of runs that were stopped by signals when a quarter was done, side by side."""
    stores = {number: tmp_path_factory.mktemp("stopped") / "store" for number in SIGNALS}
    processes = {
        number: subprocess.Popen(
            [sys.executable, "-c", STOPPED, store, str(int(number))],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, store in stores.items()
    }
    try:
        errors = {
            number: process.communicate(timeout=300)[1] for number, process in processes.items()
        }
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    return {
        number: (stores[number], processes[number].returncode, errors[number]) for number in SIGNALS
    }


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS, ids=["killed", "interrupted"])
def test_a_run_goes_on_where_another_process_was_stopped(
    stopped, number, reference, tmp_path, computed
):
    store, code, errors = stopped[number]
    assert code == -number, errors
    kept = chunks(store)
    assert 50 // SIZE <= len(kept) < len(ALL)
    times = {index: path.stat().st_mtime_ns for index, path in kept.items()}
    heard = []
    resumed = run(store=store, progress=lambda *now: heard.append(now[0]))
    assert saved(resumed, tmp_path / "file") == reference
    assert sorted(computed) == sorted(ALL - set(kept))
    assert {index: path.stat().st_mtime_ns for index, path in kept.items()} == times
    assert heard == sorted(heard)
    assert heard[-1] == NUM
    # A kill in the middle of a write leaves the file behind until its lease is over.
    assert all(is_temporary(store / name) for name in leftovers(store))


@pytest.mark.slow
def test_an_interrupt_leaves_nothing_behind_but_chunks(stopped):
    """Unlike a kill, it lets go of what was claimed; and it is told as an interrupt."""
    store, _, errors = stopped[signal.SIGINT]
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert leftovers(store) == []


@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor], ids=["here", "executor"])
def test_an_interrupt_here_stops_all_that_has_not_begun(
    executor, tmp_path, computed, reference, monkeypatch
):
    monkeypatch.setattr("vicheck.calibration.execution.num_cores", lambda: 2)
    store = tmp_path / "store"
    stopped, compute = threading.Event(), Work.chunk

    def held(self, index):
        if len(computed) > 4:  # however slowly the interrupt comes, it does not come too late
            stopped.wait(timeout=60)
        return compute(self, index)

    def interrupt(done, total, seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(Work, "chunk", held)
    pool = executor and executor(1)
    with pytest.raises(KeyboardInterrupt) as caught:
        run(store=store, executor=pool, progress=interrupt)
    stopped.set()
    if pool:
        pool.shutdown()
    for thread in threading.enumerate():
        if thread.name.startswith("vicheck"):
            thread.join()
    del caught
    assert len(computed) < 10
    assert leftovers(store) == []
    assert saved(run(store=store), tmp_path / "file") == reference


def scaled(scale):
    """Return a model whose code is the same whatever the scale is."""

    def model(y=None):
        theta = numpyro.sample("theta", dist.Normal(0.0, scale).expand([4]).to_event(1))
        numpyro.sample("y", dist.Normal(theta, 1.0), obs=y)

    return vicheck.from_numpyro(model)


def noisier(x, y=None):
    b = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(x @ b, 2.0), obs=y)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    store = tmp_path_factory.mktemp("finished") / "store"
    vsbc(scaled(1.0), fit=draw_exactly, quantities=["theta"], num_datasets=10, store=store)
    return store


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"seed": 1}, "seed: the store has 0, this run 1"),
        ({"num_datasets": 11}, "num_datasets: the store has 10, this run 11"),
        ({"chunk_size": 3}, "chunk_size: the store has 2, this run 3"),
        ({"num_draws": 10}, "num_draws: the store has 1000, this run 10"),
        ({"time_limit": 9.0}, "time_limit: the store has null, this run 9"),
        ({"quantities": ["theta[0]"]}, r"quantities\[1\]: the store has .*this run nothing"),
        ({"model": scaled(1.5)}, 'model: the store has ".*this run "'),
        ({"fit": partial(draw_exactly, shift=1.0)}, 'fit: the store has ".*draw_exactly'),
        (
            {"fit": partial(draw_dying, marker="never touched")},
            'fit: the store has ".*draw_exactly .*this run ".*draw_dying',
        ),
        ({"fit": None}, 'fit: the store has ".*draw_exactly .*this run null'),
        ({"fit": None, "family": "full_rank"}, 'family: the store has null, this run "full_rank"'),
    ],
)  # fmt: skip
def test_another_run_in_the_same_store_is_refused(finished, options, difference):
    settings = {"fit": draw_exactly, "quantities": ["theta"], "num_datasets": 10}
    model = options.pop("model", scaled(1.0))
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    with pytest.raises(StoreError, match=f"belongs to another run.*{difference}"):
        vsbc(model, store=finished, **settings | options)
    assert {path.name: path.read_bytes() for path in finished.iterdir()} == before


def test_a_model_that_is_made_again_is_the_same_model(finished, computed):
    vsbc(scaled(1.0), fit=draw_exactly, quantities=["theta"], num_datasets=10, store=finished)
    assert computed == []


def test_a_damaged_chunk_is_done_again(finished, computed):
    expected = chunks(finished)[2].read_bytes()
    broken = bytearray(expected)
    broken[-3] ^= 1
    chunks(finished)[2].write_bytes(broken)
    vsbc(scaled(1.0), fit=draw_exactly, quantities=["theta"], num_datasets=10, store=finished)
    assert computed == [2]
    assert chunks(finished)[2].read_bytes() == expected
    assert (finished / "chunk-000002.damaged").read_bytes() == bytes(broken)


FORGERIES = {
    "no khat": lambda arrays: arrays.pop("khat"),
    "text for numbers": lambda arrays: arrays.update(khat=arrays["khat"].astype(str)),
    "fewer datasets": lambda arrays: arrays.update({k: a[1:] for k, a in arrays.items()}),
    "fewer quantities": lambda arrays: arrays.update(probability=arrays["probability"][:, :1]),
    "other seeds": lambda arrays: arrays.update(seed=arrays["seed"] + 1),
    "an unknown status": lambda arrays: arrays.update(status=np.full(SIZE, "FINE")),
}


@pytest.mark.parametrize("case", FORGERIES)
def test_a_forged_chunk_of_this_run_is_computed_again(case, reference, tmp_path, computed):
    store = tmp_path / "store"
    run(store=store)
    path = chunks(store)[2]
    label, arrays = decode_arrays(path.read_bytes())
    FORGERIES[case](arrays)
    path.write_bytes(encode_arrays(arrays, label))
    computed.clear()
    assert saved(run(store=store), tmp_path / "file") == reference
    assert computed == [2]
    assert path.with_suffix(".damaged").exists()


@pytest.mark.slow
@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor], ids=["here", "executor"])
@pytest.mark.parametrize(
    ("code", "advice"), [(errno.ENOSPC, "free some space"), (errno.EROFS, "check its permissions")]
)
def test_a_disk_that_takes_no_more_keeps_what_is_there(
    executor, code, advice, tmp_path, monkeypatch, computed
):
    """It has room for eight chunks."""
    store, replace = tmp_path / "store", os.replace
    room = iter(range(8))

    def replace_some(source, target):
        if next(room, None) is None:
            raise OSError(code, os.strerror(code), target)
        replace(source, target)

    pool = executor and executor(1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_some)
        with pytest.raises(StoreError, match=f"cannot write .*{advice}"):
            run_foreign(store=store, executor=pool)
    if pool:
        pool.shutdown()
    kept = set(chunks(store))
    assert 7 <= len(kept) <= 8
    assert leftovers(store) == []
    computed.clear()
    found = run_foreign(store=store)
    assert set(computed) == ALL - kept
    np.testing.assert_array_equal(found.probabilities, run_foreign().probabilities)


@pytest.mark.slow
def test_two_processes_share_one_store(tmp_path):
    """Each chunk is computed once, by one or the other, and both return the same."""
    store, notes = tmp_path / "store", tmp_path / "notes"
    notes.mkdir()
    code = """
import sys
from functools import partial
from pathlib import Path
from tests.calibration.problems import draw_noting, run_foreign, saved

fit = partial(draw_noting, directory=sys.argv[2], wait_for=2)
saved(run_foreign(fit, store=sys.argv[1]), Path(sys.argv[3]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, store, notes, tmp_path / "theirs"], cwd=ROOT
    ) as process:
        try:
            fit = partial(draw_noting, directory=str(notes), wait_for=2)
            ours = run_foreign(fit, store=store)
            assert process.wait(timeout=300) == 0
        finally:
            process.kill()
    assert saved(ours, tmp_path / "ours") == (tmp_path / "theirs").read_bytes()
    seeds = [log.read_text().split() for log in notes.glob("*.log")]
    assert len(seeds) == 2
    assert all(seeds)
    assert sorted(map(int, chain(*seeds))) == sorted(ours.data["seed"].to_numpy().tolist())
    assert leftovers(store) == []


def test_chunks_of_other_code_are_refused(tmp_path, monkeypatch):
    """The version is the same for all states of a working copy."""
    run_foreign(store=tmp_path)
    monkeypatch.setattr("vicheck.calibration.run.digest_of_sources", lambda: "other code")
    with pytest.raises(StoreError, match=r'sources: the store has "[0-9a-f]{16}", this run "oth'):
        run_foreign(store=tmp_path)


def test_an_option_that_a_store_cannot_describe_is_refused(tmp_path):
    """Of two optimisers that print alike, one may have another step size."""
    options = {"solver": "stochastic", "optimizer": optax.adam(0.01), "num_steps": 20}
    with pytest.raises(TypeError, match="store cannot tell apart different values of optimizer"):
        run(**options, store=tmp_path / "store")
    assert not (tmp_path / "store").exists()
    first = saved(run(**options, num_datasets=5), tmp_path / "one")
    assert first == saved(run(**options, num_datasets=5), tmp_path / "two")
