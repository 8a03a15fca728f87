"""All commands: importing this registers them."""

from vicheck.cli import (  # noqa: F401 (importing registers the commands)
    check,
    demo,
    doctor,
    paper,
    psis,
    report,
    rescue,
    vsbc,
)
from vicheck.cli.application import app, main

__all__ = ["app", "main"]
