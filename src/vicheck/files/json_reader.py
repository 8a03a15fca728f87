"""JSON, whoever wrote it."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from vicheck.errors import UnreadableError

__all__ = ["parse_json"]

_DEEPEST = 50
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_LARGEST = 2**1023
"""Whole numbers from here on do not fit into a float."""


def parse_json(content: bytes | str) -> Any:
    """Return the value of JSON text, unless it is too deep, or its numbers too large, to be used.

    Raises
    ------
    UnreadableError
        If it is not JSON, names an entry twice, or is too deep or large.
    """
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_without_duplicates)
    except UnreadableError:
        raise
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"is not readable JSON: {error}") from None
    level = [value]
    for _ in range(_DEEPEST):
        level = [item for each in level for item in _items(each)]
        if not level:
            _require_whole_characters(value, text)
            return value
    raise UnreadableError(f"is nested more than {_DEEPEST} levels deep")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        key, count = Counter(key for key, _ in pairs).most_common(1)[0]
        raise UnreadableError(f"has {count} entries called {key!r}")
    return values


def _require_whole_characters(value: Any, text: str) -> None:
    """Refuse unpaired surrogates, which JSON can express but nobody can print."""
    if not _HALF.search(text):
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableError("has text with half a character") from None


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list):
        return value
    if isinstance(value, int) and abs(value) >= _LARGEST:
        raise UnreadableError("has a number that is too large")
    return []
