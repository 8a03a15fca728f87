"""The command line: parse, call one function, print. Each command has its own file."""

from vicheck.cli.process import main

__all__ = ["main"]
