"""Two states of the code have two digests, wherever they are installed."""

import shutil
import zipfile
from pathlib import Path

import pytest

import vicheck
from vicheck.runtime.sources import _digest_of, digest_of_sources

PACKAGE = Path(vicheck.__file__).parent


@pytest.fixture
def copy(tmp_path):
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(PACKAGE, tmp_path / "vicheck", ignore=ignored))


def test_a_copy_is_the_same_code(copy):
    assert _digest_of(copy) == digest_of_sources()


@pytest.mark.parametrize("name", ["vi/fitting.py", "adapters/stan/bridge.cpp"])
def test_a_changed_character_is_other_code(copy, name):
    path = copy / name
    path.write_text(path.read_text() + " ")
    assert _digest_of(copy) != digest_of_sources()


def test_a_module_that_comes_goes_or_moves_is_other_code(copy):
    seen = {digest_of_sources()}
    (copy / "more.py").write_text("")
    seen.add(_digest_of(copy))
    (copy / "more.py").rename(copy / "less.py")
    seen.add(_digest_of(copy))
    (copy / "less.py").unlink()
    (copy / "nuts.py").unlink()
    seen.add(_digest_of(copy))
    assert len(seen) == 4


def test_what_is_no_code_does_not_count(copy):
    (copy / "notes.txt").write_text("x")
    (copy / "__pycache__").mkdir(exist_ok=True)
    (copy / "__pycache__" / "model.cpython-311.pyc").write_bytes(b"x")
    assert _digest_of(copy) == digest_of_sources()


def test_a_zip_file_is_the_same_code(copy, tmp_path):
    shutil.make_archive(str(tmp_path / "package"), "zip", copy)
    assert _digest_of(zipfile.Path(tmp_path / "package.zip")) == digest_of_sources()


def test_without_sources_the_compiled_code_counts_and_its_times_do_not(tmp_path):
    path = tmp_path / "model.pyc"
    digests = []
    for header, code in ((b"0" * 16, b"a"), (b"1" * 16, b"a"), (b"0" * 16, b"b")):
        path.write_bytes(header + code)
        digests.append(_digest_of(tmp_path))
    assert digests[0] == digests[1] != digests[2]
