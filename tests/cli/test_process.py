"""No way for a process to end looks like a verdict but a verdict."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.cli.command_line import call, interrupt, run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="streams and signals of POSIX")
FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")


def shell(typed, **environment):
    """Run a command with its redirections."""
    command = f'exec "$0" -c "from vicheck.cli import main; main()" {typed}'
    return subprocess.run(
        ["sh", "-c", command, sys.executable],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONWARNINGS": "error"} | environment,
    )


def doing(statements, patience=1.0):
    """Return a command that does something else instead of what is typed, in the same process."""
    code = f"""
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from vicheck.cli import commands, main, process
process._PATIENCE = {patience}

def command():
    exec({statements!r}, {{"os": os}})
    raise SystemExit(0)

commands.main = command
main()
"""
    return [sys.executable, "-c", code]


SLEEP = """
import ctypes
from vicheck.runtime.interrupts import between_pieces
c, end = ctypes.CDLL(None), time.time() + 60
with between_pieces():
    while time.time() < end: c.sleep(60)
"""
"""Compiled code that knows nothing of Python's signals."""


@pytest.fixture
def usable(tmp_path):
    """Ratios whose verdict has status 1, as Python's own for a crash."""
    z = 0.6 * np.random.default_rng(1).normal(size=2000)
    np.save(tmp_path / "ratios.npy", z**2 / (2 * 0.6**2) - z**2 / 2)
    return tmp_path / "ratios.npy"


@FULL
@pytest.mark.parametrize("typed", ["--help", "--version", "psis --help", ""])
def test_a_page_that_cannot_be_written_is_an_error(typed):
    done = shell(f"{typed} > /dev/full")
    assert done.returncode in (64, 74)
    assert typed == "" or done.returncode == 74
    assert done.stderr == "vicheck: cannot write the answer: No space left on device\n"


@pytest.mark.parametrize("typed", ["--help", "--version", "psis {}"])
def test_closed_standard_output_is_an_error(usable, typed):
    done = shell(f"{typed.format(usable)} >&-")
    assert done.returncode == 74
    assert done.stderr == "vicheck: cannot write the answer: standard output is closed\n"


@pytest.mark.slow
@pytest.mark.parametrize("redirection", ["2>&-", pytest.param("2>/dev/full", marks=FULL)])
def test_an_error_that_nobody_can_be_told_has_its_status(usable, redirection):
    assert shell(f"psis no-such-file.npy {redirection}").returncode == 66
    done = shell(f"psis {usable} {redirection}")
    assert done.returncode == 1
    assert "usable" in done.stdout


def test_closed_input_is_empty_input():
    done = shell("psis - <&-")
    assert done.returncode == 65
    assert done.stderr.startswith("vicheck: ")


def test_closed_streams_do_not_end_up_in_files(tmp_path):
    """A file that is opened while 2 is closed would get that number, and what is written to it."""
    does = f"kept = open({str(tmp_path / 'kept')!r}, 'w'); os.write(2, b'x')"
    done = subprocess.run(["sh", "-c", 'exec "$0" "$@" 2>&-', *doing(does)], check=False)
    assert done.returncode == 0
    assert (tmp_path / "kept").read_text() == ""


@pytest.mark.parametrize(
    ("name", "raised"), [("typer", "ImportError('broken')"), ("rich", "KeyError('broken')")]
)
def test_an_import_that_fails_is_an_error(tmp_path, name, raised):
    (tmp_path / f"{name}.py").write_text(f"raise {raised}")
    done = run("--version", PYTHONPATH=str(tmp_path))
    assert done.returncode == 70
    assert done.stderr.splitlines()[0] == f"vicheck: vicheck cannot run: {raised}"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("statement", "code", "sentence"),
    [
        ("raise SystemExit('1')", 70, ""),
        ("import ctypes; ctypes.CDLL(None).exit(1)", 70, "a library ended the process"),
        ("import atexit; atexit.register(lambda: 1 / 0)", 0, ""),
        ("raise GeneratorExit", 70, "vicheck cannot run: GeneratorExit()"),
    ],
)
def test_what_ends_the_process_gives_no_verdict(statement, code, sentence):
    done = subprocess.run(doing(statement), capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_ends_python_gives_no_verdict(monkeypatch):
    def leaves(**options):
        raise SystemExit(1)

    monkeypatch.setattr("vicheck.cli.application.app", leaves)
    done = call("psis")
    assert done.returncode == 65
    assert done.stderr == "vicheck: the model's file ended Python by calling sys.exit\n"


@pytest.mark.parametrize("flags", ["--xla_no_such_flag=1", "no-such-file"])
def test_flags_that_xla_refuses_are_an_error(tmp_path, flags):
    """XLA ends the process with status 1."""
    done = run("check", tmp_path / "m.py", XLA_FLAGS=flags)
    assert done.returncode == 64
    assert done.stderr.startswith(f"vicheck: JAX does not start with XLA_FLAGS={flags}: ")


def test_flags_of_xla_are_nothing_to_commands_without_it():
    assert run("--version", XLA_FLAGS="--xla_no_such_flag=1").returncode == 0


READY = "import time; print('ready', flush=True)\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("does", "again"),
    [
        ("time.sleep(60)", False),
        # An exception that is lost, and an end that looks like all is well, or like a bug.
        ("try: time.sleep(60)\nexcept KeyboardInterrupt: pass", False),
        ("try: time.sleep(60)\nexcept KeyboardInterrupt: raise ValueError", False),
        # Code that is long in coming back to Python.
        (SLEEP, False),
        (SLEEP, True),
    ],
)
def test_ctrl_c_is_never_lost(does, again):
    # The second of two is what ends it, and not that the first was not heeded in time.
    done = interrupt(doing(READY + does, patience=50.0 if again else 1.0), again)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "vicheck: interrupted\n"


def test_an_interrupt_is_announced_once(capfd):
    from vicheck.cli import process

    try:
        assert [process._interrupted() for _ in range(2)] == [130, 130]
    finally:
        process._ANNOUNCED.clear()
    assert capfd.readouterr().err == "vicheck: interrupted\n"
