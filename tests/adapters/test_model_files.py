import io
import json
import sys

import numpy as np
import pytest

from vicheck.adapters.model_files import load_model_function, read_data
from vicheck.errors import InputFileError
from vicheck.model import Model

SOURCE = """
from __future__ import annotations
from dataclasses import dataclass
from helper_of_model import SCALE
from math import sqrt
import numpy as np
from vicheck.adapters.log_density import from_log_density

@dataclass
class Options:
    scale: float = SCALE

def model(y=None):
    return Options().scale

def other(y=None):
    return "other"

def _private():
    pass

made = from_log_density(lambda x: -x @ x, np.zeros(2))
number = 3
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "models.py").write_text(SOURCE)
    (tmp_path / "helper_of_model.py").write_text("SCALE = 2.5\n")
    package = tmp_path / "some_package_of_models"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "schools.py").write_text("def model():\n    return 'schools'\n")
    (package / "broken.py").write_text("import numpy\n1 / 0\n")
    (package / "lacking.py").write_text("import a_module_that_is_absent\n")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if "of_model" in name or name.startswith("vicheck_program_"):
            del sys.modules[name]


def test_a_function_of_a_file(folder):
    path = list(sys.path)
    assert load_model_function(f"{folder}/models.py:other")() == "other"
    assert load_model_function(f"{folder}/models.py")() == 2.5
    assert isinstance(load_model_function(f"{folder}/models.py:made"), Model)
    assert sys.path == path


def test_a_file_of_the_current_directory(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert load_model_function("models.py:other")() == "other"


def test_a_function_of_a_module(folder, monkeypatch):
    path = list(sys.path)
    monkeypatch.chdir(folder)
    assert load_model_function("some_package_of_models.schools")() == "schools"
    found = load_model_function("vicheck.paper.models:eight_schools_centred")
    assert found.__name__ == "eight_schools_centred"
    assert sys.path == path


def test_the_path_is_restored_after_a_failure(folder):
    path = list(sys.path)
    (folder / "bad.py").write_text("raise KeyError('no')\n")
    with pytest.raises(InputFileError):
        load_model_function(f"{folder}/bad.py")
    assert sys.path == path
    assert "vicheck_program_bad" not in sys.modules


LOAD_ERRORS = {
    "no file": ("absent.py:model", "absent.py does not exist: expected a Python file"),
    "directory": ("./some_package_of_models:model", "is a directory: expected a Python file"),
    "not Python": ("./notes.txt:model", "is no Python file: expected a name that ends in .py"),
    "no module": ("a_module_that_is_absent:model", "no module 'a_module_that_is_absent'"),
    "no submodule": ("some_package_of_models.x:f", "no module 'some_package_of_models.x'"),
    "no name": ("models.py:nothing", "has no 'nothing': it has model, other$"),
    "no functions": ("empty.py", "has no 'model': it has no public functions"),
    "not a function": ("models.py:number", "must be a function .* got int: it has model, other"),
    "empty name": ("models.py:", "names no model: expected path/to/file.py:name"),
    "empty": ("", "names no model"),
    "odd name": ("models.py:a b", "names no model"),
    "raises": ("raises.py", "importing raises.py failed at line 3: ValueError: seven"),
    "raises below": ("calls.py", "importing calls.py failed at line 2: .*Error: .*negative"),
    "syntax": ("syntax.py", "importing syntax.py failed at line 2: SyntaxError: "),
    "exits": ("exits.py", "importing exits.py failed at line 2: SystemExit: 3"),
    "import": ("lacks.py", "importing lacks.py failed at line 1: ModuleNotFoundError: .*absent"),
    "broken module": (
        "some_package_of_models.broken",
        r"importing some_package_of_models.broken failed at line 2 of .*broken.py: ZeroDivision",
    ),
    "module lacks": (
        "some_package_of_models.lacking",
        "lacking failed at line .* ModuleNotFoundError: .*'a_module_that_is_absent'",
    ),
}


@pytest.mark.parametrize("case", LOAD_ERRORS)
def test_errors_of_load_model_function(case, folder, monkeypatch):
    monkeypatch.chdir(folder)
    files = {
        "raises.py": "def f():\n    pass\nraise ValueError('seven')\n",
        "calls.py": "import numpy as np\nnp.random.default_rng(-1)\n",
        "syntax.py": "x = 1\ndef f(:\n",
        "exits.py": "import sys\nsys.exit(3)\n",
        "lacks.py": "import a_module_that_is_absent\n",
        "empty.py": "",
        "notes.txt": "",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    spec, message = LOAD_ERRORS[case]
    with pytest.raises(InputFileError, match=message):
        load_model_function(spec)


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
