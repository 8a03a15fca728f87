"""Tables that fit the terminal: long names are cut, and columns that are too many go below."""

from __future__ import annotations

import re

__all__ = ["fit_table"]

_NAME = re.compile(r"[^\s\[]*(?:\[[^\]]*\])?")
_SHORTEST = 12
_CUT = ".."


def fit_table(rows: list[str], width: int) -> list[str]:
    """Return a table within a width, where it is wider.

    Parameters
    ----------
    rows
        A header of right-aligned names, then rows that start with a name such as ``S[0, 1]``.
    width
        Of the terminal, in characters.
    """
    ends = [match.end() for match in re.finditer(r"\S+", rows[0])]
    names = [match[0] for match in map(_NAME.match, rows[1:]) if match]
    left = max(map(len, names), default=0)
    if not ends or max(map(len, rows)) <= width:
        return rows
    kept = min(left, max(_SHORTEST, width - (ends[-1] - left)))
    columns = list(zip([left, *ends], ends, strict=False))
    heads = [" " * kept, *(_cut(name, kept).ljust(kept) for name in names)]
    blocks: list[list[str]] = []
    for start, end in columns:
        if not blocks or len(blocks[-1][0]) + end - start > width:
            blocks.append(list(heads))
        blocks[-1] = [
            line + row[start:end].rjust(end - start)
            for line, row in zip(blocks[-1], rows, strict=True)
        ]
    return [line.rstrip() for i, block in enumerate(blocks) for line in ([""] if i else []) + block]


def _cut(name: str, width: int) -> str:
    """Cut in the middle: an index at the end tells entries apart."""
    if len(name) <= width:
        return name
    back = (width - len(_CUT)) // 2
    return name[: width - len(_CUT) - back] + _CUT + name[-back:]
