"""Compiling Stan programs, with the compiler and headers in httpstan's wheel, and g++."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import distribution, version
from pathlib import Path

from vicheck.errors import CacheError, CacheWarning, ModelError, require_extra
from vicheck.runtime.cache import is_private, private_directory

__all__ = ["compile_program", "digest_of", "library_name", "translate"]

_BRIDGE = Path(__file__).with_name("bridge.cpp")
_FLAGS = (
    "-std=c++17", "-O1", "-shared", "-fPIC", "-w",
    "-DSTAN_THREADS", "-D_REENTRANT", "-DBOOST_DISABLE_ASSERTS",
    "-D_GLIBCXX_USE_CXX11_ABI=0",  # as the libraries in the wheel are built
)  # fmt: skip
_LIBRARIES = ("sundials_cvodes", "sundials_idas", "sundials_kinsol", "sundials_nvecserial", "tbb")


def compile_program(path: Path) -> Path:
    """Compile a Stan program, or find it compiled, and return the library.

    Libraries are kept in the user's cache directory by the program's text and the versions of all
    tools that compile it. Files that others could have put there are not used.
    """
    require_extra("stan")
    code = translate(path)
    library = _directory() / library_name(code)
    if not is_private(library):
        with _alone(library.with_suffix(".lock")):
            if not is_private(library):  # another process may have compiled it by now
                with tempfile.TemporaryDirectory(dir=library.parent) as directory:
                    compiled = _compile(path, code, Path(directory))
                    compiled.chmod(0o700)
                    compiled.replace(library)
    return library


def _directory() -> Path:
    """Return where libraries are kept: for the user, or else as long as this process lives."""
    try:
        return private_directory("stan")
    except CacheError as error:
        warnings.warn(f"Stan programs are compiled each time: {error}", CacheWarning, stacklevel=2)
        return Path(_temporary().name)


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="vicheck-")  # which only the user can open


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other processes from compiling the same: it takes most of a minute."""
    import fcntl  # of Unix, as is the compiler

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def translate(path: Path) -> str:
    """Return what stanc makes of a program, and of what it includes from its directory: C++."""
    command = [str(_home() / "stanc"), "--name", "vicheck_program", "--include-paths", "."]
    # It would write a file beside the program as well. The path of the other is part of the code.
    command += ["--print-cpp", "--o", os.devnull]
    program = path.resolve()
    # A name may begin with a dash: behind ./ it is no option.
    command += ["--filename-in-msg", path.name, f"./{program.name}"]
    return _run(command, path, directory=program.parent)


def library_name(code: str) -> str:
    """Return the name of a program's library, which is bound to the place of Stan's own libraries.

    It loads them from there, and would find none, or others, once that place is gone.
    """
    place = hashlib.sha256(str(_home()).encode()).hexdigest()[:8]
    return f"{digest_of(code)}-{place}.so"


def digest_of(code: str) -> str:
    """Return what tells a program apart: its code, and all that its library is made with."""
    made_with = f"{version('httpstan')} {_FLAGS} {_BRIDGE.read_text(encoding='utf-8')}"
    return hashlib.sha256(f"{code}\0{made_with}".encode()).hexdigest()[:24]


def _home() -> Path:
    return Path(str(distribution("httpstan").locate_file("httpstan")))


def _compile(path: Path, code: str, directory: Path) -> Path:
    home = _home()
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise ModelError("Stan programs need a C++ compiler: install g++, or set CXX to another")
    (directory / "program.hpp").write_text(code, encoding="utf-8")
    library = directory / "program.so"
    _run(
        [
            compiler,
            *_FLAGS,
            '-DVICHECK_PROGRAM="program.hpp"',
            f"-I{directory}",
            "-isystem",
            str(home / "include"),
            str(_BRIDGE),
            "-o",
            str(library),
            f"-L{home / 'lib'}",
            *(f"-l{name}" for name in _LIBRARIES),
            f"-Wl,-rpath,{home / 'lib'}",
        ],
        path,
    )
    return library


def _run(command: list[str], path: Path, directory: Path | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip()
        raise ModelError(f"{path} cannot be compiled by {Path(command[0]).name}:\n{lines}")
    return done.stdout
