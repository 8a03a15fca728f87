"""What `seed=` takes, everywhere: an integer or a JAX key."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

from vicheck.errors import ArgumentError, require_count

if TYPE_CHECKING:
    import jax

__all__ = ["Seed", "as_seed", "generators", "states"]

Seed: TypeAlias = "int | jax.Array"
"""An integer from 0 on, or a JAX key."""

_MASK = 2**32 - 1
_WORDS = 4
"""Words of 64 bits that a bit generator of NumPy takes at most."""
_BITS = 62
"""Bits of a key that are kept: what is added to a seed must leave it within 64, with a sign."""


def as_seed(seed: Any) -> int:
    """Return a seed as an integer, or raise when it is neither an integer nor one JAX key.

    A key becomes the integer that it was made of: ``jax.random.key(3)``, ``jax.random.PRNGKey(3)``
    and 3 are the same seed. Keys that were split have 64 random bits, of which 62 are kept.

    Examples
    --------
    >>> import jax
    >>> as_seed(3), as_seed(jax.random.key(3)), as_seed(jax.random.PRNGKey(3))
    (3, 3, 3)
    """
    words = _words_of(seed)
    if words is None:
        if hasattr(seed, "dtype") and not np.isscalar(seed) and np.ndim(seed) == 0:
            seed = seed[()] if isinstance(seed, np.ndarray) else seed.item()
        try:
            return require_count("seed", seed, 0)
        except ArgumentError:
            expected = "must be an integer from 0 on or a JAX key"
            raise ArgumentError("seed", f"{expected}, got {seed!r}") from None
    if words.ndim != 1:
        problem = f"must be one JAX key, got keys of shape {words.shape[:-1]}"
        raise ArgumentError("seed", problem, hint="take one of them, as in keys[0]")
    number = 0
    for word in words.tolist():
        number = number << 32 | word
    if words.size > 2:  # not the default kind: its words repeat each other
        number = int(np.random.SeedSequence(number).generate_state(1, np.uint64)[0])
    return number & (1 << _BITS) - 1


def generators(
    kind: Callable[[Any], np.random.BitGenerator], seeds: NDArray[np.int64], stream: int
) -> Iterator[np.random.Generator]:
    """Yield ``Generator(kind((seed, stream)))`` for each of many seeds, in a tenth of the time."""
    for words in states(seeds, np.full_like(seeds, stream), _WORDS):
        yield np.random.Generator(kind(_Known(words)))


class _Known(ISeedSequence):
    """Words that `numpy.random.SeedSequence` would have made."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint64) -> Any:
        return self._words[:n_words]


def states(first: NDArray[np.int64], second: NDArray[np.int64], count: int) -> NDArray[np.uint64]:
    """Return ``SeedSequence((a, b)).generate_state(count, uint64)`` for each pair of numbers.

    The same arithmetic as in NumPy, for all pairs at a time. Numbers of one 32-bit word and of two
    are mixed differently.
    """
    made = np.empty((len(first), count), np.uint64)
    sizes = (first >> 32 > 0) + 2 * (second >> 32 > 0)
    for size in np.unique(sizes):
        some = sizes == size
        entropy = []
        for numbers, is_long in ((first[some], size & 1), (second[some], size & 2)):
            entropy += [numbers & _MASK, numbers >> 32] if is_long else [numbers]
        made[some] = _mixed([words.astype(np.uint32) for words in entropy], count)
    return made


def _mixed(entropy: list[NDArray[np.uint32]], count: int) -> NDArray[np.uint64]:
    """Do what `numpy.random.SeedSequence` does with up to four words of entropy."""
    constant = 0x43B0D7E5

    def hashed(value: NDArray[np.uint32], factor: int) -> NDArray[np.uint32]:
        nonlocal constant
        value = value ^ np.uint32(constant)
        constant = constant * factor & _MASK
        value = value * np.uint32(constant)
        return value ^ value >> np.uint32(16)

    zero = np.zeros_like(entropy[0])
    pool = [hashed(words, 0x931E8875) for words in (*entropy, zero, zero)[:4]]
    for source in range(4):
        for target in range(4):
            if source != target:
                other = hashed(pool[source], 0x931E8875)
                mixed = pool[target] * np.uint32(0xCA01F9DD) - other * np.uint32(0x4973F715)
                pool[target] = mixed ^ mixed >> np.uint32(16)
    constant = 0x8B51F9DD
    words = [hashed(pool[i % 4], 0x58F38DED).astype(np.uint64) for i in range(2 * count)]
    return np.stack(words[::2], axis=1) | np.stack(words[1::2], axis=1) << np.uint64(32)


def _words_of(seed: Any) -> np.ndarray | None:
    """Return the 32-bit words of a key, old or new, or None for anything else."""
    jax = sys.modules.get("jax")
    if jax is None:  # then nobody has a key
        return None
    if isinstance(seed, jax.Array) and jax.dtypes.issubdtype(seed.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(seed))
    if isinstance(seed, jax.Array | np.ndarray) and seed.dtype == np.uint32 and seed.ndim:
        words = np.asarray(seed)
        return words if words.shape[-1] in (2, 4) else None
    return None
