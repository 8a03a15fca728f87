"""Compiles Stan programs with the compiler and headers that httpstan's wheel carries, and g++."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution, version
from pathlib import Path

from vicheck.cache import cache_directory
from vicheck.errors import ModelError, require_extra

__all__ = ["compile_program", "digest_of"]

_BRIDGE = Path(__file__).with_name("bridge.cpp")
_FLAGS = (
    "-std=c++17", "-O2", "-shared", "-fPIC", "-w",
    "-DSTAN_THREADS", "-D_REENTRANT", "-DBOOST_DISABLE_ASSERTS",
    "-D_GLIBCXX_USE_CXX11_ABI=0",  # as the libraries in the wheel are built
)  # fmt: skip
_LIBRARIES = ("sundials_cvodes", "sundials_idas", "sundials_kinsol", "sundials_nvecserial", "tbb")


def compile_program(path: Path) -> Path:
    """Compile a Stan program, or find it compiled, and return the library.

    Libraries are kept in the user's cache directory by the program's text and the versions of all
    that it is made with.
    """
    require_extra("stan")
    library = cache_directory() / "stan" / f"{digest_of(path.read_text(encoding='utf-8'))}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        with _alone(library.with_suffix(".lock")):
            if not library.exists():  # another process may have made it meanwhile
                with tempfile.TemporaryDirectory(dir=library.parent) as directory:
                    _compile(path, Path(directory)).replace(library)
    return library


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other processes from compiling the same: it takes most of a minute."""
    import fcntl  # of Unix, as is the compiler

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def digest_of(text: str) -> str:
    """Return what tells a program apart: its text, and all that its library is made with."""
    made_with = f"{version('httpstan')} {_FLAGS} {_BRIDGE.read_text(encoding='utf-8')}"
    return hashlib.sha256(f"{text}\0{made_with}".encode()).hexdigest()[:24]


def _compile(path: Path, directory: Path) -> Path:
    home = Path(str(distribution("httpstan").locate_file("httpstan")))
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise ModelError("Stan programs need a C++ compiler: install g++, or set CXX to another")
    made = _run([str(home / "stanc"), "--name", "vicheck_program", "--print-cpp", str(path)], path)
    (directory / "program.hpp").write_text(made, encoding="utf-8")
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


def _run(command: list[str], path: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip()
        raise ModelError(f"{path} cannot be compiled by {Path(command[0]).name}:\n{lines}")
    return done.stdout
