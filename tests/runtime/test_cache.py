"""Where compiled code is cached, and when it is safe to load."""

import os
import stat
import subprocess
import sys

import pytest

from vicheck.errors import CacheError
from vicheck.runtime.cache import cache_directory, is_private, private_directory

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
SOMEBODY = 12345


@pytest.fixture
def base(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def refused(part):
    return pytest.raises(CacheError, match=f"others could write to {part}$|{part}: take away write")


def test_directories_are_private_to_the_user(base):
    before = os.umask(0)
    try:
        directory = private_directory("stan")
    finally:
        os.umask(before)
    assert directory == base / "vicheck" / "stan"
    for part in (directory, directory.parent, base):
        assert stat.S_IMODE(part.stat().st_mode) == 0o700
    assert private_directory("stan") == directory


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
@pytest.mark.parametrize("part", ["vicheck/stan", "vicheck"])
def test_a_directory_that_others_can_write_to_is_refused(base, part, mode):
    private_directory("stan")
    (base / part).chmod(mode)
    with refused(base / part):
        private_directory("stan")


def test_a_directory_that_others_can_replace_is_refused(base):
    private_directory("stan")
    base.chmod(0o777)
    with refused(base):
        private_directory("stan")
    base.chmod(0o1777)  # like /tmp: nobody can replace what belongs to others
    private_directory("stan")
    base.chmod(0o755)
    private_directory("stan")


@ROOT
@pytest.mark.parametrize("part", ["vicheck/stan", "vicheck", ""])
def test_a_directory_owned_by_somebody_else_is_refused(base, part):
    private_directory("stan")
    os.chown(base / part, SOMEBODY, SOMEBODY)
    with refused(base / part):
        private_directory("stan")


@ROOT
def test_nothing_is_created_in_a_directory_owned_by_somebody_else(base):
    base.mkdir()
    os.chown(base, SOMEBODY, SOMEBODY)
    with refused(base):
        private_directory("stan")
    assert not list(base.iterdir())


def test_a_link_is_judged_by_where_it_leads(base, tmp_path):
    for name, mode in (("mine", 0o700), ("open", 0o777)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    base.mkdir()
    (base / "vicheck").symlink_to(tmp_path / "mine")
    assert private_directory("stan") == tmp_path / "mine" / "stan"
    (base / "vicheck").unlink()
    (base / "vicheck").symlink_to(tmp_path / "open")
    with refused(tmp_path / "open"):
        private_directory("stan")


@pytest.mark.parametrize("kind", ["a file", "links in a circle"])
def test_anything_in_the_way_is_reported(base, kind):
    base.mkdir()
    if kind == "a file":
        (base / "vicheck").write_text("")
    else:
        (base / "vicheck").symlink_to("vicheck")
    with pytest.raises(CacheError, match="compiled code is not kept in"):
        private_directory("stan")


def test_a_file_is_private_when_only_the_user_can_write_it(tmp_path):
    path = tmp_path / "code.so"
    assert not is_private(path)
    path.write_bytes(b"")
    for mode, private in ((0o755, True), (0o600, True), (0o775, False), (0o757, False)):
        path.chmod(mode)
        assert is_private(path) is private
    (tmp_path / "link").symlink_to(path)
    path.chmod(0o700)
    assert not is_private(tmp_path / "link")


@pytest.mark.parametrize("home", ["/nonexistent", "relative", None])
def test_without_a_home_there_is_no_directory_and_no_crash(monkeypatch, home):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if home is None:  # nor an entry for the user: Python then leaves ~ as it is
        monkeypatch.delenv("HOME", raising=False)
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    else:
        monkeypatch.setenv("HOME", home)
    assert cache_directory() is None
    with pytest.raises(CacheError, match="the user has no home directory"):
        private_directory("stan")


def test_a_relative_cache_directory_is_ignored_as_the_standard_requires(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "vicheck"


def test_numba_caches_next_to_our_code_or_where_only_the_user_can_write(base, monkeypatch):
    from numba import config

    from vicheck.stats.rows_compiled import _can_cache

    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(config, "CACHE_DIR", "")
    assert _can_cache()
    assert not base.exists()
    # As on a system where the package itself is not writable.
    monkeypatch.setattr(config, "CACHE_LOCATOR_CLASSES", "UserWideCacheLocator")
    assert _can_cache()
    (directory,) = (base / "numba").iterdir()
    for part in (directory, base):
        part.chmod(0o777)
        assert not _can_cache()
        part.chmod(0o755)
    monkeypatch.setattr(config, "CACHE_DIR", str(base))  # as set by a stranger's .numba_config.yaml
    assert not _can_cache()
    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert not _can_cache()


UNKNOWN = """
import pwd, sys
def unknown(user):
    raise KeyError(user)
pwd.getpwuid = unknown
from pathlib import Path
try:
    Path.home()
except RuntimeError:
    pass
else:
    sys.exit("there is a home")
from vicheck.cli import main
main()
"""


@pytest.mark.parametrize("home", [{}, {"HOME": "/nonexistent"}], ids=["no home", "a missing home"])
def test_an_unknown_user_without_a_home_gets_an_answer(tmp_path, home):
    dropped = ("HOME", "XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR")
    env = {name: value for name, value in os.environ.items() if name not in dropped}
    program = UNKNOWN if not home else UNKNOWN.replace("Path.home()", "raise RuntimeError")
    done = subprocess.run(
        [sys.executable, "-c", program, "psis", "-"],
        input="\n".join(f"{0.001 * i}" for i in range(2000)),
        capture_output=True, text=True, check=False, cwd=tmp_path, env=env | home,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "khat" in done.stdout
    assert done.stderr == ""
    assert not list(tmp_path.iterdir())  # nor a directory called ~
