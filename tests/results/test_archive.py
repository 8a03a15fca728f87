"""Files of vicheck's own: the same bits for the same content, and nothing else is taken."""

import io
import json
import zipfile
from dataclasses import dataclass, replace

import numpy as np
import pytest

import vicheck
from tests.calibration.made import calibration
from tests.fuzzing.mutations import forge, mend_arrays, with_header
from vicheck.errors import InputFileError, UnreadableError
from vicheck.results.archive import ArchiveFormat, decode_arrays, encode_arrays
from vicheck.results.record import Record

ARRAYS = {
    "b": np.array([True, False]),
    "f": np.array([[0.5, np.nan], [-0.0, np.inf]]),
    "i": np.array(-3),
    "t": np.array(["", "θ", "a longer one"]),
    "u": np.arange(3, dtype=">u2"),
}
DESCRIPTION = {"kind": "test", "nothing": None, "names": ["a", "\u1f986"], "deep": {"x": [1.5]}}


def forged(change, **options):
    return forge(encode_arrays(ARRAYS, DESCRIPTION), change, **options)


def header(old, new):
    return with_header("f", old, new)


def with_description(value):
    return lambda members: members | {"description.json": value.encode()}


def test_content_comes_back():
    description, arrays = decode_arrays(encode_arrays(ARRAYS, DESCRIPTION))
    assert description == DESCRIPTION
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype.newbyteorder("=")
        assert arrays[name].shape == array.shape


def test_numpy_reads_it_too():
    with np.load(io.BytesIO(encode_arrays(ARRAYS, DESCRIPTION))) as file:
        np.testing.assert_array_equal(file["f"], ARRAYS["f"])
        assert file["t"].tolist() == ARRAYS["t"].tolist()
        assert json.loads(file["description.json"]) == DESCRIPTION


def test_the_same_content_gives_the_same_bits():
    same = {name: ARRAYS[name].copy(order="F") for name in reversed(ARRAYS)}
    assert encode_arrays(same, DESCRIPTION) == encode_arrays(ARRAYS, DESCRIPTION)


def test_what_cannot_be_printed_is_replaced():
    """Python has names of files that are no UTF-8 with halves of characters."""
    content = encode_arrays({"x": np.array(["a\udcff", "b"])}, {"title": "\udcffx"})
    description, arrays = decode_arrays(content)
    assert description == {"title": "?x"}
    assert arrays["x"].tolist() == ["a?", "b"]


def test_a_forgery_that_changes_nothing_is_read():
    """So that the refusals below are for what was changed."""
    assert decode_arrays(forged(lambda members: members))[0] == DESCRIPTION


REFUSED = {
    "objects": (header(b"'<f8'", b"'|O'"), "holds Python objects"),
    "objects of 8 bytes": (header(b"'<f8'", b"'<O8'"), "holds Python objects"),
    "records": (header(b"'<f8'", b"[('a', '<f8')]"), "not that of plain numbers or text"),
    "void": (header(b"'<f8'", b"'|V8'"), "neither numbers nor text"),
    "dates": (header(b"'<f8'", b"'<M8'"), "neither numbers nor text"),
    "long doubles": (header(b"'<f8', 'f", b"'<f16', 'f"), "claims to hold 64 bytes"),
    "negative": (header(b"(2, 2)", b"(-2, 2)"), "not that of plain numbers or text"),
    "8 PB": (header(b"(2, 2)", b"(1000000000000000,)"), "claims to hold 8000000000000000 "),
    "overflow": (header(b"(2, 2)", b"(4294967296, 4294967296)"), "claims to hold"),
    "too wide": (header(b"(2, 2)", b"(99999999999999999999999999,)"), "claims to hold"),
    "no text": (header(b"'<f8'", b"'<U0'"), "neither numbers nor text"),
    "no letters": (header(b"'<f8'", b"'<U2'"), "characters that do not exist"),
    "other member": (lambda members: members | {"x.txt": b"x"}, "other members"),
    "no array": (lambda members: members | {"x.npy": b"x"}, "is not a NumPy array"),
    "no description": (lambda members: {"f.npy": members["f.npy"]}, "other members"),
    "a list": (with_description("[]"), "no object for its description"),
    "no JSON": (with_description("{"), "not readable JSON"),
    "deep": (with_description('{"a":' + "[" * 60 + "]" * 60 + "}"), "nested more than 50"),
    "deeper": (with_description('{"a":' + "[" * 10**5 + "]" * 10**5 + "}"), "not readable JSON"),
    "huge": (with_description('{"a": ' + "9" * 400 + "}"), "too large"),
    "more than huge": (with_description('{"a": ' + "9" * 5000 + "}"), "not readable JSON"),
    "half a character": (with_description('{"a": "\\ud800"}'), "half a character"),
    "half a character in a name": (with_description('{"\\udfff": 1}'), "half a character"),
    "twice": (with_description('{"a": 1, "a": 2}'), "has 2 entries called 'a'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_forgery_with_the_right_checksum_is_refused(case):
    change, message = REFUSED[case]
    with pytest.raises(UnreadableError, match=message):
        decode_arrays(forged(change))


def test_compressed_files_are_refused():
    with pytest.raises(UnreadableError, match="other members"):
        decode_arrays(forged(lambda members: members, compression=zipfile.ZIP_DEFLATED))


@pytest.mark.parametrize("content", [b"", b"PK", b"vicheck sha256 ", b"0" * 64, b"x" * 500])
def test_other_content_is_refused(content):
    with pytest.raises(UnreadableError, match="has a wrong checksum"):
        decode_arrays(content)
    with pytest.raises(UnreadableError):
        decode_arrays(mend_arrays(content))


@pytest.mark.parametrize("array", [np.array([None]), np.array([1j]), np.array(["a"], "S1")])
def test_only_what_can_be_read_is_written(array):
    with pytest.raises(TypeError, match=r"arrays\['x'\] must hold booleans, integers, floats or s"):
        encode_arrays({"x": array}, {})


def some_check():
    z = np.random.default_rng(1).normal(size=(200, 1))
    log_q = -0.5 * z[:, 0] ** 2
    return vicheck.check_draws({"x": z[:, 0]}, log_q, log_q)


@pytest.mark.parametrize("made", [some_check, calibration], ids=["check", "calibration"])
@pytest.mark.parametrize("method", ["save", "report"])
@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, made, method, function):
    """Results and pages are written under another name, and renamed when they are complete."""
    path = tmp_path / "result"
    path.write_bytes(b"what was there before")

    def refuse(*_):
        raise OSError(28, "No space left on device")

    result = made()
    monkeypatch.setattr(f"vicheck.files.durable.os.{function}", refuse)
    with pytest.raises(OSError, match="No space left"):
        getattr(result, method)(path)
    assert path.read_bytes() == b"what was there before"
    assert [each.name for each in tmp_path.iterdir()] == ["result"]
    monkeypatch.undo()
    getattr(result, method)(path)
    assert len(path.read_bytes()) > 1000


@dataclass(frozen=True, eq=False, repr=False)
class Two(Record):
    """A result of two fields."""

    name: str
    size: int


FORMAT = ArchiveFormat("pair", 1, Two)


def test_a_record_and_its_arrays_come_back(tmp_path):
    FORMAT.save(tmp_path / "file", Two("a", 3), {"x": np.arange(3)})
    record, arrays = FORMAT.load(tmp_path / "file", lambda *both: both)
    assert record.to_dict() == {"name": "a", "size": 3}
    assert arrays["x"].tolist() == [0, 1, 2]


def refuse_all(record, arrays):
    raise ValueError("nothing fits")


@pytest.mark.parametrize(
    ("other", "build", "message"),
    [
        (replace(FORMAT, kind="triple"), tuple, "is not a triple that vicheck has saved"),
        (replace(FORMAT, version=2), tuple, "has format 1, this version reads 2"),
        (FORMAT, refuse_all, "is not a pair that this version of vicheck has saved: nothing fits"),
    ],
)
def test_what_is_of_another_kind_or_does_not_fit_is_refused(tmp_path, other, build, message):
    FORMAT.save(tmp_path / "file", Two("a", 3), {})
    with pytest.raises(InputFileError, match=message):
        other.load(tmp_path / "file", build)
