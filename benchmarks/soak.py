"""Runs that are disturbed: killed, interrupted, out of disk, bereft of workers.

Run by ``make soak``. A trial runs the command line and disturbs it at a random moment; in the end
the same command goes on undisturbed. A result is a chunk of a calibration on disk: it is lost when
it was there before a fault and is not afterwards, and changed when its bytes are not those of a run
that nobody has disturbed. Processes are forked from this one, which has loaded everything and
computed nothing, so that many moments of a run can be tried in a short time.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "robustness.md"
HEADING = "## Disturbed runs"
DATASETS = "64"
LONGEST = 300.0
"""Seconds after which a process that was told to end counts as hanging."""
VERDICTS = (0, 1, 2)

MODEL = """
import numpyro
import numpyro.distributions as dist

def model(y=None):
    mu = numpyro.sample("mu", dist.Cauchy(0.0, 5.0))
    numpyro.sample("y", dist.Normal(mu, 10.0).expand([8]), obs=y)
"""
DATA = '{"y": [28, 8, -3, 7, -1, 1, 18, 12]}'


@dataclass
class Row:
    """What came of one kind of fault."""

    fault: str
    tried: int = 0
    lost: int = 0
    changed: int = 0
    wrong: int = 0
    """Ends with a status that says something else than what happened."""
    slowest: float = 0.0
    """Seconds from a fault to the end of the process."""


class Soak:
    """A place for the runs, and what an undisturbed one gives."""

    def __init__(self, place: Path, share: float) -> None:
        self.place, self.share = place, share
        self.rng = np.random.default_rng(2018)
        self.log = place / "log"
        self.rows: list[Row] = []
        (place / "model.py").write_text(MODEL)
        (place / "data.json").write_text(DATA)
        self.truth: dict[str, bytes] = {}
        start = time.monotonic()
        assert self.end(self.start(*self.vsbc(place / "truth"))) in VERDICTS, self.log.read_text()
        self.truth = chunks_of(place / "truth")
        start = time.monotonic()  # again, with compiled code from the cache
        assert self.end(self.start(*self.vsbc(place / "again"))) in VERDICTS
        self.seconds = time.monotonic() - start
        assert chunks_of(place / "again") == self.truth
        print(f"{len(self.truth)} chunks, {self.seconds:.1f} s for a run", flush=True)

    def vsbc(self, store: Path, *more: str) -> list[str]:
        model = str(self.place / "model.py")
        return ["vsbc", model, "--num-datasets", DATASETS, "--store", str(store), *more]

    def check(self) -> list[str]:
        return ["check", str(self.place / "model.py"), "--data", str(self.place / "data.json")]

    def start(self, *arguments: str, before: Callable[[], None] | None = None) -> int:
        """Run a command in a fork of this process."""
        child = os.fork()
        if child:
            return child
        try:
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.stdout = os.fdopen(1, "w", closefd=False)
            sys.stderr = os.fdopen(2, "w", closefd=False)
            sys.argv = ["vicheck", *arguments]
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if before is not None:
                before()
            from vicheck.cli import main

            main()
        finally:
            os._exit(99)

    def call(self, function: Callable[[], None]) -> int:
        """Call a function in a fork of this process."""
        child = os.fork()
        if child:
            return child
        try:
            function()
            os._exit(0)
        finally:
            os._exit(99)

    def end(self, child: int) -> int:
        """Wait for a process; 99 if it hangs."""
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return 99

    def moment(self) -> None:
        time.sleep(self.rng.uniform(0.0, self.seconds))

    def times(self, number: int) -> range:
        return range(max(1, round(number * self.share)))

    def kind(self, fault: str) -> Row:
        """Begin a row of the table, when those before it are complete."""
        self.write()
        self.rows.append(Row(fault))
        return self.rows[-1]

    def write(self) -> None:
        """Put the table in its place on the page."""
        before, _, after = PAGE.read_text().partition(HEADING)
        _, more, rest = after.partition("\n## ")
        PAGE.write_text(before + as_markdown(self.rows) + more + rest)

    def compare(self, row: Row, store: Path, before: dict[str, bytes]) -> None:
        """Look what a fault has done to a store."""
        after = chunks_of(store)
        row.lost += len(before.keys() - after.keys())
        row.changed += sum(after[name] != self.truth.get(name) for name in after)

    def finish(self, row: Row, store: Path) -> None:
        """Let the run go on undisturbed: all must be there in the end, and the same."""
        status = self.end(self.start(*self.vsbc(store)))
        row.wrong += status not in VERDICTS
        chunks = chunks_of(store)
        row.lost += len(self.truth.keys() - chunks.keys())
        row.changed += sum(chunks[name] != self.truth.get(name) for name in chunks)
        print(row, flush=True)

    @contextlib.contextmanager
    def store(self) -> Iterator[Path]:
        place = Path(tempfile.mkdtemp(dir=self.place))
        yield place / "store"
        shutil.rmtree(place, ignore_errors=True)


def chunks_of(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.glob("chunk-*.bin")}


def disturb(
    soak: Soak, fault: str, number: int, by: Callable[[int], None], fine: tuple[int, ...],
    *more: str, wait: float = 0.0,
) -> None:  # fmt: skip
    """Disturb runs at random moments, the same store again and again until it is finished."""
    row = soak.kind(fault)
    left = number
    while left:
        with soak.store() as store:
            while left and len(chunks_of(store)) < len(soak.truth):
                before = chunks_of(store)
                child = soak.start(*soak.vsbc(store, *more))
                time.sleep(wait)
                soak.moment()
                start = time.monotonic()
                by(child)
                status = soak.end(child)
                row.slowest = max(row.slowest, time.monotonic() - start)
                row.tried, left = row.tried + 1, left - 1
                done = len(chunks_of(store)) == len(soak.truth)
                if status not in fine and not (status in VERDICTS and done):
                    row.wrong += 1
                    print(f"status {status}\n{soak.log.read_text()[-2000:]}", flush=True)
                soak.compare(row, store, before)
            soak.finish(row, store)


class Cheap:
    """Work for a store whose chunks cost nothing: many can be killed in a short time."""

    num_chunks, fit = 40, True

    def chunk(self, index: int) -> dict[str, np.ndarray]:
        time.sleep(0.001)
        return {"values": np.random.default_rng(index).normal(size=2000)}

    def is_chunk(self, index: int, arrays: dict[str, np.ndarray]) -> bool:
        return np.array_equal(arrays["values"], self.chunk(index)["values"])


def fill_cheaply(store: Path) -> None:
    from vicheck.calibration.execution import compute_chunks
    from vicheck.calibration.store import Store

    compute_chunks(Cheap(), Store.open(store, {"soak": 1}), None, lambda index: None)  # type: ignore[arg-type]


def kill_stores(soak: Soak) -> None:
    """Kill two processes that fill a store with cheap chunks, again and again."""
    row = soak.kind("`kill -9` of two processes that fill one store with numbers that cost nothing")
    fill_cheaply(soak.place / "cheap")
    truth = chunks_of(soak.place / "cheap")
    start = time.monotonic()
    soak.end(soak.call(lambda: fill_cheaply(soak.place / "cheap again")))
    seconds = time.monotonic() - start
    for _ in soak.times(200):
        with soak.store() as store:
            children = [soak.call(lambda: fill_cheaply(store)) for _ in range(2)]
            for child in children:
                time.sleep(soak.rng.uniform(0.0, seconds / 2))
                before = chunks_of(store)
                kill(child)
                soak.end(child)
                row.tried += 1
                row.lost += len(before.keys() - chunks_of(store).keys())
            row.wrong += soak.end(soak.call(lambda: fill_cheaply(store))) != 0
            chunks = chunks_of(store)
            row.lost += len(truth.keys() - chunks.keys())
            row.changed += sum(chunks[name] != truth.get(name) for name in chunks)
            left = [path.name for path in store.iterdir() if path.suffix == ".claim"]
            row.wrong += bool(left)
    print(row, flush=True)


def kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)


def press(child: int) -> None:
    os.kill(child, signal.SIGINT)


def press_twice(child: int) -> None:
    press(child)
    time.sleep(0.3)
    with contextlib.suppress(ProcessLookupError):
        press(child)


def interrupt_commands(soak: Soak) -> None:
    """Press Ctrl-C in commands that keep nothing."""
    out = str(soak.place / "paper")
    commands = {
        "check": soak.check(),
        "doctor": ["doctor"],
        "paper": ["paper", "run", "invariance", "--quick", "--out", out],
    }
    for name, arguments in commands.items():
        row = soak.kind(f"Ctrl-C, `vicheck {name}`")
        seconds = 4 * soak.seconds  # most of the experiment is still to come
        answer = None
        if name != "paper":
            start, length = time.monotonic(), len(soak.log.read_text())
            assert soak.end(soak.start(*arguments)) in VERDICTS, soak.log.read_text()[-2000:]
            seconds = time.monotonic() - start
            answer = soak.log.read_text()[length:] if name == "check" else None
        for _ in soak.times(15):
            shutil.rmtree(out, ignore_errors=True)
            child = soak.start(*arguments)
            time.sleep(soak.rng.uniform(0.0, seconds))
            note_interrupt(soak, row, child, answer)
        print(row, flush=True)


def note_interrupt(soak: Soak, row: Row, child: int, answer: str | None = None) -> None:
    """Press Ctrl-C, unless the process is done, or has just written its whole answer."""
    pressed, still = time.monotonic(), not os.waitpid(child, os.WNOHANG)[0]
    if not still:  # it was quicker
        return
    press(child)
    status = soak.end(child)
    if status in VERDICTS and answer and soak.log.read_text().endswith(answer):
        return
    row.tried += 1
    row.slowest = max(row.slowest, time.monotonic() - pressed)
    if status not in (130, -signal.SIGINT):
        # Python may not have begun to look at the signal when the last line was done.
        row.wrong += 1
        print(f"status {status}\n{soak.log.read_text()[-2000:]}", flush=True)


def interrupt_starts(soak: Soak) -> None:
    """Press Ctrl-C while libraries are loaded, in processes of their own."""
    row = soak.kind("Ctrl-C while `vicheck check` starts")
    ready = "print('ready', flush=True); from vicheck.cli import main; main()"
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    for _ in soak.times(15):
        command = [sys.executable, "-c", heed + ready, *soak.check()]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(soak.rng.uniform(0.05, 4.0))
            pressed = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
        row.tried += 1
        row.slowest = max(row.slowest, time.monotonic() - pressed)
        if process.returncode not in (130, -signal.SIGINT):
            row.wrong += 1
            print(f"status {process.returncode}\n{errors[-2000:]}", flush=True)
    print(row, flush=True)


def share_store(soak: Soak) -> None:
    """Let two processes fill one store, and kill one of them half of the time."""
    row = soak.kind("two processes on one store, one of them killed every other time")
    for number in soak.times(6):
        with soak.store() as store:
            first, second = (soak.start(*soak.vsbc(store)) for _ in range(2))
            if number % 2:
                soak.moment()
                kill(second)
            for child in (first, second):
                status = soak.end(child)
                killed = child == second and number % 2 and status == -signal.SIGKILL
                row.wrong += not killed and status not in VERDICTS
            row.tried += 1
            soak.finish(row, store)


def fill_disk(soak: Soak) -> None:
    """Let the disk be full: a small file system where one may be mounted, a limit elsewhere."""
    room = soak.place / "small"
    room.mkdir()
    size = sum(map(len, soak.truth.values()))
    can_mount = mount(room, "size=1m")
    row = soak.kind("full disk" if can_mount else "files may not grow (for want of a small disk)")
    if can_mount:
        subprocess.run(["umount", str(room)], check=True)
    for _ in soak.times(6):
        part = int(soak.rng.uniform(0.05, 0.9) * size)
        with soak.store() as store:
            if can_mount:
                mount(room, f"size={4096 * max(4, part // 4096)}")
                status = soak.end(soak.start(*soak.vsbc(room / "store")))
                before = chunks_of(room / "store")
                subprocess.run(["mount", "-o", "remount,size=64m", str(room)], check=True)
                soak.compare(row, room / "store", before)
                soak.finish(row, room / "store")
                subprocess.run(["umount", str(room)], check=True)
            else:
                most = len(next(iter(soak.truth.values()))) // 2

                def limit(most: int = most) -> None:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

                status = soak.end(soak.start(*soak.vsbc(store), before=limit))
                soak.finish(row, store)
        row.tried += 1
        row.wrong += status != 74 and status not in VERDICTS


def read_only(soak: Soak) -> None:
    """Let a store become read-only, half-way and when all is there."""
    room = soak.place / "fixed"
    room.mkdir()
    if not mount(room, "size=64m"):
        print("read-only: not tried, nothing may be mounted here")
        return
    row = soak.kind("directory becomes read-only")
    for number in soak.times(6):
        store = room / f"store{number}"
        child = soak.start(*soak.vsbc(store))
        soak.moment()
        kill(child)
        soak.end(child)
        before = chunks_of(store)
        if number % 2:
            soak.finish(row, store)
            before = chunks_of(store)
        subprocess.run(["mount", "-o", "remount,ro", str(room)], check=True)
        status = soak.end(soak.start(*soak.vsbc(store)))
        complete = len(before) == len(soak.truth)
        if status not in (VERDICTS if complete else (74,)):
            row.wrong += 1
            print(f"status {status}\n{soak.log.read_text()[-2000:]}", flush=True)
        soak.compare(row, store, before)
        subprocess.run(["mount", "-o", "remount,rw", str(room)], check=True)
        row.tried += 1
        soak.finish(row, store)
    subprocess.run(["umount", str(room)], check=True)


def mount(room: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(room)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


CLUSTER = """
import sys, time
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


def lose_workers(soak: Soak) -> None:
    """Run on a Dask cluster: kill the processes of workers, and press Ctrl-C."""
    script = soak.place / "cluster.py"
    script.write_text(CLUSTER)
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cluster:
        assert cluster.stdin is not None
        assert cluster.stdout is not None
        address = cluster.stdout.readline().strip()
        dask = ("--dask", address)
        with soak.store() as store:  # workers load and compile once
            assert soak.end(soak.start(*soak.vsbc(store, *dask))) in VERDICTS

        disturb(soak, "Ctrl-C under Dask", len(soak.times(5)), press, (130, -signal.SIGINT), *dask)
        row = soak.kind("a Dask worker is killed")
        for _ in soak.times(4):
            with soak.store() as store:
                child = soak.start(*soak.vsbc(store, *dask))
                soak.moment()
                for worker in workers_of(cluster.pid)[:1]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(worker, signal.SIGKILL)
                row.wrong += soak.end(child) not in VERDICTS
                row.tried += 1
                soak.finish(row, store)
        cluster.stdin.close()


def workers_of(parent: int) -> list[int]:
    """Return the processes of a cluster that compute."""
    workers = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (path / "cmdline").read_bytes()
            ours = int((path / "stat").read_text().rpartition(")")[2].split()[1]) == parent
            if ours and b"spawn_main" in command:
                workers.append(int(path.name))
    return workers


def interrupt_processes(soak: Soak) -> None:
    """Press Ctrl-C, which the whole group of processes gets, in a run on a pool of processes."""
    script = soak.place / "pool.py"
    script.write_text(
        f"""
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
sys.path.insert(0, {str(soak.place)!r})
import model, vicheck

if __name__ == "__main__":
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        report = lambda done, total, seconds: print(done, flush=True)
        vicheck.vsbc(vicheck.from_numpyro(model.model), num_datasets={DATASETS}, store=sys.argv[1],
                     executor=pool, progress=report)
"""
    )
    row = soak.kind("Ctrl-C, a pool of processes")
    for _ in soak.times(4):
        with soak.store() as store:
            process = subprocess.Popen(
                [sys.executable, str(script), str(store)],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                start_new_session=True,
            )  # fmt: skip
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(soak.rng.uniform(0.0, 2.0))
            before, start = chunks_of(store), time.monotonic()
            os.killpg(process.pid, signal.SIGINT)
            status = process.wait()
            row.slowest = max(row.slowest, time.monotonic() - start)
            row.tried += 1
            done = len(chunks_of(store)) == len(soak.truth)
            row.wrong += status not in (130, -signal.SIGINT) and not (status == 0 and done)
            soak.compare(row, store, before)
            print(row, flush=True)


INTRODUCTION = f"""{HEADING}

`make soak` disturbs the command line at random moments and then lets it resume. A result is a
finished chunk of a calibration on disk. It is lost if it was there before the fault and is gone
afterwards, and changed if its bytes differ from those of an undisturbed run. An exit status is
wrong if it does not say what happened, such as the status of a verdict after Ctrl-C or after a
crash.

| fault | times tried | results lost | results changed | wrong status | longest time to end |
|---|---:|---:|---:|---:|---:|"""


def as_markdown(rows: list[Row]) -> str:
    lines = [INTRODUCTION]
    for row in rows:
        slowest = f"{row.slowest:.1f} s" if row.slowest else ""
        numbers = (row.tried, row.lost, row.changed, row.wrong, slowest)
        lines.append(f"| {row.fault} | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the times faults are tried")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*fork")
    with tempfile.TemporaryDirectory() as directory:
        os.environ["XDG_CACHE_HOME"] = directory
        import vicheck.calibration.run
        import vicheck.checking.run
        import vicheck.cli.commands
        import vicheck.paper.results  # noqa: F401 (loaded once for all)

        soak = Soak(Path(directory), options.share)
        interrupted = (130, -signal.SIGINT)
        kill_stores(soak)
        disturb(soak, "`kill -9`, `vicheck vsbc`", len(soak.times(50)), kill, (-signal.SIGKILL,))
        disturb(soak, "Ctrl-C, `vicheck vsbc`", len(soak.times(30)), press, interrupted)
        disturb(soak, "Ctrl-C twice, `vicheck vsbc`", len(soak.times(10)), press_twice, interrupted)
        interrupt_commands(soak)
        interrupt_starts(soak)
        interrupt_processes(soak)
        share_store(soak)
        fill_disk(soak)
        read_only(soak)
        lose_workers(soak)
    soak.write()
    print(as_markdown(soak.rows))
    bad = [row for row in soak.rows if row.lost or row.changed or row.wrong]
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
