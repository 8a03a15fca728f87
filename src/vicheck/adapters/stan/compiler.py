"""Compiling Stan programs, with the compiler and headers in httpstan's wheel, and g++."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import distribution, version
from pathlib import Path

from vicheck.adapters.stan import headers
from vicheck.errors import CacheError, CacheWarning, ModelError, require_extra
from vicheck.runtime.cache import is_private, private_directory

__all__ = ["Report", "command", "compile_program", "digest_of", "library_name", "translate"]

Report = Callable[[str], None]
"""Called with a sentence on what the user is waiting for."""

_BRIDGE = Path(__file__).with_name("bridge.cpp")
_FLAGS = (
    "-std=c++17", "-O1", "-shared", "-fPIC", "-w",
    "-DSTAN_THREADS", "-D_REENTRANT", "-DBOOST_DISABLE_ASSERTS",
    "-D_GLIBCXX_USE_CXX11_ABI=0",  # as the libraries in the wheel are built
)  # fmt: skip
_DURATION = "about 10 to 30 s"
"""What benchmarks/stan_compile.py measures, for programs of usual size."""
_LIBRARIES = ("sundials_cvodes", "sundials_idas", "sundials_kinsol", "sundials_nvecserial", "tbb")


def compile_program(path: Path, report: Report = lambda _: None) -> Path:
    """Compile a Stan program, or find it compiled, and return the library.

    Libraries are kept in the user's cache directory by the program's text and the versions of all
    tools that compile it. Files that others could have put there are not used. A library appears
    there whole or not at all, and of several processes one compiles while the others wait.
    """
    require_extra("stan")
    code = translate(path)
    library = _directory() / library_name(code)
    if not is_private(library):
        with _alone(library.with_suffix(".lock"), path, report):
            if not is_private(library):  # another process may have compiled it by now
                report(f"compiling {path.name}, {_DURATION}; it is kept for the next time")
                with _workshop(library) as directory:
                    compiled = _compile(path, code, directory, report)
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
def _alone(lock: Path, path: Path, report: Report) -> Iterator[None]:
    """Keep other processes from compiling the same: it takes long."""
    import fcntl  # of Unix, as is the compiler

    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another process that is compiling {path.name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _workshop(library: Path) -> Iterator[Path]:
    """Make a directory to compile a library in, without those of processes that were killed."""
    for left in library.parent.glob(f"{library.stem}.*/"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{library.stem}.", dir=library.parent) as directory:
        yield Path(directory)


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
    """Return the name of a program's library: the program, and where and by what it is made.

    It loads Stan's own libraries from their place, and would find none, or others, once that place
    is gone. Libraries made by other compilers are not used either.
    """
    made = f"{_home()}\0{_version(_compiler())}\0{Path(headers.__file__).read_text('utf-8')}"
    return f"{digest_of(code)}-{hashlib.sha256(made.encode()).hexdigest()[:8]}.so"


def digest_of(code: str) -> str:
    """Return what tells a program apart: its code, and all that says what its library computes."""
    made_with = f"{version('httpstan')} {_FLAGS} {_BRIDGE.read_text(encoding='utf-8')}"
    return hashlib.sha256(f"{code}\0{made_with}".encode()).hexdigest()[:24]


def _compiler() -> str:
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise ModelError("Stan programs need a C++ compiler: install g++, or set CXX to another")
    return compiler


@cache
def _version(compiler: str) -> str:
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return f"{compiler} {done.stdout}"


def _home() -> Path:
    return Path(str(distribution("httpstan").locate_file("httpstan")))


def _compile(path: Path, code: str, directory: Path, report: Report) -> Path:
    """Compile with the headers that the program needs or, where that fails, with all of them."""
    (directory / "program.hpp").write_text(code, encoding="utf-8")
    needed = headers.needed_headers(code, _home() / "include")
    (directory / "headers.hpp").write_text(needed, encoding="utf-8")
    try:
        _run(command(directory), path, scratch=directory)
    except ModelError:
        report(f"compiling {path.name} again, with all of Stan's headers; this takes longer")
        (directory / "headers.hpp").write_text(headers.all_headers(), encoding="utf-8")
        _run(command(directory), path, scratch=directory)
    return directory / "program.so"


def command(directory: Path, source: Path = _BRIDGE) -> list[str]:
    """Return the command that makes program.so of program.hpp and headers.hpp in a directory."""
    include, libraries = _home() / "include", _home() / "lib"
    return [
        *(_compiler(), *_FLAGS, f"-I{directory}", "-isystem", str(include), str(source)),
        *("-o", str(directory / "program.so"), f"-L{libraries}"),
        *(f"-l{name}" for name in _LIBRARIES),
        f"-Wl,-rpath,{libraries}",
    ]


def _run(
    command: list[str], path: Path, directory: Path | None = None, scratch: Path | None = None
) -> str:
    """Run a program to its end; an interrupt ends it and all it has started."""
    environment = os.environ | ({"TMPDIR": str(scratch)} if scratch else {})
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
        cwd=directory,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        lines = (err or out).strip()
        raise ModelError(f"{path} cannot be compiled by {Path(command[0]).name}:\n{lines}")
    return out
