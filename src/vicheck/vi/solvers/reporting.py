"""How a solver reports progress."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Report", "silent"]

Report = Callable[[str], None]
"""Called from time to time with a sentence on what a solver is doing."""


def silent(_: str) -> None:
    """Report nothing."""
