import sys

import pytest

from vicheck.adapters.model_files import load_model_function
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
