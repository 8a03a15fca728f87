"""Models given as a log density written in JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vicheck.draws import require_function
from vicheck.errors import ModelError, described, not_in_jax
from vicheck.model import (
    Data,
    Layout,
    Model,
    Program,
    as_data,
    double_precision,
    name_of,
    ravel,
    unravel,
)

__all__ = ["from_log_density"]


def from_log_density(
    log_density: Callable[..., Any], example: Any, *, data: Mapping[str, Any] | None = None
) -> Model:
    """Wrap a log density written in JAX.

    Parameters
    ----------
    log_density
        Function of the parameters, or of the parameters and the data, that returns a scalar: the
        log joint density up to a constant, on the unconstrained scale.
    example
        Parameters of the right shape: a vector, or a dictionary of named arrays.
    data
        Named arrays passed to the function as its second argument; without them it has only one.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> model = from_log_density(lambda x: -jnp.sum(x**2) / 2, jnp.zeros(3))
    >>> model.coordinates
    ('x[0]', 'x[1]', 'x[2]')
    >>> float(model.log_density([1.0, 1.0, 0.0]))
    -1.0
    """
    require_function("log_density", log_density)
    named = isinstance(example, Mapping)
    parts = (
        {name: np.shape(value) for name, value in example.items()}
        if named
        else {"x": np.shape(example)}
    )
    program = _DensityProgram(log_density, tuple(parts.items()), named, data is not None)
    if not program.dim:
        raise ModelError("example holds no parameters")
    arrays = {name: as_data(name, value) for name, value in (data or {}).items()}
    program.check_data(arrays)
    return Model(program, arrays, name=name_of(log_density))


@dataclass(frozen=True)
class _DensityProgram(Program):
    """A function of the parameters, and of the data if there are any."""

    function: Callable[..., Any]
    layout: Layout
    named: bool
    takes_data: bool

    def log_density(self, z: jax.Array, data: Data) -> jax.Array:
        parts = unravel(z, self.layout)
        theta = parts if self.named else parts["x"]
        return self.function(theta, data) if self.takes_data else self.function(theta)

    def constrain(self, z: jax.Array, data: Data) -> dict[str, jax.Array]:
        return unravel(z, self.layout)

    def unconstrain(self, theta: Mapping[str, Any], data: Data) -> jax.Array:
        for name, shape in self.layout:
            if np.shape(theta[name]) != shape:
                raise ModelError(f"{name} must have shape {shape}, got {np.shape(theta[name])}")
        return ravel(theta, self.layout)

    def locate_trouble(self, z: jax.Array, data: Data) -> str:
        return "the log density itself"

    def check_data(self, data: Data) -> None:
        with double_precision():
            try:
                value = jax.eval_shape(self.log_density, jnp.zeros(self.dim), data)
            except jax.errors.JAXTypeError as error:
                raise ModelError(not_in_jax("log_density", error)) from error
            except KeyError as error:
                raise ModelError(
                    f"log_density asks for {error}, but example has: "
                    f"{', '.join(name for name, _ in self.layout)}"
                    + (f"; and data: {', '.join(data)}" if data else "")
                ) from error
            except (TypeError, ValueError) as error:
                shapes = ", ".join(f"{name} {np.shape(item)}" for name, item in data.items())
                raise ModelError(
                    f"log_density cannot take data of shapes {shapes or 'none'}: {error}"
                ) from error
        if getattr(value, "shape", None) != ():
            raise ModelError(f"log_density must return a scalar, got {described(value)}")
