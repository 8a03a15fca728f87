"""Densities that Stan computes on the host, as functions that JAX can batch and differentiate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.adapters.host_calls import call_on_host
from vicheck.adapters.stan.sources import Source, StanModel, gradient_rows, value_rows
from vicheck.model import Data

__all__ = ["log_density", "on_host"]

Floats = NDArray[np.float64]

_STEP = 6e-6
"""Relative step of central differences of gradients: the cube root of the rounding error."""


class HostProgram(Protocol):
    """What has to be known of a program: where its models come from, and the length of z."""

    @property
    def source(self) -> Source:
        """Makes models of data."""
        ...

    @property
    def dim(self) -> int:
        """Length of z."""
        ...


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def log_density(program: HostProgram, z: jax.Array, data: Data) -> jax.Array:
    """Log density at z, or at each row of a batch, with derivatives by Stan."""
    (value,) = on_host(program, lambda model, rows: (value_rows(model, rows),), [()], z, data)
    return value


@log_density.defjvp
def _(program: HostProgram, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    value, gradient = _value_and_gradient(program, *primals)
    return value, gradient @ tangents[0]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _value_and_gradient(
    program: HostProgram, z: jax.Array, data: Data
) -> tuple[jax.Array, jax.Array]:
    value, gradient = on_host(program, gradient_rows, [(), (program.dim,)], z, data)
    return value, gradient


@_value_and_gradient.defjvp
def _(program: HostProgram, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Curvature by central differences of Stan's gradients."""
    z, data = primals
    direction = tangents[0]
    value, gradient = _value_and_gradient(program, z, data)
    length = jnp.maximum(jnp.abs(direction).max(), np.finfo(np.float64).tiny)
    step = _STEP * (1.0 + jnp.abs(z).max()) / length
    (up, down) = (
        _value_and_gradient(program, z + sign * step * direction, data)[1] for sign in (1.0, -1.0)
    )
    curved = (up - down) / (2.0 * step)
    return (value, gradient), (gradient @ direction, curved)


def on_host(
    program: HostProgram,
    function: Callable[[StanModel, Floats], tuple[Floats, ...]],
    shapes: list[tuple[int, ...]],
    z: jax.Array,
    data: Data,
) -> list[jax.Array]:
    """Call a function of a model and rows of z; JAX hands over whole batches."""
    ranks = {name: jnp.ndim(value) for name, value in data.items()}

    def host(points: Floats, arrays: Data) -> list[Floats]:
        leads = {name: array.shape[: array.ndim - ranks[name]] for name, array in arrays.items()}
        shared = np.broadcast_shapes(*leads.values())
        batch = np.broadcast_shapes(points.shape[:-1], shared)
        points = np.broadcast_to(points, (*batch, points.shape[-1]))
        arrays_out = [np.empty((*batch, *shape)) for shape in shapes]
        for index in np.ndindex(*shared):
            one = {name: array[_inside(index, leads[name])] for name, array in arrays.items()}
            where = tuple(i if n > 1 else slice(None) for i, n in zip(index, shared, strict=True))
            rows = points[where]
            model = program.source.model(one)
            results = function(model, rows.reshape(-1, rows.shape[-1]))
            for array, result, shape in zip(arrays_out, results, shapes, strict=True):
                array[where] = result.reshape((*rows.shape[:-1], *shape))
        return arrays_out

    results = [(shape, np.float64) for shape in shapes]
    return call_on_host(host, results, z, data, vmap_method="expand_dims")


def _inside(index: tuple[int, ...], lead: tuple[int, ...]) -> tuple[int, ...]:
    """Return an index into leading dimensions of which some have been kept at one."""
    return tuple(i if n > 1 else 0 for i, n in zip(index, lead, strict=True)) if lead else ()
