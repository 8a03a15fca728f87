"""Files of vicheck's own: the same bits for the same content, and nothing else is taken."""

import io
import json
import zipfile

import numpy as np
import pytest

from tests.fuzzing.mutations import forge, mend_arrays, with_header
from vicheck.errors import UnreadableError
from vicheck.results.archive import decode_arrays, encode_arrays

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
    "no array": (lambda members: members | {"x.npy": b"x"}, "is no array of NumPy's"),
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
