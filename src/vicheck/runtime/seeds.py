"""What `seed=` takes, everywhere: an integer or a JAX key."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vicheck.errors import ArgumentError, require_count

if TYPE_CHECKING:
    import jax

__all__ = ["Seed", "as_seed"]

Seed: TypeAlias = "int | jax.Array"
"""An integer from 0 on, or a JAX key."""

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
