"""How commands fail: one sentence, a hint and an exit status."""

from __future__ import annotations

import os
from typing import NoReturn

__all__ = [
    "EXIT_CODES",
    "EX_DATAERR",
    "EX_IOERR",
    "EX_NOINPUT",
    "EX_SOFTWARE",
    "EX_UNAVAILABLE",
    "EX_USAGE",
    "INTERRUPTED",
    "CommandError",
    "fail",
    "fail_to_read",
    "fail_to_write",
]

# What a pipeline can gate on. From 64 on they are the error codes of sysexits.h.
EXIT_CODES = {"good": 0, "usable": 1, "unreliable": 2, "none": 65}
EX_USAGE, EX_DATAERR, EX_NOINPUT, EX_UNAVAILABLE, EX_SOFTWARE, EX_IOERR = 64, 65, 66, 69, 70, 74

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


class CommandError(Exception):
    """Ends a command: `main` says what is wrong, and what to do about it."""

    def __init__(self, sentence: str, code: int, hint: str = "") -> None:
        super().__init__(sentence)
        self.sentence, self.code, self.hint = sentence, code, hint


def fail(sentence: str, code: int, hint: str = "") -> NoReturn:
    """End the command with a sentence, an exit status and, where there is one, a hint."""
    raise CommandError(sentence, code, hint)


def fail_to_read(path: str, error: OSError) -> NoReturn:
    """End the command because a file cannot be read."""
    hints: dict[type[OSError], str] = {
        FileNotFoundError: "is it in another directory, or spelt differently?",
        IsADirectoryError: "give the name of a file in it",
        PermissionError: "you are not allowed to read it: look at its permissions",
    }
    fail(f"cannot read {path}: {_reason(error)}", EX_NOINPUT, hints.get(type(error), ""))


def fail_to_write(path: str, error: OSError) -> NoReturn:
    """End the command because a file cannot be written."""
    hints: dict[type[OSError], str] = {
        FileNotFoundError: "create its directory first, or give another",
        IsADirectoryError: "give the name of a file in it",
        NotADirectoryError: "a file is in the way: give another directory",
        FileExistsError: "a file is in the way: give another directory",
        PermissionError: "you are not allowed to write there: give another directory",
    }
    hint = hints.get(type(error), "give another file")
    fail(f"cannot write {path}: {_reason(error)}", EX_IOERR, hint)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)
