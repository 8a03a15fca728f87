"""Compiled Stan programs: from which files they are made, and whose libraries are loaded."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import vicheck
from vicheck.adapters.stan import compiler
from vicheck.adapters.stan.bridge import Bridge
from vicheck.adapters.stan.compiler import compile_program, library_name, translate
from vicheck.adapters.stan.sources import CompiledProgram
from vicheck.errors import CacheWarning, ModelError

PROGRAM = Path(__file__).parents[2] / "docs" / "eight_schools.stan"
OURS = b"compiled here"
OPEN = "others could write to"


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A cache directory, and a compiler that takes no time."""

    def quick(path, code, directory, report):
        library = directory / "program.so"
        library.write_bytes(OURS)
        return library

    monkeypatch.setattr(compiler, "_compile", quick)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vicheck" / "stan"


@pytest.fixture
def planted(cache):
    """A library that somebody has put where that of the program will be looked for."""
    cache.mkdir(parents=True)
    path = cache / library_name(translate(PROGRAM))
    path.write_bytes(b"planted")
    return path


def test_a_name_that_begins_with_a_dash_is_no_option(tmp_path):
    for name in ("x.stan", "-x.stan", "--version.stan"):
        shutil.copy(PROGRAM, tmp_path / name)
    expected = translate(tmp_path / "x.stan")
    assert "'x.stan', line" in expected
    for name in ("-x.stan", "--version.stan"):
        assert translate(tmp_path / name).replace(f"'{name}'", "'x.stan'") == expected


def test_a_program_is_found_behind_a_link(tmp_path):
    (tmp_path / "link.stan").symlink_to(PROGRAM)
    assert "'link.stan', line" in translate(tmp_path / "link.stan")


def test_a_library_is_kept_for_the_user_alone_and_used_again(cache, monkeypatch):
    library = compile_program(PROGRAM)
    assert library.parent == cache
    assert library.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(compiler, "_compile", lambda *_: pytest.fail("it is there"))
    assert compile_program(PROGRAM) == library


@pytest.mark.parametrize("part", ["directory", "above"])
def test_a_library_in_a_directory_that_others_can_write_to_is_not_used(planted, part):
    (planted.parent if part == "directory" else planted.parents[1]).chmod(0o777)
    with pytest.warns(CacheWarning, match=OPEN):
        library = compile_program(PROGRAM)
    assert library.read_bytes() == OURS
    assert library.parent.stat().st_mode & 0o777 == 0o700
    assert planted.read_bytes() == b"planted"
    assert library != planted


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("part", ["directory", "library"])
def test_a_library_of_somebody_else_is_not_used(planted, part):
    if part == "directory":
        os.chown(planted.parent, 12345, 12345)
        with pytest.warns(CacheWarning, match=OPEN):
            library = compile_program(PROGRAM)
    else:
        os.chown(planted, 12345, 12345)
        library = compile_program(PROGRAM)
        assert library == planted
    assert library.read_bytes() == OURS


def test_a_library_that_others_can_write_is_made_again(planted):
    planted.chmod(0o777)
    assert compile_program(PROGRAM).read_bytes() == OURS


def test_without_a_home_it_is_compiled_for_this_process(cache, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/nonexistent")
    with pytest.warns(CacheWarning, match="no home directory: set XDG_CACHE_HOME"):
        library = compile_program(PROGRAM)
    assert library.read_bytes() == OURS


def test_a_library_that_others_could_have_written_does_not_run(tmp_path):
    """The last door: whatever led to the path, nothing of it is executed."""
    compiled, marker = tmp_path / "code.so", tmp_path / "it-ran"
    source = tmp_path / "code.cpp"
    source.write_text(
        "#include <cstdio>\n__attribute__((constructor)) static void run() "
        f'{{ std::fclose(std::fopen("{marker}", "w")); }}\n'
    )
    subprocess.run(["g++", "-shared", "-fPIC", "-o", compiled, source], check=True)
    compiled.chmod(0o700)
    tmp_path.chmod(0o777)
    with pytest.raises(ModelError, match="others could have written it"):
        Bridge(str(compiled), {})
    assert not marker.exists()
    tmp_path.chmod(0o700)
    with pytest.raises(AttributeError, match="vicheck_message"):  # it is no Stan program
        Bridge(str(compiled), {})
    assert marker.exists()


def test_bridgestan_is_not_asked_where_others_can_put_a_library(tmp_path, monkeypatch):
    asked = []
    fake = SimpleNamespace(compile_model=lambda path: asked.append(path) or "library.so")
    monkeypatch.setitem(sys.modules, "bridgestan", fake)
    monkeypatch.setattr("vicheck.adapters.stan.sources._has_bridgestan", lambda: True)
    shutil.copy(PROGRAM, tmp_path / "x.stan")
    tmp_path.chmod(0o777)
    with pytest.raises(ModelError, match=f"{OPEN} {tmp_path}, where BridgeStan keeps"):
        vicheck.from_stan(tmp_path / "x.stan")
    assert asked == []


def test_a_library_belongs_to_one_place_of_stans_own(monkeypatch, tmp_path):
    """It loads them from there: another environment makes one of its own, of the same program."""
    code = translate(PROGRAM)
    here = library_name(code)
    monkeypatch.setattr("vicheck.adapters.stan.compiler._home", lambda: tmp_path)
    assert library_name(code) != here
    one, other = (CompiledProgram(f"{tmp_path}/{name}") for name in (here, library_name(code)))
    assert one.identity == other.identity
