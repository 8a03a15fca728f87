"""Tables that fit the terminal: long names are cut, and columns that are too many go below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vicheck.plain_text import shortened

if TYPE_CHECKING:
    from vicheck.report.text import Column, TextTable

__all__ = ["fit_table"]

_SHORTEST = 12
"""Characters that are left of a long name."""


def fit_table(table: TextTable, width: int) -> list[str]:
    """Return the lines of a table within the width of the terminal, in characters.

    A table that is too wide loses the middle of its long names; columns that still do not fit go
    below the others, with the names repeated.
    """
    longest = max(map(len, table.names), default=0)
    room = width - sum(column.width for column in table.columns)
    if longest <= room:
        return table.lines()
    kept = min(longest, max(_SHORTEST, room))
    names = [shortened(name, kept) for name in table.names]
    blocks = _blocks(table, width - max(map(len, names), default=0))
    return [
        line
        for number, columns in enumerate(blocks)
        for line in ([""] if number else []) + table.lines(columns, names)
    ]


def _blocks(table: TextTable, room: int) -> list[list[Column]]:
    """Share columns out among blocks that fit; one that fits nowhere has a block of its own."""
    blocks: list[list[Column]] = []
    left = 0
    for column in table.columns:
        if not blocks or column.width > left:
            blocks.append([])
            left = room
        blocks[-1].append(column)
        left -= column.width
    return blocks
