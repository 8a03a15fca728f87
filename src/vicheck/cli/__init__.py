"""The command line: parse, call one function, print. Each command has its own file."""

from vicheck.cli import check, demo, paper, psis, vsbc  # noqa: F401 (importing registers the commands)
from vicheck.cli.application import app, main

__all__ = ["app", "main"]
