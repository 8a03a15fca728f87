"""Compiled code that is quick to compile where a model is small, and fast where it is large."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

import jax
import numpy as np

__all__ = ["compiled", "is_large"]

_F = TypeVar("_F", bound=Callable[..., Any])

_QUICKER = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_copy_insertion_use_region_analysis": True,
}
"""XLA's older code generator for CPUs: half the time to compile small models, as fast after that;
for large ones it makes code that takes twice as long. And a closer look at which copies of a loop's
state are needed: without it they take a tenth of the time of small fits."""
_LARGE = 2**12
"""Numbers in z and the data from which on a model is large."""


def compiled(function: _F) -> _F:
    """Compile a function whose first argument is static: a program, or a tuple that begins so.

    Its data is the argument called ``data`` or ``shared``. Compiled code is kept by arguments.
    """
    names = list(inspect.signature(function).parameters)
    where = names.index("data" if "data" in names else "shared")

    @lru_cache(maxsize=2)
    def jitted(large: bool = False) -> Any:
        options = _QUICKER if not large and _has_options() else None
        return jax.jit(function, static_argnums=0, compiler_options=options)

    @wraps(function)
    def call(*args: Any) -> Any:
        program = args[0][0] if isinstance(args[0], tuple) else args[0]
        return jitted(is_large(program, args[where]))(*args)

    call.jitted = jitted  # type: ignore[attr-defined]
    return cast(_F, call)


def is_large(program: Any, data: Any) -> bool:
    """Whether one evaluation of a model keeps a processor busy, and several cores too."""
    size = program.dim + sum(np.size(leaf) for leaf in jax.tree.leaves(data))
    return bool(size >= _LARGE)


@lru_cache(maxsize=1)
def _has_options() -> bool:
    """Whether this XLA has the options: they are not part of its interface."""
    try:
        jax.jit(lambda x: x, compiler_options=_QUICKER).lower(0.0).compile()
    except Exception:
        return False
    return True
