"""How many draws are worked on together, and for how many quantities are kept."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from vicheck.model import Model

__all__ = [
    "BLOCKS",
    "CHUNKS",
    "FEWEST",
    "FEWEST_ON_HOST",
    "SEPARATE_CHUNKS",
    "TORCH_BATCHES",
    "Sizes",
    "chunk_size",
    "halved",
    "kept_draws",
    "width_of",
]

_KEPT_BYTES = 2**30
"""Quantities are kept for as many draws as fit into this; densities for all."""
_CHUNK_BYTES = 2**28
_COPIES = 6
"""How many arrays of the size of draws and observations an evaluation holds at a time, roughly."""


FEWEST = 1000
"""Draws that are evaluated together at most, and with which a growing number of draws begins."""
FEWEST_ON_HOST = 125
"""The same where functions on the host compute the density: each draw may take a second, and only
between chunks can anybody look at the clock."""


class Sizes(NamedTuple):
    """How many draws are evaluated together."""

    numbers: int = _CHUNK_BYTES // (8 * _COPIES)
    """Draws times numbers for each draw."""
    largest: int = 8192
    least: int = 1
    even: bool = True
    """Whether all chunks have about the same size, so that few draws are wasted."""


CHUNKS = Sizes()
SEPARATE_CHUNKS = Sizes(largest=4096, even=False)
"""Where random numbers depend on the size of the chunk they are made in: it is always the same."""
TORCH_BATCHES = Sizes(numbers=2**21, largest=2**62, even=False)
BLOCKS = Sizes(numbers=2**18, largest=2**62, least=64)
"""Within compiled code that goes through many fits: some megabytes. Matrix products want rows."""


def chunk_size(num_draws: int, width: int, sizes: Sizes = CHUNKS) -> int:
    """Return how many draws are evaluated together.

    Parameters
    ----------
    num_draws
        Draws in all.
    width
        Numbers for each draw: parameters, and observations that they are compared with.
    sizes
        The bounds.
    """
    most = max(sizes.least, min(sizes.largest, num_draws, sizes.numbers // max(1, width)))
    if not sizes.even:
        return most
    return -(-num_draws // -(-num_draws // most))


def kept_draws(num_draws: int, num_values: int) -> int:
    """Return for how many draws quantities are kept, of so many numbers each."""
    return min(num_draws, max(1, _KEPT_BYTES // (8 * max(1, num_values))))


def width_of(model: Model) -> int:
    """Return how many numbers the density of one draw needs: parameters, and rows of the data."""
    leaves = jax.tree.leaves(model.data)
    return model.dim + sum(np.shape(leaf)[0] for leaf in leaves if np.ndim(leaf))


def halved(number: int, most: int) -> int:
    """Halve a number, rounding up, until it is small enough.

    Examples
    --------
    >>> halved(1000, 300), halved(4000, 300), halved(1000, 100)
    (250, 250, 63)
    """
    while number > most:
        number = -(-number // 2)
    return number
