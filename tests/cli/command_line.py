"""How tests run the command line: in this process, or in one of its own where that matters."""

import io
import os
import subprocess
import sys
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
