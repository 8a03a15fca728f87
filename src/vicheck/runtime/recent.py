"""What was done lately in this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

__all__ = ["Recent"]

_MOST = 64


class Recent:
    """Keys of recent work in this process, with a value: they are forgotten, the oldest first."""

    def __init__(self) -> None:
        self._keys: OrderedDict[Hashable, Any] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._keys

    def get(self, key: Hashable) -> Any:
        """Return the value of a key; None if it is not known."""
        return self._keys.get(key)

    def add(self, key: Hashable, value: Any = None) -> None:
        """Remember a key."""
        self._keys[key] = value
        while len(self._keys) > _MOST:
            self._keys.popitem(last=False)
