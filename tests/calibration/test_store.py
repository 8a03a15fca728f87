"""Chunks on disk: whole or absent, whatever happens to the process, the disk or the files."""

import errno
import fcntl
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzzing import mutations
from tests.fuzzing.mutations import with_header
from vicheck.calibration import manifest
from vicheck.calibration.store import Store
from vicheck.errors import StoreError
from vicheck.files import durable

MANIFEST = {
    "model": "a1b2",
    "seed": 1,
    "settings": {"family": "mean_field", "tolerance": 1e-3},
    "quantities": ["mu", "tau"],
}
ARRAYS = {
    "float": np.array([[0.1, -0.0], [np.inf, -np.inf], [5e-324, 1.7e308]]),
    "nan": np.array([np.nan, np.frombuffer(b"\x01\0\0\0\0\0\xf8\x7f")[0]]),
    "integer": np.array([-(2**63), 0, 2**63 - 1]),
    "boolean": np.array([True, False, True]),
    "text": np.array(["", "mu", "theta[0]", "θ̂ ü 🦆"]),
    "scalar": np.array(2.5),
    "no floats": np.zeros((0, 3)),
    "no text": np.array([], dtype="<U4"),
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "strided": np.arange(10)[::-3],
    "größe": np.array([1], dtype=np.int64),
}
DEAD_LONG_AGO = 1_000_000.0  # seconds, far beyond any lease


def simple(index):
    return {"index": np.array([index]), "values": np.full(100, index / 7)}


def assert_same(got, expected):
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert got[name].dtype == array.dtype
        assert got[name].shape == array.shape
        assert got[name].tobytes() == array.tobytes()  # bits, so that NaNs and -0.0 count


def names(directory):
    return sorted(path.name for path in Path(directory).iterdir())


def age(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))


def temporaries(directory):
    return [name for name in names(directory) if name.endswith(".tmp")]


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "runs" / "first"


@pytest.fixture
def store(directory):
    return Store.open(directory, MANIFEST)


@contextmanager
def child(code, *arguments, **options):
    """Run Python code in a process of its own, which does not outlive the block."""
    command = [sys.executable, "-c", "from vicheck.calibration.store import Store\n" + code]
    process = subprocess.Popen(
        [*command, *map(str, arguments)], stdout=subprocess.PIPE, text=True, **options
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


# Round trips


def test_all_kinds_of_arrays_come_back_bit_for_bit(store):
    store.write(3, ARRAYS)
    assert_same(store.read(3), ARRAYS)
    assert store.finished() == {3}


def test_arrays_read_can_be_written_to(store):
    store.write(0, ARRAYS)
    store.read(0)["float"][0, 0] = 7.0


def test_a_chunk_may_be_empty(store):
    store.write(0, {})
    assert store.read(0) == {}


def test_foreign_byte_order_and_narrow_numbers_keep_their_values(store):
    store.write(0, {"big": np.array([1.5, 2.5], dtype=">f8"), "narrow": np.float32([0.1])})
    got = store.read(0)
    assert got["big"].dtype == np.float64
    assert got["narrow"].dtype == np.float32
    np.testing.assert_array_equal(got["big"], [1.5, 2.5])
    np.testing.assert_array_equal(got["narrow"], np.float32([0.1]))


def test_the_same_arrays_give_the_same_bytes(tmp_path):
    files = []
    for name, arrays in (("a", ARRAYS), ("b", dict(reversed(ARRAYS.items())))):
        store = Store.open(tmp_path / name, MANIFEST)
        store.write(2, arrays)
        age(store.path, DEAD_LONG_AGO)
        files.append((tmp_path / name / "chunk-000002.bin").read_bytes())
    assert files[0] == files[1]


def test_an_absent_chunk_is_none(store):
    assert store.read(5) is None
    assert store.finished() == set()
    assert store.damaged == []


def test_indices_beyond_six_digits(store):
    store.write(12_345_678, simple(1))
    store.write(999_999, simple(2))
    assert store.finished() == {12_345_678, 999_999}
    assert_same(store.read(12_345_678), simple(1))


def test_a_finished_chunk_is_left_as_it_is(store):
    store.write(0, simple(0))
    before = (store.path / "chunk-000000.bin").stat()
    store.write(0, simple(99))
    after = (store.path / "chunk-000000.bin").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert_same(store.read(0), simple(0))


def test_a_store_can_be_sent_to_another_process(store):
    store.write(0, simple(0))
    assert_same(pickle.loads(pickle.dumps(store)).read(0), simple(0))


@pytest.mark.parametrize(
    ("call", "exception", "message"),
    [
        (lambda store: store.read(-1), ValueError, "index must not be negative, got -1"),
        (lambda store: store.read("1"), TypeError, "index must be an integer, got str"),
        (
            lambda store: store.write(0, {"x": np.array([None])}),
            TypeError,
            r"arrays\['x'\] must hold .* got dtype object",
        ),
        (
            lambda store: store.write(0, {"x": np.array([1j])}),
            TypeError,
            r"arrays\['x'\] must hold .* got dtype complex128",
        ),
        (lambda store: Store.open(store.path, [1]), TypeError, "manifest must be a dictionary"),
        (
            lambda store: Store.open(store.path, {"seed": object()}),
            TypeError,
            "manifest must hold what JSON can hold: .*object",
        ),
        (
            lambda store: Store.open(store.path, {"seed": float("nan")}),
            ValueError,
            "manifest must hold what JSON can hold",
        ),
    ],
)
def test_bad_arguments(store, call, exception, message):
    with pytest.raises(exception, match=message):
        call(store)
    assert names(store.path) == ["manifest.json"]


# The manifest


def test_a_store_is_opened_again_by_the_same_manifest(directory, store):
    store.write(4, simple(4))
    again = {**dict(reversed(MANIFEST.items())), "quantities": ("mu", "tau")}
    assert_same(Store.open(directory, again).read(4), simple(4))


def test_the_manifest_can_be_read_by_people(store):
    assert json.loads((store.path / "manifest.json").read_text())["manifest"] == MANIFEST


def test_another_manifest_is_refused_and_each_difference_named(directory, store):
    other = {
        "seed": 2,
        "settings": {"family": "full_rank", "tolerance": 1e-3, "solver": "stochastic"},
        "quantities": ["mu"],
        "model": "a1b2",
    }
    with pytest.raises(StoreError) as caught:
        Store.open(directory, other)
    message = str(caught.value)
    assert str(directory) in message
    assert "seed: the store has 1, this run 2" in message
    assert 'settings.family: the store has "mean_field", this run "full_rank"' in message
    assert 'settings.solver: the store has nothing, this run "stochastic"' in message
    assert 'quantities[1]: the store has "tau", this run nothing' in message
    assert "use another directory, or the settings of that run" in message
    assert "tolerance" not in message
    assert "model" not in message


@pytest.mark.parametrize("seed", [True, 1.0, "1", [1], {"value": 1}, None])
def test_a_seed_of_another_type_is_another_seed(directory, store, seed):
    with pytest.raises(StoreError, match=r"seed.*: the store has"):
        Store.open(directory, {**MANIFEST, "seed": seed})


def test_many_differences_are_counted(tmp_path):
    Store.open(tmp_path, {"names": list(range(100))})
    with pytest.raises(StoreError, match=r"names\[9\]: the store has 9, this run 10; and 90 more"):
        Store.open(tmp_path, {"names": list(range(1, 101))})


def test_a_directory_of_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(StoreError, match=r"is not empty and has no manifest\.json"):
        Store.open(tmp_path, MANIFEST)
    assert names(tmp_path) == ["thesis.tex"]
    assert (tmp_path / "thesis.tex").read_text() == "important"


def test_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("important")
    with pytest.raises(StoreError, match="file is not a directory"):
        Store.open(tmp_path / "file", MANIFEST)
    assert (tmp_path / "file").read_text() == "important"


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 200, b"[]", b"{}", b'{"name": "a web page", "icons": []}', b"[" * 100_000],
)
def test_a_manifest_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(StoreError, match="is damaged, or was not written by vicheck"):
        Store.open(tmp_path, MANIFEST)
    assert (tmp_path / "manifest.json").read_bytes() == content


def test_a_changed_character_in_the_manifest_is_damage_and_no_other_run(directory, store):
    path = directory / "manifest.json"
    path.write_text(path.read_text().replace("mean_field", "mean_fjeld"))
    with pytest.raises(StoreError, match="is damaged"):
        Store.open(directory, MANIFEST)


def test_a_later_format_is_named(directory, store, monkeypatch):
    monkeypatch.setattr(manifest, "_FORMAT", 3)
    later = directory.parent / "later"
    Store.open(later, MANIFEST)
    monkeypatch.undo()
    with pytest.raises(StoreError, match="has format 3, and this version of vicheck reads form"):
        Store.open(later, MANIFEST)


def test_the_first_of_two_runs_that_begin_at_once_keeps_the_directory(directory, monkeypatch):
    """The other run's manifest appears after this one has looked and before it writes its own."""
    fsync = os.fsync

    def fsync_late(descriptor):
        monkeypatch.undo()
        Store.open(directory, {**MANIFEST, "seed": 7})
        fsync(descriptor)

    directory.mkdir(parents=True)
    monkeypatch.setattr(os, "fsync", fsync_late)
    with pytest.raises(StoreError, match="seed: the store has 7, this run 1"):
        Store.open(directory, MANIFEST)
    assert names(directory) == ["manifest.json"]
    Store.open(directory, {**MANIFEST, "seed": 7})


def test_hard_links_are_not_needed(directory, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    Store.open(directory, MANIFEST).write(0, simple(0))
    assert names(directory) == ["chunk-000000.bin", "manifest.json"]


def test_a_start_that_was_killed_is_no_foreign_directory(directory):
    directory.mkdir(parents=True)
    (directory / ".0123456789abcdef.tmp").write_bytes(b"half a mani")
    Store.open(directory, MANIFEST).write(0, simple(0))


# Damage


def assert_set_aside(store, index, content):
    assert store.read(index) is None
    assert store.damaged == [index]
    assert index not in store.finished()
    assert (store.path / f"chunk-{index:06d}.damaged").read_bytes() == content
    store.write(index, simple(index))
    assert_same(store.read(index), simple(index))


@given(data=st.data())
def test_a_flipped_bit_anywhere_is_found(data):
    with tempfile.TemporaryDirectory() as directory:
        store = Store.open(directory, MANIFEST)
        store.write(1, simple(1))
        path = store.path / "chunk-000001.bin"
        content = bytearray(path.read_bytes())
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(content)
        assert_set_aside(store, 1, content)


@pytest.mark.parametrize("keep", [0, 1, 16, 80, 81, 150, -801, -800, -1])
def test_a_truncated_chunk_is_found(store, keep):
    store.write(0, simple(0))
    path = store.path / "chunk-000000.bin"
    content = path.read_bytes()[:keep]
    path.write_bytes(content)
    assert_set_aside(store, 0, content)


@pytest.mark.parametrize("content", [b"\0" * 5000, b"PK\x03\x04", b"vicheck chunk 1\n" * 20])
def test_what_is_not_a_chunk_is_found(store, content):
    (store.path / "chunk-000000.bin").write_bytes(content)
    assert_set_aside(store, 0, content)


def test_something_behind_a_chunk_is_found(store):
    store.write(0, simple(0))
    path = store.path / "chunk-000000.bin"
    content = path.read_bytes() + b"\0"
    path.write_bytes(content)
    assert_set_aside(store, 0, content)


def test_swapped_chunks_are_found(store):
    store.write(0, simple(0))
    store.write(1, simple(1))
    first, second = store.path / "chunk-000000.bin", store.path / "chunk-000001.bin"
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    assert store.read(0) is None
    assert store.read(1) is None
    assert store.damaged == [0, 1]
    assert store.finished() == set()


def test_a_chunk_of_another_run_is_found(store, tmp_path):
    other = Store.open(tmp_path / "other", {**MANIFEST, "seed": 2})
    other.write(0, simple(0))
    content = (other.path / "chunk-000000.bin").read_bytes()
    (store.path / "chunk-000000.bin").write_bytes(content)
    assert_set_aside(store, 0, content)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"'<f8'", b"'|O'"),  # whose numbers would be taken for addresses
        (b"'<f8'", b"'<O8'"),
        (b"'<f8'", b"'|V8'"),
        (b"'<f8'", b"'<M8'"),
        (b"'<f8'", b"'<f16'"),
        (b"(100,)", b"(-100,)"),
        (b"(100,)", b"(101,)"),
        (b"(100,)", b"(1000000000000000,)"),
        (b"(100,)", b"(4294967296, 4294967296)"),
    ],
)
def test_a_forged_chunk_with_the_right_checksum_is_damaged(store, old, new):
    store.write(0, simple(0))
    path = store.path / "chunk-000000.bin"
    content = path.read_bytes()
    path.write_bytes(mutations.forge(content, with_header("values", old, old)))
    assert_same(store.read(0), simple(0))  # it is the change that counts
    path.write_bytes(mutations.forge(content, with_header("values", old, new)))
    assert_set_aside(store, 0, path.read_bytes())


def test_writing_replaces_a_damaged_chunk_that_nobody_has_read(store):
    (store.path / "chunk-000000.bin").write_bytes(b"rubbish")
    store.write(0, simple(0))
    assert_same(store.read(0), simple(0))
    assert store.damaged == [0]


def test_a_chunk_that_cannot_be_renamed_is_removed(store, monkeypatch):
    (store.path / "chunk-000000.bin").write_bytes(b"rubbish")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse_with(errno.EACCES))
        assert store.read(0) is None
    assert store.damaged == [0]
    assert names(store.path) == ["manifest.json"]


# Kills


@pytest.mark.slow
def test_kill_in_the_midst_of_writing_leaves_only_whole_chunks(directory):
    """Kills, at times that differ, of a process that does nothing but write."""
    code = """
import sys
import numpy as np
store = Store.open(sys.argv[1], {"seed": 1})
index = 0
while True:
    store.write(index, {"values": np.full(200_000, float(index))})
    if index == int(sys.argv[2]):
        print("go", flush=True)
    index += 1
"""
    whole, interrupted = 0, 0
    for attempt in range(30):
        if attempt >= 6 and interrupted:
            break
        with child(code, directory, whole + 2) as process:
            assert process.stdout.readline() == "go\n"
            time.sleep(0.003 * (attempt % 6))
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        interrupted += len(temporaries(directory))
        for name in temporaries(directory):
            age(directory / name, 601.0)
        store = Store.open(directory, {"seed": 1})  # which removes leftovers that are old
        assert temporaries(directory) == []
        finished = store.finished()
        assert finished == set(range(len(finished)))
        assert len(finished) >= whole + 3
        for index in finished:
            np.testing.assert_array_equal(store.read(index)["values"], np.full(200_000, index))
        assert store.damaged == []
        whole = len(finished)
    assert interrupted > 0, "no kill came while a file was being written"


def test_an_interrupt_in_the_midst_of_writing_leaves_nothing(store, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.write(0, simple(0))
    assert names(store.path) == ["manifest.json"]


def test_a_chunk_is_on_disk_before_it_has_its_name(store, monkeypatch):
    """File, rename, directory: in any other order a power loss can leave an empty chunk."""
    order = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor):
        order.append("directory" if os.path.samestat(os.fstat(descriptor), here) else "file")
        fsync(descriptor)

    def record_replace(source, target):
        order.append("rename")
        replace(source, target)

    here = store.path.stat()
    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    store.write(0, simple(0))
    assert order == ["file", "rename", "directory"]


def test_leftovers_are_removed_when_they_are_old_and_not_before(directory, store):
    old, young = directory / ".00000000000000aa.tmp", directory / ".00000000000000bb.tmp"
    foreign = directory / "mine.tmp"
    for path in (old, young, foreign):
        path.write_bytes(b"half a chunk")
    age(old, 601.0)
    age(foreign, DEAD_LONG_AGO)
    assert Store.open(directory, MANIFEST).finished() == set()
    assert names(directory) == [young.name, "manifest.json", foreign.name]


# Disk full, read-only


def refuse_with(code):
    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    return refuse


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "free some space and run again: finished chunks are kept"),
        (errno.EDQUOT, "free some space and run again: finished chunks are kept"),
        (errno.EROFS, "check its permissions, or use a directory that you own"),
        (errno.EIO, "fix this and run again: finished chunks are kept"),
    ],
)
def test_a_refusal_names_file_reason_and_remedy(store, monkeypatch, function, code, advice):
    store.write(0, simple(0))
    with monkeypatch.context() as patch:
        patch.setattr(os, function, refuse_with(code))
        with pytest.raises(StoreError) as caught:
            store.write(1, simple(1))
    path = store.path / "chunk-000001.bin"
    assert str(caught.value) == f"cannot write {path}: {os.strerror(code)}: {advice}"
    assert names(store.path) == ["chunk-000000.bin", "manifest.json"]
    assert_same(store.read(0), simple(0))
    store.write(1, simple(1))
    assert_same(store.read(1), simple(1))


def test_a_real_limit_of_the_system_on_the_way(directory):
    """The system stops a write half way, as a full disk does."""
    code = """
import resource, sys
import numpy as np
from vicheck.errors import StoreError
store = Store.open(sys.argv[1], {"seed": 1})
store.write(0, {"values": np.zeros(1000)})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    store.write(1, {"values": np.zeros(100_000)})
except StoreError as error:
    print(error)
"""
    with child(code, directory) as process:
        output, _ = process.communicate(timeout=60)
    assert output.startswith(f"cannot write {directory / 'chunk-000001.bin'}: File too large: ")
    assert names(directory) == ["chunk-000000.bin", "manifest.json"]
    store = Store.open(directory, {"seed": 1})
    np.testing.assert_array_equal(store.read(0)["values"], np.zeros(1000))
    assert store.damaged == []


def test_a_file_system_that_cannot_flush_directories_will_do(store, monkeypatch):
    fsync = os.fsync

    def fsync_files(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync_files)
    store.write(0, simple(0))
    assert_same(store.read(0), simple(0))


def test_a_directory_that_has_gone(store):
    (store.path / "manifest.json").unlink()
    store.path.rmdir()
    assert store.read(0) is None
    assert store.claim(0)
    with pytest.raises(StoreError, match=r"cannot write .*chunk-000000\.bin: No such file"):
        store.write(0, simple(0))
    with pytest.raises(StoreError, match=r"cannot read .*: No such file"):
        store.finished()


@contextmanager
def refused_by_permissions(path):
    """Take away the permission to write; root, whom permissions do not bind, becomes nobody."""
    path.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        path.chmod(0o755)


@contextmanager
def refused_by_imitation(_):
    """Do as a file system that is mounted read-only does."""

    def open_to_read(path, mode="r", **options):
        if mode not in ("r", "rb"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return open(path, mode, **options)

    opened = os.open

    def open_descriptor_to_read(path, flags, *arguments, **options):
        if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return opened(path, flags, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "open", open_to_read, raising=False)
        patch.setattr(os, "open", open_descriptor_to_read)
        for function in ("link", "mkdir", "rename", "replace", "rmdir", "unlink", "utime"):
            patch.setattr(os, function, refuse_with(errno.EROFS))
        yield


@pytest.mark.parametrize("refused", [refused_by_permissions, refused_by_imitation])
def test_a_read_only_store_can_be_read_and_says_why_it_cannot_be_written(refused):
    # Not in tmp_path, which only its owner may enter.
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        directory = Path(parent) / "store"
        store = Store.open(directory, MANIFEST)
        store.write(0, simple(0))
        store.read(0)  # loads what reading needs while that can still be read
        (directory / "chunk-000001.bin").write_bytes(b"rubbish")
        (directory / "chunk-000003.claim").write_bytes(b"")
        leftover = directory / ".00000000000000aa.tmp"
        leftover.write_bytes(b"")
        age(leftover, DEAD_LONG_AGO)
        age(directory / "chunk-000003.claim", DEAD_LONG_AGO)
        before = names(directory)
        with refused(directory):
            store = Store.open(directory, MANIFEST)
            assert store.finished() == {0, 1}
            assert_same(store.read(0), simple(0))
            assert store.read(1) is None
            assert store.read(1) is None
            assert store.damaged == [1]
            for index in (1, 2, 3):
                if index != 1:
                    assert store.claim(index)  # not False, which would let the caller wait
                with pytest.raises(StoreError) as caught:
                    store.write(index, simple(index))
                message = str(caught.value)
                assert message.startswith(f"cannot write {directory / f'chunk-00000{index}.bin'}:")
                assert message.endswith("check its permissions, or use a directory that you own")
                store.release(index)
            with pytest.raises(StoreError, match=r"cannot write .*manifest\.json: "):
                Store.open(directory / "below", MANIFEST)
        assert names(directory) == before


# Claims


def test_a_claim_is_exclusive_until_it_is_released(directory, store):
    other = Store.open(directory, MANIFEST)
    assert store.claim(0)
    assert not store.claim(0)
    assert not other.claim(0)
    assert other.claim(1)
    other.release(0)  # not its own: nothing happens
    assert not other.claim(0)
    store.release(0)
    assert other.claim(0)


def test_a_finished_chunk_cannot_be_claimed(store):
    store.write(0, simple(0))
    assert not store.claim(0)
    assert names(store.path) == ["chunk-000000.bin", "manifest.json"]


def test_a_claim_lasts_as_long_as_its_block(directory, store):
    other = Store.open(directory, MANIFEST)
    with store.claiming(0) as claimed:
        assert claimed
        with other.claiming(0) as again:
            assert not again
        assert not other.claim(0)
    assert other.claim(0)


def test_a_claim_does_not_outlast_an_error(store):
    def fail():
        with store.claiming(0):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert store.claim(0)


def test_of_many_that_claim_at_once_one_succeeds(directory, store):
    stores = [Store.open(directory, MANIFEST) for _ in range(8)]
    rounds = 20
    barrier = threading.Barrier(len(stores))
    claimed = []

    def work(mine):
        for index in range(rounds):
            barrier.wait()
            if mine.claim(index):
                claimed.append(index)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == list(range(rounds))


def claim_in_child(directory, index):
    code = """
import sys, time
store = Store.open(sys.argv[1], {"seed": 1})
print(store.claim(int(sys.argv[2])), flush=True)
time.sleep(600)
"""
    return child(code, directory, index)


def test_a_dead_process_loses_its_claim_and_a_live_one_does_not(directory):
    store = Store.open(directory, {"seed": 1})
    with claim_in_child(directory, 0) as process:
        assert process.stdout.readline() == "True\n"
        assert not store.claim(0)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert store.claim(0)
        assert not Store.open(directory, {"seed": 1}).claim(0)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux tells them apart")
def test_a_dead_process_that_its_parent_has_not_waited_for_is_dead(directory):
    store = Store.open(directory, {"seed": 1})
    with claim_in_child(directory, 0) as process:
        assert process.stdout.readline() == "True\n"
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        os.kill(process.pid, 0)  # does not raise: the number is still taken
        assert store.claim(0)


def test_a_lock_of_the_dead_is_removed_on_opening_and_one_of_the_living_is_not(directory):
    with claim_in_child(directory, 0) as first, claim_in_child(directory, 1) as second:
        assert [each.stdout.readline() for each in (first, second)] == ["True\n", "True\n"]
        first.send_signal(signal.SIGKILL)
        first.wait()
        Store.open(directory, {"seed": 1})
        assert names(directory) == ["chunk-000001.claim", "manifest.json"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"host": "elsewhere", "pid": 1}', b"\0" * 10**6])
def test_what_a_file_of_a_claim_holds_does_not_matter(store, content):
    path = store.path / "chunk-000000.claim"
    path.write_bytes(content)
    age(path, -1e6)
    assert store.claim(0)
    store.release(0)
    assert names(store.path) == ["manifest.json"]


def test_a_claim_is_kept_however_long_it_takes(directory, store):
    """Unlike a lease, which a chunk of some hours would outlast."""
    assert store.claim(0)
    age(directory / "chunk-000000.claim", DEAD_LONG_AGO)
    assert not Store.open(directory, MANIFEST).claim(0)
    store.release(0)
    assert Store.open(directory, MANIFEST).claim(0)


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_where_there_are_no_locks_nobody_waits(directory, store, monkeypatch, code):
    """As on some file systems of clusters: chunks may then be done twice, and no file is left."""
    monkeypatch.setattr(fcntl, "flock", refuse_with(code))
    assert store.claim(0)
    assert Store.open(directory, MANIFEST).claim(0)
    store.write(0, simple(0))
    store.release(0)
    monkeypatch.undo()
    assert_same(Store.open(directory, MANIFEST).read(0), simple(0))
    assert names(directory) == ["chunk-000000.bin", "manifest.json"]


def test_a_child_does_not_keep_the_claims_of_its_parent(directory):
    """Workers that are forked outlive a parent that is killed."""
    code = """
import os, sys, time
store = Store.open(sys.argv[1], {"seed": 1})
claimed = store.claim(0)
reading, writing = os.pipe()
if os.fork() == 0:
    os.close(1)  # else the test would wait for this child too
    os.close(2)
    os.write(writing, b"x")  # here the claims of the parent are given up
    time.sleep(30)
    os._exit(0)
os.read(reading, 1)
print(claimed, flush=True)
time.sleep(600)
"""
    store = Store.open(directory, {"seed": 1})
    with child(code, directory) as process:
        assert process.stdout.readline() == "True\n"
        assert not store.claim(0)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert store.claim(0)


def test_two_processes_share_the_work_and_do_nothing_twice(directory):
    code = """
import sys, time
import numpy as np
store = Store.open(sys.argv[1], {"seed": 1})
print("ready", flush=True)
sys.stdin.readline()
done = []
while len(finished := store.finished()) < 40:
    for index in sorted(set(range(40)) - finished):
        with store.claiming(index) as claimed:
            if claimed:
                time.sleep(0.005)
                store.write(index, {"values": np.full(10, index)})
                done.append(index)
                # Whoever is first waits, so that both take part on however busy a machine.
                while len(done) == 1 and len(store.finished()) < 2:
                    time.sleep(0.001)
print(*done, flush=True)
"""
    with (
        child(code, directory, stdin=subprocess.PIPE) as first,
        child(code, directory, stdin=subprocess.PIPE) as second,
    ):
        both = (first, second)
        assert [process.stdout.readline() for process in both] == ["ready\n", "ready\n"]
        for process in both:
            process.stdin.write("go\n")
            process.stdin.flush()
        done = [process.communicate(timeout=60)[0].split() for process in both]
    assert all(done), "only one process has worked"
    assert sorted(map(int, done[0] + done[1])) == list(range(40))
    store = Store.open(directory, {"seed": 1})
    for index in range(40):
        np.testing.assert_array_equal(store.read(index)["values"], np.full(10, index))
    assert len(names(directory)) == 41
