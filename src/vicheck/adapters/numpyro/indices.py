"""Indices among a model's data that lie beyond what they index: JAX takes the last entry instead.

Group numbers that count from 1 are the usual cause, and nothing else would say so.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental import checkify

from vicheck.errors import ModelError, in_brief
from vicheck.model import Data

__all__ = ["require_indices"]

_FOUND = re.compile(r"index (-?\d+) is out of bounds for axis (\d+) with size (\d+)")


def require_indices(evaluate: Callable[[Data], Any], data: Data) -> None:
    """Raise when data count from 1 where they index arrays, and warn of other indices too large.

    Parameters
    ----------
    evaluate
        Runs the user's code with data; its result is not used.
    data
        What is known of it; without integers there are no indices.

    Raises
    ------
    ModelError
        When an integer array from 1 on reaches the size of what is indexed; it is named.
    """
    integers = {
        jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(data)
        if np.asarray(leaf).dtype.kind in "iu" and np.size(leaf)
    }
    if not integers or not _may_exceed(evaluate, data, integers):
        return
    message = _message_of(evaluate, data)
    found = _FOUND.search(message or "")
    if found is None or _message_of(evaluate, _with_zeros(data)) == message:
        return
    index, size = int(found.group(1)), int(found.group(3))
    for name, array in integers.items():
        if array.min() == 1 and array.max() == size:
            raise ModelError(
                f"{name} is used as an index and counts from 1: it reaches {size} in an array of "
                f"{size} entries, whose last is number {size - 1}",
                hint=f"subtract 1 from {name}; JAX would silently take the last entry",
            )
    culprits = [name for name, array in integers.items() if array.max() == index]
    whose = f" ({', '.join(culprits)})" if culprits else ""
    warnings.warn(
        f"the model uses index {index}{whose} in an array of {size} entries: JAX silently takes "
        "an entry at its end instead",
        UserWarning,
        stacklevel=2,
    )


def _may_exceed(evaluate: Callable[[Data], Any], data: Data, integers: Data) -> bool:
    """Whether any integer is as large as the smallest array that is indexed: no shape says more."""
    try:
        traced = jax.make_jaxpr(lambda data: (evaluate(data), 0)[1])(data)
    except Exception:  # what is wrong with the model is said elsewhere
        return False
    sizes = list(_indexed(traced.jaxpr))
    return any(array.max() >= min(sizes, default=np.inf) for array in integers.values())


def _indexed(jaxpr: Any) -> Iterator[int]:
    """Yield the lengths of axes along which gathers pick single entries, also within calls."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "gather":
            shape = equation.invars[0].aval.shape
            picked = equation.params["slice_sizes"]
            yield from (size for size, part in zip(shape, picked, strict=True) if part == 1 < size)
        for value in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda each: hasattr(each, "jaxpr")
        ):
            inner = getattr(value, "jaxpr", value if hasattr(value, "eqns") else None)
            if inner is not None:
                yield from _indexed(inner)


def _with_zeros(data: Data) -> Data:
    """Return data whose integers are zero: what is out of bounds then is no index among them.

    NumPyro's own code for correlation matrices, say, counts one entry too many, and drops it.
    """

    def zeroed(leaf: Any) -> Any:
        array = np.asarray(leaf)
        return np.zeros_like(array) if array.dtype.kind in "iu" else leaf

    zeros: Data = jax.tree.map(zeroed, data)
    return zeros


def _message_of(evaluate: Callable[[Data], Any], data: Data) -> str | None:
    """Return what JAX's checks of indices say of the first that is out of bounds."""

    def run(data: Data) -> int:
        evaluate(data)
        return 0

    try:
        error, _ = checkify.checkify(run, errors=checkify.index_checks)(data)
    except Exception as problem:  # a model that cannot be checked so may be right all the same
        return in_brief(problem) if "out-of-bounds" in str(problem) else None
    said: str | None = error.get()
    return said
