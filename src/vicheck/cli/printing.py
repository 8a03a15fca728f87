"""What the commands share: lines for people and machines, exit statuses, errors."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from vicheck.calibration.result import Calibration
    from vicheck.checking.result import Check

__all__ = [
    "COLORS",
    "EXIT_CODES",
    "EX_DATAERR",
    "EX_IOERR",
    "EX_NOINPUT",
    "EX_SOFTWARE",
    "EX_UNAVAILABLE",
    "EX_USAGE",
    "described",
    "fail",
    "strict_json",
    "write",
]

# What a pipeline can gate on. From 64 on they are the error codes of sysexits.h.
EXIT_CODES = {"good": 0, "usable": 1, "unreliable": 2, "none": 65}
EX_USAGE, EX_DATAERR, EX_NOINPUT, EX_UNAVAILABLE, EX_SOFTWARE, EX_IOERR = 64, 65, 66, 69, 70, 74

COLORS = {"good": "green", "usable": "yellow", "unreliable": "red", "none": "magenta"}


def write(lines: list[Text]) -> None:
    """Print lines: wrapped and coloured on a terminal, plain elsewhere."""
    console = Console()
    try:
        for line in lines:
            if console.is_terminal:
                console.print(line)
            else:
                print(line)
        sys.stdout.flush()
    except OSError as error:
        # What could not be written must not be tried, and reported, again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # a reader that hangs up has what it wanted
            fail(f"cannot write the answer: {error.strerror or error}", EX_IOERR)


def described(result: Check | Calibration) -> list[Text]:
    """Return a result as lines for people, the verdict in its colour."""
    color = f"bold {COLORS[result.verdict.level]}"
    return [
        Text(line, color if line == result.verdict.sentence else "")
        for line in str(result).splitlines()
    ]


def strict_json(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by null."""
    if isinstance(value, dict):
        return {key: strict_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [strict_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def fail(message: str, code: int) -> NoReturn:
    """Say what is wrong on standard error, and end with an exit status."""
    print(f"vicheck: {message}", file=sys.stderr)
    sys.exit(code)
