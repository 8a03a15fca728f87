"""The command line: parse, call one function, print. Each command has its own file."""

from vicheck.cli import (  # noqa: F401 (importing registers the commands)
    check,
    demo,
    doctor,
    paper,
    psis,
    report,
    vsbc,
)
from vicheck.cli.application import app, main

__all__ = ["app", "main"]
