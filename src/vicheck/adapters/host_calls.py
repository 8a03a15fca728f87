"""Functions that run on the host inside compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental.buffer_callback import buffer_callback

from vicheck.runtime.interrupts import check_interrupt

__all__ = ["call_on_host"]


def call_on_host(
    function: Callable[..., Sequence[Any]],
    results: Sequence[tuple[tuple[int, ...], Any]],
    *args: Any,
    vmap_method: str,
) -> list[jax.Array]:
    """Call a function of NumPy arrays from compiled code.

    As `jax.pure_callback` does, which is of no use here for two reasons. It hands arrays over by
    the setting of ``jax_enable_x64`` in the thread of the callback, which is not the one that
    compiled the call: all numbers would be rounded to 32 bits. And it copies larger arrays in
    threads that it may be waiting for itself: with several calls at a time it can hang. Buffers are
    read and written in place.

    Parameters
    ----------
    function
        Of as many arguments as ``args``, each a pytree of arrays, with the axes that ``vmap`` puts
        in front; it returns a sequence of arrays. It must not keep or change its arguments.
    results
        Shape and type of each, without those axes.
    *args
        What it is called with.
    vmap_method
        As for `jax.pure_callback`.
    """

    def host(_: Any, buffers: Any, *args: Any) -> None:
        check_interrupt()  # compiled code that calls the host may run for long
        arrays = function(*jax.tree.map(np.asarray, args))
        for buffer, array in zip(buffers, arrays, strict=True):
            np.asarray(buffer)[...] = array

    shapes = [jax.ShapeDtypeStruct(shape, kind) for shape, kind in results]  # type: ignore[no-untyped-call]
    call: Any = buffer_callback(host, shapes, vmap_method=vmap_method)
    outputs: list[jax.Array] = call(*args)
    return outputs
