"""Data files: what is read, and what is said of what cannot be."""

import io
import json

import numpy as np
import pytest

from vicheck.adapters.data_files import read_data
from vicheck.errors import InputFileError


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "BOM"])
def test_json(tmp_path, mark):
    values = {"n": 3, "s": 2.5, "flag": True, "y": [1, 0, 1], "x": [[1.0, 2], [3, 4]], "e": []}
    found = read_data(write(tmp_path, "d.json", mark + json.dumps(values)))
    assert list(found) == list(values)
    assert [type(found[key]) for key in ("n", "s", "flag")] == [int, float, bool]
    assert found["y"].dtype == np.int64
    assert found["x"].dtype == np.float64
    for name, value in values.items():
        np.testing.assert_array_equal(found[name], value)


def test_json_lets_nan_through(tmp_path):
    found = read_data(write(tmp_path, "d.json", '{"y": [1.0, NaN]}'))
    np.testing.assert_array_equal(found["y"], [1.0, np.nan])


def test_npz(tmp_path):
    arrays = {"X": np.ones((3, 2)), "y": np.array([True, False]), "n": np.array(3)}
    found = read_data(str(write(tmp_path, "D.NPZ", npz(**arrays))))
    np.testing.assert_array_equal(found["X"], arrays["X"])
    assert found["y"].dtype == bool
    assert found["n"] == 3
    assert isinstance(found["n"], int)


CSV_FILES = {
    "plain": "y,x\n1,0.5\n2,-1e3\n",
    "no end": "y,x\n1,0.5\n2,-1e3",
    "BOM and CRLF": "\ufeffy,x\r\n1,0.5\r\n2,-1e3\r\n",
    "quoted": '"y" , "x"\n"1","0.5"\n2, "-1e3"\n',
    "comments": "# made by hand\ny,x\n\n1,0.5\n  # a remark\n2,-1e3\n",
    "row names": '"","y","x"\n"1",1,0.5\n"b",2,-1e3\n',
}


@pytest.mark.parametrize("case", CSV_FILES)
def test_csv(case, tmp_path):
    found = read_data(write(tmp_path, "d.csv", CSV_FILES[case]))
    assert list(found) == ["y", "x"]
    assert found["y"].dtype == np.int64
    np.testing.assert_array_equal(found["y"], [1, 2])
    np.testing.assert_array_equal(found["x"], [0.5, -1000.0])


def test_csv_of_huge_integers_and_nan(tmp_path):
    found = read_data(write(tmp_path, "d.csv", "y,x\n1,nan\n99999999999999999999,inf\n"))
    assert found["y"].dtype == np.float64
    np.testing.assert_array_equal(found["x"], [np.nan, np.inf])


DATA_ERRORS = {
    "suffix": ("d.txt", "1", "d.txt must end in one of .json, .npz, .csv"),
    "broken JSON": ("d.json", "{", "d.json is not readable JSON: "),
    "JSON of bytes": ("d.json", b"\xff\xfe", "is not readable JSON"),
    "deep JSON": ("d.json", "[" * 200_000, "is not readable JSON"),
    "JSON list": ("d.json", "[1]", "must hold an object of names and values, got a list"),
    "JSON number": ("d.json", "1", "must hold an object of names and values, got a number"),
    "JSON twice": ("d.json", '{"y": 1, "y": 2}', "has 2 entries called 'y'"),
    "JSON empty": ("d.json", "{}", "holds no data"),
    "ragged": ("d.json", '{"y": [[1, 2], [3]]}', "lists in 'y' differ in length or depth"),
    "mixed depth": ("d.json", '{"y": [[1], 2]}', "lists in 'y' differ in length or depth"),
    "strings": ("d.json", '{"x": 1, "y": [1, "a"]}', "'y' must hold numbers only, got \"a\""),
    "nested": ("d.json", '{"y": [[1, null]]}', "'y' must hold numbers only, got null"),
    "huge": ("d.json", '{"y": [1, 9223372036854775808000]}', "'y' must hold numbers only, got 92"),
    "string": ("d.json", '{"y": "a"}', "'y' must be a number or a list of numbers, got a string"),
    "null": ("d.json", '{"y": null}', "'y' must be a number or a list of numbers, got null"),
    "object": ("d.json", '{"y": {"a": 1}}', "'y' must be a number .* got an object"),
    "no npz": ("d.npz", "hello", "is not a readable .npz file"),
    "empty npz": ("d.npz", b"", "is not a readable .npz file"),
    "npy": ("d.npz", npy(np.ones(3)), "holds one array without a name: write it with numpy.savez"),
    "cut npz": ("d.npz", npz(y=np.ones(99))[:200], "is not a readable .npz file"),
    "pickle": ("d.npz", npz(y=np.array([{}])), "'y' holds Python objects, which are not read"),
    "text array": ("d.npz", npz(y=np.array(["a"])), "'y' must hold numbers, got type <U1"),
    "complex": ("d.npz", npz(y=np.ones(2) * 1j), "'y' must hold numbers, got type complex128"),
    "empty csv": ("d.csv", "", "must hold a header and at least one row, got 0 lines"),
    "only a header": ("d.csv", "y,x\n", "must hold a header and at least one row, got 1 lines"),
    "no header": ("d.csv", "1,2\n3,4\n", "must start with a line of names, got '1' in it"),
    "columns twice": ("d.csv", "y,y\n1,2\n", "has 2 columns called 'y'"),
    "no column name": ("d.csv", "y,,x\n1,2,3\n", "column 2 has no name"),
    "short line": ("d.csv", "y,x\n1,2\n\n3\n", "line 4: expected 2 values, got 1"),
    "text cell": ("d.csv", "y,x\n1,2\n1,NA\n", "line 3, column 'x': 'NA' is not a number"),
    "underscore": ("d.csv", "y\n1_000\n", "line 2, column 'y': '1_000' is not a number"),
    "empty cell": ("d.csv", "y,x\n1,\n", "line 2, column 'x': the cell is empty"),
    "binary csv": ("d.csv", b"y\n\xff\xfe\n", "is no text: it starts with"),
}


@pytest.mark.parametrize("case", DATA_ERRORS)
def test_errors_of_read_data(case, tmp_path):
    name, content, message = DATA_ERRORS[case]
    path = write(tmp_path, name, content)
    with pytest.raises(InputFileError, match=message):
        read_data(path)


@pytest.mark.parametrize("suffix", [".json", ".csv"])
def test_forty_thousand_names_are_no_burden(tmp_path, suffix):
    names = [f"name_{number}" for number in range(40_000)]
    content = {
        ".json": lambda: json.dumps(dict.fromkeys(names, 1)),
        ".csv": lambda: ",".join(names) + "\n" + ",".join("1" * len(names)),
    }
    path = write(tmp_path, f"many{suffix}", content[suffix]())
    assert list(read_data(path)) == names
    repeated = content[suffix]().replace("name_39999", "name_7")
    with pytest.raises(InputFileError, match=r"has 2 (entries|columns) called 'name_7'"):
        read_data(write(tmp_path, f"twice{suffix}", repeated))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_data(tmp_path / "absent.json")
