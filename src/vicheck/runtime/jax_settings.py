"""The JAX settings that our own code runs under, whatever the caller has set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import jax

__all__ = ["double_precision", "is_ours"]

_OURS: tuple[tuple[Callable[[Any], AbstractContextManager[Any]], Any], ...] = (
    (jax.enable_x64, True),
    # The same seed gives the same bits.
    (jax.default_prng_impl, "threefry2x32"),
    (jax.threefry_partitionable, True),
    (jax.enable_custom_prng, False),
    (jax.default_matmul_precision, None),
    (jax.softmax_custom_jvp, False),
    # A search may pass through NaN and infinity; it reports them itself if it cannot continue.
    (jax.debug_nans, False),
    (jax.debug_infs, False),
    # Checks that callers may want in their own code, but not in ours.
    (jax.numpy_rank_promotion, "allow"),
    (jax.numpy_dtype_promotion, "standard"),
    (jax.legacy_prng_key, "allow"),
    (jax.debug_key_reuse, False),
    (jax.check_tracer_leaks, False),
    (jax.thread_guard, False),
    (jax.transfer_guard_host_to_device, "allow"),
    (jax.transfer_guard_device_to_host, "allow"),
    (jax.transfer_guard_device_to_device, "allow"),
    (jax.disable_jit, False),
)
"""JAX's own defaults, except for the first."""


@contextmanager
def double_precision() -> Iterator[None]:
    """Make JAX compute in float64 with its default settings, leaving the caller's alone.

    These settings are per thread: code that runs in another thread must enter this there.
    """
    with ExitStack() as stack:
        for setting, value in _OURS:
            stack.enter_context(setting(value))
        yield


def is_ours(name: str) -> bool:
    """Whether a setting of JAX, by its full name, always has the same value in our code."""
    return name in _NAMES


_NAMES = frozenset(f"jax_{setting.__name__}" for setting, _ in _OURS)
