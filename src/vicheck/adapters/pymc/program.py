"""`PymcProgram`: what `vicheck.model.Program` asks for, from the graphs of a PyMC model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vicheck.adapters.host_calls import call_on_host
from vicheck.adapters.pymc.graphs import Graphs, Shapes, graphs_of
from vicheck.errors import ModelError
from vicheck.model import (
    Data,
    Layout,
    Model,
    Program,
    as_data,
    double_precision,
    ravel,
    unravel,
)

__all__ = ["PymcProgram", "model_of", "program_of"]

_GRID = (-8.0, -4.0, 0.0, 4.0, 8.0)
"""Where it is seen whether a parameter rises or falls with z."""


@dataclass(frozen=True, repr=False)
class PymcProgram(Program):
    """A PyMC model with everything but its data; equal to those of the same model."""

    graphs: Graphs
    layout: Layout
    shapes: Shapes
    """Shapes of the data the model was taken with."""
    elementwise: tuple[str, ...] = ()
    decreasing: tuple[str, ...] = ()

    def __reduce__(self) -> Any:
        return program_of, (self.graphs.model,)

    def log_density(self, z: jax.Array, data: Data) -> jax.Array:
        terms = self._evaluate("terms", self._parts(z), data)
        return sum((jnp.sum(term) for term in terms), jnp.zeros((), z.dtype))

    def constrain(self, z: jax.Array, data: Data) -> dict[str, jax.Array]:
        values = self._evaluate("constrained", self._parts(z), data)
        pairs = zip(self.graphs.constrained_names, values, strict=True)
        return {name: jnp.asarray(value, float) for name, value in pairs}

    def unconstrain(self, theta: Mapping[str, Any], data: Data) -> jax.Array:
        values = [jnp.asarray(theta[name], float) for name, _ in self.layout]
        unconstrained = self._evaluate("unconstrained", values, data)
        parts = {name: part for (name, _), part in zip(self.layout, unconstrained, strict=True)}
        for name, shape in self.layout:
            if jnp.shape(parts[name]) != shape:
                raise ModelError(
                    f"theta[{name!r}] must give {shape} unconstrained values, got "
                    f"{jnp.shape(theta[name])} on its own scale"
                )
        return ravel(parts, self.layout)

    def log_likelihood(self, z: jax.Array, data: Data) -> dict[str, jax.Array]:
        names = [rv.name for rv in self.graphs.observed]
        if not names:
            raise ModelError("the model has no likelihood: it observes nothing")
        terms = self._evaluate("terms", self._parts(z), data)
        by_name = dict(zip(self.graphs.term_names, terms, strict=True))
        return {name: by_name[name] for name in names}

    @property
    def observed(self) -> tuple[str, ...]:
        return tuple(self.graphs.targets)

    def is_elementwise(self, name: str) -> bool:
        return name in self.elementwise

    def is_decreasing(self, name: str) -> bool:
        return name in self.decreasing

    def simulate(self, key: jax.Array, data: Data) -> tuple[jax.Array, Data]:
        names = [*(rv.name for rv in self.graphs.free), *self._observed_names()]
        drawn = self._draw(names, _draw, key, data, {})
        simulated = self._by_data(drawn)
        return self.unconstrain(drawn, self._filled(data) | simulated), simulated

    def replicate(self, key: jax.Array, z: jax.Array, data: Data) -> Data:
        theta = self.constrain(z, data)
        given = {name: theta[name] for name, _ in self.layout}
        drawn = self._draw(self._observed_names(), _draw_observed, key, data, given)
        return self._by_data(drawn)

    def locate_trouble(self, z: jax.Array, data: Data) -> str:
        terms = self._evaluate("terms", self._parts(z), data)
        sums = {
            name: float(jnp.sum(term))
            for name, term in zip(self.graphs.term_names, terms, strict=True)
        }
        bad = [
            f"variable {name!r} (log density {value})"
            for name, value in sums.items()
            if not np.isfinite(value)
        ]
        return ", ".join(bad) or "the gradient of the log density"

    def check_data(self, data: Data) -> None:
        self._check_types(data)
        self._check_totals(data)
        shapes = self._shapes_of_variables(data)
        for name, shape in self.layout:
            if self._value_shape(shapes, name) != shape:
                raise ModelError(
                    f"with this data parameter {name!r} has shape "
                    f"{self._value_shape(shapes, name)}, before {shape}: make a new model with "
                    "from_pymc"
                )
        for name, variable in self.graphs.targets.items():
            came = np.shape(data[name])
            if not self.graphs.refusal and came != shapes[variable]:
                raise ModelError(
                    f"data for variable {variable!r} must have shape {shapes[variable]}, got {came}"
                )
        self._check_density(data)

    # ---- evaluation

    def _parts(self, z: jax.Array) -> list[jax.Array]:
        return list(unravel(z, self.layout).values())

    def _evaluate(self, kind: str, parameters: list[jax.Array], data: Data) -> list[jax.Array]:
        arrays = {
            name: jnp.asarray(data[name], variable.dtype)
            for name, variable in self.graphs.inputs.items()
        }
        shapes = tuple((name, jnp.shape(array)) for name, array in arrays.items())
        function = getattr(self.graphs, kind)(shapes)
        return list(function(*map(jnp.asarray, parameters), *arrays.values()))

    # ---- simulation

    def require_simulation(self) -> None:
        if self.graphs.refusal:
            raise ModelError(f"the model cannot simulate data: {self.graphs.refusal}")

    def _draw(
        self, names: list[str], draw: Any, key: jax.Array, data: Data, given: dict[str, Any]
    ) -> dict[str, jax.Array]:
        """Let PyTensor draw: it has every distribution, and its generators take a seed."""
        self.require_simulation()
        filled = self._filled(data)
        shapes = self._shapes_of_variables(
            {name: np.zeros(np.shape(value)) for name, value in filled.items()}
        )
        variables = {rv.name: rv for rv in (*self.graphs.free, *self.graphs.observed)}
        results = [(shapes[name], np.dtype(variables[name].dtype)) for name in names]
        inputs = self.graphs.inputs
        arguments = given | {
            name: jnp.asarray(filled[name], inputs[name].dtype)
            for name in self.graphs.needed_to_draw
        }
        drawn = call_on_host(
            partial(draw, self.graphs),
            results,
            jax.random.key_data(key),
            arguments,
            vmap_method="sequential",
        )
        return dict(zip(names, drawn, strict=True))

    def _filled(self, data: Data) -> Data:
        """Return data with zeros for what is not there yet: distributions may need its shape."""
        shapes = dict(self.shapes)
        return {
            name: data[name] if name in data else jnp.zeros(shapes[name], variable.dtype)
            for name, variable in self.graphs.inputs.items()
        }

    def _by_data(self, drawn: Mapping[str, jax.Array]) -> Data:
        return {name: drawn[variable] for name, variable in self.graphs.targets.items()}

    def _observed_names(self) -> list[str]:
        return [rv.name for rv in self.graphs.observed]

    # ---- checks

    def _check_types(self, data: Data) -> None:
        for name, variable in self.graphs.inputs.items():
            array = np.asarray(data[name])
            if variable.dtype.startswith(("int", "uint")) and (array != np.round(array)).any():
                raise ModelError(f"data {name!r} must hold integers, got fractions")
            if array.ndim != variable.ndim:
                raise ModelError(
                    f"data {name!r} must have {variable.ndim} dimensions, got shape {array.shape}"
                )

    def _check_totals(self, data: Data) -> None:
        for name, variable in self.graphs.targets.items():
            totals = self.graphs.totals.get(variable, ())
            for total, size in zip(totals, np.shape(data[name]), strict=False):
                if total not in (None, size):
                    raise ModelError(
                        f"variable {variable!r} has total_size {total}, but {size} observations: "
                        "the log density would not be that of all the data"
                    )

    def _shapes_of_variables(self, data: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        try:
            return self.graphs.shapes_of_variables(data)
        except Exception as error:  # whatever PyTensor raises for shapes that do not fit
            raise _unfit(data, error) from error

    def _value_shape(self, shapes: Mapping[str, tuple[int, ...]], name: str) -> tuple[int, ...]:
        where = [rv.name for rv in self.graphs.free].index(name)
        return shapes[self.graphs.values[self.graphs.free[where]].name]

    def _check_density(self, data: Data) -> None:
        with double_precision():
            try:
                jax.eval_shape(self.log_density, jnp.zeros(self.dim), data)
            except ModelError:
                raise
            except Exception as error:  # whatever PyTensor and JAX raise for such shapes
                raise _unfit(data, error) from error


def model_of(model: Any) -> Model:
    """Return a PyMC model with the data it holds."""
    program = program_of(model)
    data = {name: as_data(name, value) for name, value in program.graphs.data.items()}
    program.check_data(data)
    dims, coords = _dims_of(model)
    return Model(program, data, name=str(model.name or ""), dims=dims, coords=coords)


def _dims_of(model: Any) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[Any, ...]]]:
    """Return the dimensions of variables and the labels along them, as far as there are any."""
    dims = {
        str(name): tuple(map(str, each))
        for name, each in model.named_vars_to_dims.items()
        if None not in each
    }
    coords = {str(dim): tuple(labels) for dim, labels in model.coords.items() if labels is not None}
    return dims, coords


def program_of(model: Any) -> PymcProgram:
    """Return the program of a PyMC model, with the shapes of the data it holds."""
    graphs = graphs_of(model)
    data = graphs.data
    shapes = tuple((name, np.shape(value)) for name, value in data.items())
    try:
        variables = graphs.shapes_of_variables(data)
    except Exception as error:
        raise _unfit(data, error) from error
    layout = tuple((rv.name, variables[graphs.values[rv].name]) for rv in graphs.free)
    alone = [name for name, _ in layout if graphs.is_entry_by_entry(name)]
    rising, falling = _directions(graphs, alone, data)
    return PymcProgram(graphs, layout, shapes, rising + falling, falling)


def _directions(
    graphs: Graphs, names: list[str], data: Data
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which parameters rise and which fall with z; an angle, say, does neither."""
    rows = [graphs.constrain_some(at, names, data) for at in _GRID]
    steps = {name: np.diff(values, axis=0) for name, *values in zip(names, *rows, strict=True)}
    rising = tuple(n for n, step in steps.items() if (step >= 0.0).all() and (step > 0.0).any())
    falling = tuple(n for n, step in steps.items() if (step <= 0.0).all() and (step < 0.0).any())
    return rising, falling


def _draw(graphs: Graphs, key: Any, arrays: Data) -> list[Any]:
    return list(graphs.draw(_integers(key), _copied(arrays)))


def _draw_observed(graphs: Graphs, key: Any, arrays: Data) -> list[Any]:
    arrays = _copied(arrays)
    theta = [arrays[rv.name] for rv in graphs.free]
    return list(graphs.draw_observed(_integers(key), arrays, theta))


def _copied(arrays: Data) -> Data:
    """Return arrays that outlive the call: PyTensor keeps what it was called with last."""
    return {name: np.array(array) for name, array in arrays.items()}


def _integers(key: Any) -> tuple[int, ...]:
    return tuple(int(word) for word in np.asarray(key).ravel())


def _unfit(data: Mapping[str, Any], error: Exception) -> ModelError:
    shapes = ", ".join(f"{name} {np.shape(value)}" for name, value in data.items())
    reason = str(error).strip().splitlines()[0] if str(error).strip() else ""
    return ModelError(
        f"the model cannot be run with data of shapes {shapes or 'none'}: "
        f"{type(error).__name__}: {reason}"
    )
