"""The settings of JAX that our own code runs under, whatever the caller's are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import jax

__all__ = ["double_precision"]

_OURS: tuple[tuple[Callable[[Any], AbstractContextManager[Any]], Any], ...] = (
    (jax.enable_x64, True),
    # The same seed gives the same bits.
    (jax.default_prng_impl, "threefry2x32"),
    (jax.threefry_partitionable, True),
    (jax.enable_custom_prng, False),
    (jax.default_matmul_precision, None),
    (jax.softmax_custom_jvp, False),
    # A search may meet NaN and infinity on its way, and says so itself when it cannot go on.
    (jax.debug_nans, False),
    (jax.debug_infs, False),
    # What JAX can be set to refuse in the caller's own code.
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
"""JAX's own defaults, but for the first."""


@contextmanager
def double_precision() -> Iterator[None]:
    """Let JAX compute in float64 and with its default settings; the caller's are left alone.

    Settings of this kind belong to a thread: code that is run in another enters this there.
    """
    with ExitStack() as stack:
        for setting, value in _OURS:
            stack.enter_context(setting(value))
        yield
