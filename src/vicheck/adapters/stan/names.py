"""Stan's names of scalars, ``theta.1`` or ``Sigma.2.1``, and the arrays they belong to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.indexing import Indexing

__all__ = ["StanArray", "arrays_of", "flatten"]

Floats = NDArray[np.float64]

_DOTTED = re.compile(r"(?P<name>.+?)(?P<index>(?:\.[1-9]\d*)+)")
_BRACKETED = re.compile(r"(?P<name>.+)\[(?P<index>[1-9]\d*(?:\s*,\s*[1-9]\d*)*)\]")

_LONGEST_NAME, _LONGEST_INDEX = 1000, 18
"""Characters of a name that may have indices, and digits of an index."""


@dataclass(frozen=True)
class StanArray:
    """Where the elements of an array lie among the columns of a table."""

    shape: tuple[int, ...]
    places: tuple[int, ...]
    """Column of each element, in row-major order; Stan itself counts matrices by columns."""

    def take(self, table: Any) -> Any:
        """Return the array of every row: shape ``(..., columns)`` becomes ``(..., *shape)``."""
        return table[..., np.array(self.places, int)].reshape((*table.shape[:-1], *self.shape))


def arrays_of(names: Sequence[str]) -> dict[str, StanArray]:
    """Group names of scalars by the array they belong to, in the order of the names.

    Elements that do not make up a whole array stay scalars, under the names that Stan prints.
    """
    by_name: dict[str, dict[tuple[int, ...], int]] = {}
    for column, text in enumerate(names):
        name, index = _split(text)
        by_name.setdefault(name, {})[index] = column
    groups: dict[str, StanArray] = {}
    for name, elements in by_name.items():
        ranks = {len(index) for index in elements}
        alike = len(ranks) == 1
        shape = tuple(max(axis) + 1 for axis in zip(*elements, strict=alike))
        if alike and len(elements) == prod(shape):
            order = [elements[index] for index in np.ndindex(*shape)]
            groups[name] = StanArray(shape, tuple(order))
        else:
            groups |= {
                Indexing.STAN.label(name, index) if index else name: StanArray((), (column,))
                for index, column in elements.items()
            }
    return groups


def flatten(values: Mapping[str, Any], groups: Mapping[str, StanArray]) -> Floats:
    """Return arrays as one row of a table, the opposite of `StanArray.take`."""
    row = np.empty(sum(len(group.places) for group in groups.values()))
    for name, group in groups.items():
        row[list(group.places)] = np.ravel(values[name])
    return row


def _split(text: str) -> tuple[str, tuple[int, ...]]:
    """Return name and index, from zero, of ``theta.2`` or ``theta[2]``."""
    if len(text) > _LONGEST_NAME:
        return text, ()
    match = _BRACKETED.fullmatch(text) or _DOTTED.fullmatch(text)
    parts = re.findall(r"\d+", match["index"]) if match else []
    if match is None or max(map(len, parts)) > _LONGEST_INDEX:
        return text, ()
    return match["name"], tuple(int(part) - 1 for part in parts)
