"""How elements of arrays are named: as in the language that their model is written in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import product

__all__ = ["Indexing"]

_ELEMENT = re.compile(r"(?P<name>.+)\[(?P<index>\d+(?:, ?\d+)*)\]")


class Indexing(Enum):
    """How elements of arrays are named: as in the language that their model is written in."""

    PYTHON = (0, ", ")
    """``theta[0]`` and ``Sigma[0, 1]``, as ArviZ prints them."""
    STAN = (1, ",")
    """``theta[1]`` and ``Sigma[1,2]``, as Stan prints them."""

    @property
    def origin(self) -> int:
        """The index of the first element."""
        return self.value[0]

    @property
    def comma(self) -> str:
        """What lies between two indices."""
        return self.value[1]

    def label(self, name: str, index: Iterable[int]) -> str:
        """Name one element by its indices, which are counted from zero here."""
        return f"{name}[{self.comma.join(str(self.origin + each) for each in index)}]"

    def labels(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
        """Name every scalar of arrays of these shapes; what has no dimensions keeps its name."""
        names: list[str] = []
        for name, shape in shapes.items():
            indices = product(*(range(size) for size in shape))
            names += [self.label(name, index) for index in indices] if shape else [name]
        return tuple(names)

    def spelled(self, name: str) -> str:
        """Return a name with what is written here between indices; nothing else is changed."""
        return re.sub(r",\s*", self.comma, name)

    def parsed(self, label: str) -> tuple[str, tuple[int, ...]]:
        """Return the array and the indices, counted from zero, that a label stands for."""
        match = _ELEMENT.fullmatch(label)
        if match is None:
            return label, ()
        index = tuple(int(each) - self.origin for each in match["index"].split(","))
        return (match["name"], index) if min(index) >= 0 else (label, ())
