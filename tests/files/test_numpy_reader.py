"""NumPy's files, of strangers: what NumPy writes is read, and traps are seen before they shut."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from vicheck.errors import UnreadableError
from vicheck.files.numpy_reader import NpzFile, read_npy


def npy(array, **options):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(array), **options)
    return stream.getvalue()


def claiming(shape, dtype="<f8"):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(800)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(4, dtype=">i2"),
        np.array(True),
        np.zeros((0, 3)),
        np.zeros((3, 0), np.float32),
        np.array([1j]),
        np.array(["a", "bcd", ""]),
        np.array([b"a", b"bc"]),
        np.arange(3, dtype=np.longdouble),
    ],
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_what_numpy_writes_is_read(array, version):
    found = read_npy(npy(array, version=version))
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype.newbyteorder("=")
    assert found.shape == array.shape
    assert found.flags.writeable


def test_headers_of_other_writers_are_read():
    for text in ("(3,)", "(3L,)", "(3, )", "(1,3,)"):
        assert read_npy(claiming(text)).size == 3


@pytest.mark.parametrize(
    "content",
    [
        claiming("(1000000000000000,)"),  # 8 PB
        claiming("(9223372036854775807, 2)"),
        claiming("(4294967296, 4294967296)"),
        claiming("(101,)"),
        claiming("(2,)", "<U99999999"),
    ],
)
def test_a_claim_beyond_the_file_is_refused_before_memory_is_taken(content):
    tracemalloc.start()
    with pytest.raises(UnreadableError, match=r"claims to hold .* 800 are there"):
        read_npy(content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00\xff\xff{",
        b"\x93NUMPY\x03\x00" + claiming("(3,)")[8:],
        claiming("(3,)", "|O"),
        claiming("(0, 99999999999999999999)"),
        claiming("(" + "1, " * 70 + ")"),
        claiming("__import__('os')"),
        npy(np.array([{}]), allow_pickle=True),
        npy(np.zeros(2, [("a", float)])),
    ],
)
def test_other_headers_are_refused(content):
    with pytest.raises(UnreadableError):
        read_npy(content)


def archive(kind, **members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", kind) as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content)
    return stream.getvalue()


def test_compressed_arrays_are_read_unless_they_are_a_trap(monkeypatch):
    zeros = npy(np.zeros(200_000))
    content = archive(zipfile.ZIP_DEFLATED, x=zeros, y=zeros)
    assert len(content) * 100 < len(zeros)
    assert NpzFile(content).read("x").size == 200_000
    monkeypatch.setattr("vicheck.files.numpy_reader._MOST_EXPANDED", 1_700_000)
    file = NpzFile(content)
    assert file.read("x").size == 200_000
    with pytest.raises(UnreadableError, match=r"expands from .* to 1600128 bytes.*numpy\.savez"):
        file.read("y")  # both together are too much


def test_a_size_that_lies_does_not_help(monkeypatch):
    content = bytearray(archive(zipfile.ZIP_DEFLATED, x=npy(np.zeros(200_000))))
    size = (1_600_128).to_bytes(4, "little")
    assert content.count(size) == 2
    for _ in range(2):
        at = content.index(size)
        content[at : at + 4] = (100_000).to_bytes(4, "little")
    with pytest.raises(UnreadableError):
        NpzFile(bytes(content)).read("x")


def test_other_archives_are_refused():
    for kind in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with pytest.raises(UnreadableError, match="compressed in a way that NumPy does not use"):
            NpzFile(archive(kind, x=npy(np.ones(3)))).read("x")
    with pytest.raises(UnreadableError, match=r"has no member 'y\.npy'"):
        NpzFile(archive(zipfile.ZIP_STORED, x=npy(np.ones(3)))).read("y")
    with pytest.raises(UnreadableError, match="cannot be read"):
        NpzFile(b"PK\x03\x04")
