"""Compiled code that the command line keeps."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.command_line import call
from vicheck.cli.caching import keep_compiled_code

NAME = "JAX_COMPILATION_CACHE_DIR"


@pytest.fixture(autouse=True)
def _environment(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    os.environ.pop(NAME, None)
    os.environ["XDG_CACHE_HOME"] = str(tmp_path)


def test_it_is_kept_in_the_users_cache_directory(tmp_path):
    keep_compiled_code()
    (directory,) = (tmp_path / "vicheck").iterdir()
    assert os.environ[NAME] == str(directory)
    assert directory.name.startswith("xla-")


def test_its_size_is_bounded():
    keep_compiled_code()
    assert int(os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"]) == 2**28
    assert find_spec("filelock")  # without which JAX refuses a bound


def test_nothing_is_taken_from_where_others_can_write(tmp_path):
    keep_compiled_code()
    Path(os.environ.pop(NAME)).chmod(0o777)
    keep_compiled_code()
    assert NAME not in os.environ


def test_who_has_chosen_a_directory_is_obeyed(tmp_path):
    os.environ[NAME] = ""
    keep_compiled_code()
    assert os.environ[NAME] == ""
    assert not list(tmp_path.iterdir())


def test_half_an_entry_of_a_killed_process_is_removed(tmp_path):
    """JAX bounds the size by times of use, and writes nothing when one of them is missing."""
    keep_compiled_code()
    (directory,) = (tmp_path / "vicheck").iterdir()
    for name in ("half-cache", "whole-cache", "whole-atime", "fresh-cache"):
        (directory / name).touch()
        if name != "fresh-cache":
            os.utime(directory / name, (0, 0))
    os.environ.pop(NAME)
    keep_compiled_code()
    left = sorted(path.name for path in directory.iterdir())
    assert left == ["fresh-cache", "whole-atime", "whole-cache"]


def test_no_home_is_no_error(monkeypatch):
    monkeypatch.setattr("vicheck.runtime.cache.cache_directory", lambda: None)
    keep_compiled_code()
    assert NAME not in os.environ


def test_without_a_directory_nothing_is_kept(tmp_path):
    (tmp_path / "vicheck").write_text("a file in the way")
    keep_compiled_code()
    assert NAME not in os.environ
    done = call("psis", "--help")
    assert done.returncode == 0
