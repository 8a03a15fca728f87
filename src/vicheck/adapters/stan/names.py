"""Stan's names of scalars, ``theta.1`` or ``Sigma.2.1``, and the arrays they belong to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.model import labels

__all__ = ["StanArray", "arrays_of", "flatten"]

Floats = NDArray[np.float64]

_DOTTED = re.compile(r"(?P<name>.+?)(?P<index>(?:\.[1-9]\d*)+)")
_BRACKETED = re.compile(r"(?P<name>.+)\[(?P<index>[1-9]\d*(?:\s*,\s*[1-9]\d*)*)\]")


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

    Elements that do not make up a whole array stay scalars under the names they have, with indices
    from zero, as ArviZ prints them.
    """
    found: dict[str, dict[tuple[int, ...], int]] = {}
    for column, text in enumerate(names):
        name, index = _split(text)
        found.setdefault(name, {})[index] = column
    groups: dict[str, StanArray] = {}
    for name, elements in found.items():
        ranks = {len(index) for index in elements}
        shape = tuple(np.max(list(elements), axis=0) + 1) if len(ranks) == 1 else ()
        whole = len(elements) == np.prod(shape, dtype=int) and len(ranks) == 1
        if whole:
            order = [elements[index] for index in np.ndindex(*map(int, shape))]
            groups[name] = StanArray(tuple(map(int, shape)), tuple(order))
        else:
            groups |= {
                labels({name: tuple(i + 1 for i in index)})[-1]: StanArray((), (column,))
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
    match = _BRACKETED.fullmatch(text) or _DOTTED.fullmatch(text)
    if match is None:
        return text, ()
    return match["name"], tuple(int(part) - 1 for part in re.findall(r"\d+", match["index"]))
