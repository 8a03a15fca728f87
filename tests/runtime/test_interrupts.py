"""Ctrl-C is recorded, checked for between pieces of work, and never lost."""
# ruff: noqa: PT012 (what happens inside a block is what is tested)

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vicheck
from vicheck.adapters.host_calls import call_on_host
from vicheck.evaluation import drawing
from vicheck.results.status import FitStatus
from vicheck.runtime.interrupts import at_once, between_pieces, check_interrupt, piece, presses

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


def press():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def _the_handler_is_restored():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        yield
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert presses() == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_first_ctrl_c_waits_for_the_end_of_a_piece():
    done = []
    with pytest.raises(KeyboardInterrupt), between_pieces():
        check_interrupt()
        press()
        done.append("the piece")
        check_interrupt()
        done.append("the next")
    assert done == ["the piece"]


def test_the_second_ctrl_c_does_not_wait():
    with pytest.raises(KeyboardInterrupt), between_pieces():
        press()
        press()
        pytest.fail("it went on")


def test_an_unchecked_ctrl_c_is_raised_at_the_end():
    with pytest.raises(KeyboardInterrupt), between_pieces():
        press()


def test_a_handled_ctrl_c_is_not_raised_again():
    with between_pieces():
        press()
        with pytest.raises(KeyboardInterrupt):
            check_interrupt()


def test_nested_blocks_forget_nothing():
    with pytest.raises(KeyboardInterrupt), between_pieces():
        with between_pieces():
            press()
        check_interrupt()


def test_foreign_code_ends_at_once_and_a_swallowed_ctrl_c_is_remembered():
    with pytest.raises(KeyboardInterrupt), between_pieces():
        with at_once():
            try:
                press()
                pytest.fail("it went on")
            except KeyboardInterrupt:
                pass
        check_interrupt()


def test_an_error_after_ctrl_c_becomes_that_ctrl_c():
    with pytest.raises(KeyboardInterrupt), between_pieces(), piece():
        press()
        raise RuntimeError("a callback has failed")


def test_errors_without_ctrl_c_are_left_alone():
    with pytest.raises(RuntimeError), between_pieces(), piece():
        raise RuntimeError


def test_all_threads_see_ctrl_c():
    def work():
        while True:
            check_interrupt()
            time.sleep(0.01)

    with ThreadPoolExecutor(1) as pool, between_pieces():
        future = pool.submit(work)
        press()
        with pytest.raises(KeyboardInterrupt):
            future.result()


def test_a_handler_of_the_caller_is_left_alone():
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with between_pieces():
            press()
        check_interrupt()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert heard == [1]


def test_in_another_thread_blocks_change_nothing():
    def work():
        with between_pieces():
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


FORKING = """
import os, signal
from vicheck.runtime.interrupts import between_pieces, presses

signal.signal(signal.SIGINT, signal.default_int_handler)
with between_pieces():
    child = os.fork()
    if not child:
        fine = signal.getsignal(signal.SIGINT) is signal.default_int_handler and not presses()
        os._exit(0 if fine else 1)
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_begins_anew():
    """In a process of its own, because JAX warns about forks once it is loaded."""
    assert subprocess.run([sys.executable, "-c", FORKING], check=False).returncode == 0


# Public calls


def in_a_moment(seconds):
    timer = threading.Timer(seconds, press)
    timer.start()
    return timer


def slow_model(seconds=0.005):
    """Return a model whose density is a callback, where Ctrl-C used to be lost, and its calls."""
    calls = []

    def on_host(x):
        calls.append(1)
        if len(calls) == 20:
            press()
        time.sleep(seconds)
        return (-0.5 * np.sum(x**2, axis=-1),)

    @jax.custom_jvp
    def density(x):
        return call_on_host(on_host, [((), np.float64)], x, vmap_method="broadcast_all")[0]

    @density.defjvp
    def _(primals, tangents):
        (x,), (v,) = primals, tangents
        return density(x), -jnp.sum(x * v)

    return vicheck.from_log_density(density, np.zeros(2)), calls


def test_a_fit_notices_ctrl_c_in_callbacks():
    model, calls = slow_model()
    with pytest.raises(KeyboardInterrupt):
        while True:  # an interrupted fit may be returned
            fit = vicheck.fit(model, num_starts=1)
            if fit.status is FitStatus.INTERRUPTED:
                raise KeyboardInterrupt
    assert len(calls) < 100


def test_an_interrupted_fit_is_returned_as_it_stands():
    def interrupt(sentence):
        if not sentences:
            press()
        sentences.append(sentence)

    sentences = []
    model = vicheck.from_log_density(lambda x: -jnp.sum((x - 3.0) ** 4), np.zeros(3))
    fit = vicheck.fit(model, progress=interrupt)
    assert fit.status is FitStatus.INTERRUPTED
    assert len(sentences) == 1


def test_a_check_ends_between_chunks_of_draws(monkeypatch):
    model = vicheck.from_log_density(lambda x: -jnp.sum(x**2) / 2, np.zeros(2))
    fit = vicheck.fit(model, num_starts=1)
    inner, chunks = drawing.Drawing.evaluate, []

    def evaluated(*arguments):
        chunks.append(1)
        if len(chunks) == 2:
            press()
        return inner(*arguments)

    monkeypatch.setattr(drawing.Drawing, "evaluate", evaluated)
    with pytest.raises(KeyboardInterrupt):
        vicheck.check(fit, num_draws=100_000)
    assert len(chunks) == 2


def fit_slowly(data, seed):
    time.sleep(0.05)
    return {"mu": np.zeros(10)}


def gaussian():
    import numpyro
    import numpyro.distributions as dist

    def model(y=None):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mu, 1.0).expand([2]), obs=y)

    return vicheck.from_numpyro(model)


@pytest.mark.parametrize("kind", ["here", "threads"])
def test_a_calibration_ends_wherever_its_chunks_are_computed(tmp_path, kind):
    executor = ThreadPoolExecutor(2) if kind == "threads" else None
    seen = []

    def show(done, total, seconds):
        seen.append(done)
        if len(seen) == 2:
            press()

    try:
        with pytest.raises(KeyboardInterrupt):
            vicheck.vsbc(
                gaussian(),
                num_datasets=40,
                chunk_size=2,
                fit=fit_slowly,
                executor=executor,
                store=tmp_path / "store",
                quantities=["mu"],
                num_draws=10,
                progress=show,
            )
    finally:
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)
    assert seen[-1] < 40
    assert len(list((tmp_path / "store").glob("*.bin"))) >= 2
    assert not list((tmp_path / "store").glob("*.claim"))


def test_our_own_fits_in_threads_end_too():
    def show(done, total, seconds):
        if not presses():
            press()

    with pytest.raises(KeyboardInterrupt):
        vicheck.vsbc(
            gaussian(), num_datasets=400, chunk_size=1, num_draws=10, quantities=["mu"],
            progress=show,
        )  # fmt: skip
    assert not any(thread.name.startswith("vicheck") for thread in threading.enumerate())


def test_a_reference_ends_after_its_chains():
    model = vicheck.from_log_density(lambda x: -jnp.sum(x**2) / 2, np.zeros(1))
    timer = in_a_moment(0.05)
    with pytest.raises(KeyboardInterrupt):
        for seed in range(1000):
            vicheck.reference(model, num_draws=10, num_warmup=10, num_chains=1, seed=seed)
    timer.join()
