"""A NumPyro model as a prior and a sum over rows of data: what can be evaluated in parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from numpyro import handlers
from numpyro.infer.util import potential_energy

from vicheck.adapters.numpyro.program import NumpyroProgram
from vicheck.adapters.numpyro.traces import WholePlates, tracing
from vicheck.model import Data, unravel
from vicheck.runtime.compiling import compiled
from vicheck.runtime.tracing import Traced

__all__ = ["Evaluator", "RowModel"]

Floats = NDArray[np.float64]
Rows = Mapping[str, NDArray[Any]]

_FEW, _MANY = 4, 32
"""Points that compiled code evaluates together."""


@dataclass(frozen=True)
class RowModel(Traced):
    """A model whose log density is a prior and a sum over rows, with everything but its arrays."""

    program: NumpyroProgram
    likelihood: tuple[tuple[str, int | None], ...]
    """Sites that are summed over rows, and the axis of their log densities that is over rows."""
    derived: tuple[str, ...]
    """Quantities that the model derives from its parameters alone."""

    @property
    def dim(self) -> int:
        """Length of z: how large the model is."""
        return self.program.dim

    @property
    def can_fill(self) -> bool:
        """Whether rows can be left out of the sum, so that blocks of rows can be filled up."""
        return all(axis is not None for _, axis in self.likelihood)

    def traces(self, use: str, data: Data) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        z = jax.ShapeDtypeStruct((self.dim,), np.float64)  # type: ignore[no-untyped-call]
        return getattr(self, use), (z, data)

    def prior(self, z: jax.Array, data: Data) -> jax.Array:
        """Log density of all that does not belong to the rows, Jacobians included."""
        function = handlers.block(
            WholePlates(self.program.function), hide=[name for name, _ in self.likelihood]
        )
        parts = unravel(z, self.program.layout)
        with tracing():
            return -potential_energy(function, (), self.program.arguments(data), parts)

    def rows(self, z: jax.Array, data: Data) -> jax.Array:
        """Log likelihood of rows: of the first ``count``, where blocks can be filled up."""
        arrays = {**data["shared"], **data["rows"]}
        total = jnp.zeros(())
        densities = self.densities(z, arrays)
        for name, axis in self.likelihood:
            each = densities[name]
            if axis is not None:
                each = jnp.moveaxis(each, axis, -1)
                each = jnp.where(jnp.arange(each.shape[-1]) < data["count"], each, 0.0)
            total += jnp.sum(each)
        return total

    def densities(self, z: jax.Array, arrays: Data) -> dict[str, jax.Array]:
        """Return the log densities of each site that belongs to the rows."""
        theta = self.program.constrain(z, arrays)
        known = {name: theta[name] for name, _ in self.program.layout}
        function = handlers.substitute(WholePlates(self.program.function), data=known)
        with tracing():
            sites = handlers.trace(function).get_trace(**self.program.arguments(arrays))
        found = {}
        for name, _ in self.likelihood:
            site = sites[name]
            each = jnp.asarray(site["fn"].log_prob(site["value"]))
            found[name] = each if site["scale"] is None else site["scale"] * each
        return found


@compiled("prior")
def _priors(model: RowModel, z: Any, data: Data) -> tuple[jax.Array, jax.Array]:
    return jax.vmap(jax.value_and_grad(model.prior), (0, None))(z, data)


@compiled("rows")
def _values(model: RowModel, z: Any, data: Data) -> tuple[jax.Array]:
    return (jax.vmap(model.rows, (0, None))(z, data),)


@compiled("rows")
def _values_and_gradients(model: RowModel, z: Any, data: Data) -> tuple[jax.Array, jax.Array]:
    return jax.vmap(jax.value_and_grad(model.rows), (0, None))(z, data)


class Evaluator:
    """Evaluates prior and rows of a model at points z, shape ``(n, d)``, given what rows share.

    What is computed is looked at once, and then taken to stay as it is.
    """

    def __init__(self, model: RowModel, shared: Data) -> None:
        self.model, self.shared = model.snapshot(), shared
        self._prepared: dict[Any, Callable[..., Any]] = {}

    def prior(self, z: Floats, example: Rows) -> tuple[Floats, Floats]:
        """Return log densities of all but the rows, and gradients; which rows does not matter."""
        values, gradients = self._at_points(_priors, z, {**example, **self.shared}, 0)
        return values, gradients

    def sums(self, z: Floats, rows: Rows, count: int, *, gradients: bool) -> tuple[Floats, ...]:
        """Return the log likelihood of a block of rows, and its gradients if they are wanted.

        Rows are in the types that are computed with, and the first ``count`` of them count.
        """
        data = {"rows": dict(rows), "shared": self.shared, "count": np.int64(count)}
        evaluate = _values_and_gradients if gradients else _values
        return self._at_points(evaluate, z, data, len(next(iter(rows.values()))))

    def _at_points(self, evaluate: Any, z: Floats, data: Any, num_rows: int) -> tuple[Floats, ...]:
        """Evaluate points a few or many at a time, for which code is compiled."""
        outputs, start = [], 0
        while start < len(z):
            size = _MANY if len(z) - start > _MANY // 2 else _FEW
            points = z[np.minimum(np.arange(start, start + size), len(z) - 1)]
            key = (evaluate, size, num_rows)
            if key not in self._prepared:
                self._prepared[key] = evaluate.prepared(self.model, points, data)
            # Which returns before the numbers are there: calls overlap.
            outputs.append(self._prepared[key](points, data))
            start += size
        return tuple(
            np.concatenate([np.asarray(part) for part in parts])[: len(z)]
            for parts in zip(*outputs, strict=True)
        )
