"""Tells models apart by what they compute, so that results of different ones are never mixed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vicheck.calibration.quantities import Quantities
from vicheck.model import Model, Program

__all__ = ["fingerprint_of_code", "fingerprint_of_model"]


def fingerprint_of_model(model: Model, quantities: Quantities) -> str:
    """Return a digest of the density, of how data is simulated, of the quantities and the data.

    Not of source code: what a model computes may hang on numbers and functions outside it.
    """
    leaves, structure = jax.tree.flatten(model.data)
    shapes = tuple((np.shape(leaf), jax.dtypes.result_type(leaf)) for leaf in leaves)
    digest = hashlib.sha256(_code(model.program, quantities, structure, shapes))
    for leaf in leaves:
        _add(digest, leaf)
    return digest.hexdigest()[:16]


@lru_cache(maxsize=64)
def _code(program: Program, quantities: Quantities, structure: Any, shapes: Any) -> bytes:
    """Return a digest of what is computed from data of such shapes; kept, as compiled code is."""
    given = jax.tree.unflatten(structure, [jnp.zeros(shape, dtype) for shape, dtype in shapes])
    z, key = jnp.zeros(program.dim), jax.random.key(0)
    simulated = jax.eval_shape(program.simulate, key, given)[1]
    data = given | jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), simulated)
    digest = hashlib.sha256(f"{program.layout!r}{program.identity}".encode())
    for traced in (
        jax.make_jaxpr(program.log_density)(z, data),
        jax.make_jaxpr(program.simulate)(key, given),
        jax.make_jaxpr(lambda z, data: quantities.drawn(program, z, data))(z, data),
    ):
        # Some operations print the address of a function.
        digest.update(_without_addresses(str(traced)).encode())
        for constant in traced.consts:
            _add(digest, constant)
    return digest.digest()


def fingerprint_of_code(function: Callable[..., Any]) -> str:
    """Return the name of a function and a digest of its code, as far as it can be seen."""
    if isinstance(function, partial):
        arguments = _without_addresses(repr((function.args, function.keywords)))
        inner = fingerprint_of_code(function.func)
        return f"{inner} {hashlib.sha256(arguments.encode()).hexdigest()[:16]}"
    named = function if hasattr(function, "__qualname__") else type(function)
    name = f"{named.__module__}.{named.__qualname__}"
    code = getattr(function, "__code__", None)
    if code is None:
        return name
    constants = [item for item in code.co_consts if isinstance(item, str | int | float | tuple)]
    text = code.co_code + repr((constants, code.co_names)).encode()
    return f"{name} {hashlib.sha256(text).hexdigest()[:16]}"


def _without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "", text)


def _add(digest: Any, array: Any) -> None:
    if jnp.issubdtype(getattr(array, "dtype", np.float64), jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    array = np.ascontiguousarray(array)
    digest.update(f"{array.dtype}{array.shape}".encode())
    digest.update(array.tobytes())
