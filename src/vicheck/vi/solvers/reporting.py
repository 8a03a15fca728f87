"""How a solver says what it is doing."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Report", "silent"]

Report = Callable[[str], None]
"""Called now and then with a sentence on what a solver is doing."""


def silent(_: str) -> None:
    """Report nothing."""
