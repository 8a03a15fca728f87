"""How tests run the command line: in this process, or in one of its own where that matters."""

import io
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace
from unittest.mock import patch

from vicheck.cli.commands import main

COMMAND = [sys.executable, "-c", "from vicheck.cli import main; main()"]


def run(*arguments, stdin=None, **environment):
    """Run a process of its own; a second's worth of imports each time."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONWARNINGS": "error", "COLUMNS": "40"} | environment,
    )


SLOW_MODEL = """import sys
import time

print('ready', file=sys.__stdout__, flush=True)
time.sleep(60)
model = print
"""


def interrupt(command, again=False):
    """Run a process, and press Ctrl-C once or twice when it has printed that it is ready."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            if again:
                time.sleep(0.5)
                process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=50)
        finally:
            process.kill()
    return SimpleNamespace(returncode=process.returncode, stderr=errors)


def interrupt_with_slow_model(directory, command, *options):
    """Press Ctrl-C while a command imports a model that takes a minute."""
    path = directory / "slow.py"
    path.write_text(SLOW_MODEL)
    # A background job may ignore interrupts from its birth; a terminal's child does not.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    return interrupt([COMMAND[0], "-c", heed + COMMAND[2], command, str(path), *options])


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def call(*arguments, stdin="", terminal=False, **environment):
    """Run in this process: the same arguments, output and status."""
    out, err = (Terminal(), Terminal()) if terminal else (io.StringIO(), io.StringIO())
    with (
        patch.object(sys, "argv", ["vicheck", *map(str, arguments)]),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()))),
        patch.dict(os.environ, {"COLUMNS": "40", "TERM": "xterm"} | environment),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())
