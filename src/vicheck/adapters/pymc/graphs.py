"""PyMC models as graphs of PyTensor: functions of the value variables and of all data.

What a model conditions on and what it observes are constants and shared variables inside PyMC; here
they become inputs. Graphs are specialised to the shapes of the data before they go to JAX, which
must know every shape.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.basic import transformed_conditional_logp
from pymc.logprob.utils import replace_rvs_by_values
from pymc.model.transform.conditioning import observe
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.type import TensorType

from vicheck.adapters.pymc.compiling import in_double_precision, replace, run_quickly, to_jax
from vicheck.adapters.pymc.parts import (
    held_by,
    holder_of,
    is_data,
    is_stream,
    is_used,
    reasons_against_drawing,
    shared_variables,
    signature_of,
    total_sizes,
    unshaped_like,
    whole_of_minibatches,
    whole_sizes,
)
from vicheck.errors import ModelError

__all__ = ["Graphs", "Shapes", "graphs_of", "observing"]

Shapes = tuple[tuple[str, tuple[int, ...]], ...]
Built = tuple[list[Any], list[Any]]
"""Inputs and outputs of a graph."""

_BUILDING = threading.RLock()
"""PyTensor's rewrites and compiled functions share state: one thread at a time."""
_HINT_DISCRETE = "marginalise it out, for example with pm.Mixture or pymc_extras.marginalize"


@dataclass(frozen=True, eq=False, repr=False)
class Graphs:
    """The graphs of a model, and what is known about its variables."""

    model: Any
    free: tuple[Any, ...]
    """Parameters: random variables that are not observed."""
    observed: tuple[Any, ...]
    deterministics: tuple[Any, ...]
    potentials: tuple[Any, ...]
    transforms: Mapping[Any, Any]
    """From each random variable to the scale of the density, or None."""
    values: Mapping[Any, Any]
    """Input of each parameter and of each observed variable, on the scale of the density."""
    inputs: Mapping[str, Any]
    """Input of each dataset, its shape unknown."""
    holders: Mapping[str, Any]
    """The constant or shared variable that holds each dataset in PyMC."""
    replaced: Mapping[Any, Any]
    """What takes the place of shared variables and of the values of observed variables."""
    targets: Mapping[str, str]
    """Datasets that are observed, and the variables they belong to."""
    totals: Mapping[str, tuple[int | None, ...]]
    """Numbers of observations that minibatches of observed variables stand for."""
    refusal: str
    """Why no data can be simulated, if so."""
    in_minibatches: bool
    """Whether the model sees a part of its data at a time."""
    _kept: dict[Any, Any] = field(default_factory=dict)

    @property
    def data(self) -> dict[str, Any]:
        """The data that the model holds now."""
        return {name: held_by(holder) for name, holder in self.holders.items()}

    @property
    def term_names(self) -> tuple[str, ...]:
        """Names of what `terms` returns."""
        return tuple(v.name for v in (*self.free, *self.observed, *self.potentials))

    @property
    def constrained_names(self) -> tuple[str, ...]:
        """Names of what `constrained` returns."""
        return tuple(v.name for v in (*self.free, *self.deterministics))

    def terms(self, shapes: Shapes) -> Callable[..., Any]:
        """Return the log density of each variable and potential, in JAX.

        It is a function of the value variables and of the data of these shapes.
        """
        return self._in_jax("terms", self._terms, shapes)

    def constrained(self, shapes: Shapes) -> Callable[..., Any]:
        """Return parameters and deterministics as a function in JAX of value variables and data."""
        return self._in_jax("constrained", self._constrained, shapes)

    def unconstrained(self, shapes: Shapes) -> Callable[..., Any]:
        """Return value variables as a function in JAX of parameters on their own scale and data."""
        return self._in_jax("unconstrained", self._unconstrained, shapes)

    def shapes_of_variables(self, data: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all random variables, and of value variables by their names."""
        variables = {rv.name: rv for rv in (*self.free, *self.observed)}
        variables |= {self.values[rv].name: self._forward(rv, rv) for rv in self.free}

        def build() -> Built:
            return [], [pt.as_tensor(variable.shape) for variable in variables.values()]

        shapes = self._drawn("shapes", build, (0,), data)
        return {name: tuple(map(int, shape)) for name, shape in zip(variables, shapes, strict=True)}

    @property
    def needed_to_draw(self) -> tuple[str, ...]:
        """Datasets that random variables depend on."""
        with _BUILDING:
            _, outputs = self._built("draw", self._all)
        used = set(graph_inputs(outputs))
        return tuple(name for name, variable in self.inputs.items() if variable in used)

    def draw(self, key: Sequence[int], data: Mapping[str, Any]) -> list[Any]:
        """Draw all parameters and then all observed variables; the key decides every bit."""
        return self._drawn("draw", self._all, key, data)

    def draw_observed(
        self, key: Sequence[int], data: Mapping[str, Any], theta: Sequence[Any]
    ) -> list[Any]:
        """Draw all observed variables given the parameters on their own scale."""

        def build() -> Built:
            known = {rv: rv.type() for rv in self.free}
            return list(known.values()), replace(self.observed, known)

        return self._drawn("draw observed", build, key, data, theta)

    def constrain_some(self, at: float, names: Sequence[str], data: Mapping[str, Any]) -> list[Any]:
        """Return some parameters where all value variables have one value, without JAX."""

        def build() -> Built:
            inputs, outputs = self._constrained()
            return inputs, [outputs[self.constrained_names.index(name)] for name in names]

        shapes = self.shapes_of_variables(data)
        values = [np.full(shapes[self.values[rv].name], at) for rv in self.free]
        return self._drawn("constrain some", build, (0,), data, values)

    def is_entry_by_entry(self, name: str) -> bool:
        """Whether each entry of a parameter depends on one entry of its own value variable only."""
        where = self.constrained_names.index(name)
        with _BUILDING:
            _, graphs = self._built("constrained", self._constrained)
        own = self.values[self.free[where]]
        others = {self.values[rv] for rv in self.free} - {own}
        on_the_way: list[Any] = [v for v in ancestors([graphs[where]]) if own in ancestors([v])]
        return not others.intersection(ancestors([graphs[where]])) and all(
            v is own or (isinstance(v.owner.op, Elemwise | DimShuffle) and v.ndim == own.ndim)
            for v in on_the_way
        )

    # ---- graphs

    def _all(self) -> Built:
        return [], [*self.free, *self.observed]

    def _terms(self) -> Built:
        maps = {"rvs_to_values": dict(self.values), "rvs_to_transforms": dict(self.transforms)}
        terms = transformed_conditional_logp([*self.free, *self.observed], **maps)
        potentials = replace_rvs_by_values(list(self.potentials), **maps)
        return self._value_variables(), [*terms, *potentials]

    def _constrained(self) -> Built:
        outputs = replace_rvs_by_values(
            [*self.free, *self.deterministics],
            rvs_to_values=dict(self.values),
            rvs_to_transforms=dict(self.transforms),
        )
        return self._value_variables(), outputs

    def _unconstrained(self) -> Built:
        theta = {rv: rv.type() for rv in self.free}
        known = theta | {rv: self.values[rv] for rv in self.observed}
        outputs = replace([self._forward(rv, theta[rv]) for rv in self.free], known)
        return list(theta.values()), outputs

    def _forward(self, rv: Any, value: Any) -> Any:
        transform = self.transforms[rv]
        return value if transform is None else transform.forward(value, *rv.owner.inputs)

    def _value_variables(self) -> list[Any]:
        return [self.values[rv] for rv in self.free]

    # ---- functions

    def _built(self, kind: str, build: Callable[[], Built]) -> Built:
        """Return a graph in which all data are inputs of unknown shape."""
        if kind not in self._kept:
            inputs, outputs = build()
            self._kept[kind] = inputs, replace(outputs, self.replaced)
        kept: Built = self._kept[kind]
        return kept

    def _in_jax(self, kind: str, build: Callable[[], Built], shapes: Shapes) -> Callable[..., Any]:
        with _BUILDING:
            if (kind, shapes) not in self._kept:
                inputs, outputs = self._built(kind, build)
                known = {
                    self.inputs[name]: pt.tensor(
                        name, dtype=self.inputs[name].dtype, shape=dict(shapes)[name]
                    )
                    for name in self.inputs
                }
                outputs = replace(outputs, known)
                function = to_jax(
                    [*inputs, *known.values()], outputs, bool(self.model.check_bounds)
                )
                self._kept[kind, shapes] = function
            kept: Callable[..., Any] = self._kept[kind, shapes]
            return kept

    def _drawn(
        self,
        kind: str,
        build: Callable[[], Built],
        key: Sequence[int],
        data: Mapping[str, Any],
        arguments: Sequence[Any] = (),
    ) -> list[Any]:
        """Run a graph with random variables, which compiled code of PyTensor draws."""
        with _BUILDING:
            inputs, outputs = self._built(kind, build)
            if ("function", kind) not in self._kept:
                streams = {v: v.type() for v in graph_inputs(outputs) if is_stream(v)}
                outputs = replace(outputs, streams)
                used = set(graph_inputs(outputs))
                needed = {name: v for name, v in self.inputs.items() if v in used}
                function = run_quickly([*streams.values(), *inputs, *needed.values()], outputs)
                self._kept["function", kind] = len(streams), needed, function
            num_streams, needed, function = self._kept["function", kind]
            generators = [np.random.default_rng((*key, index)) for index in range(num_streams)]
            arrays = [np.asarray(data[name], v.dtype) for name, v in needed.items()]
            drawn: list[Any] = function(*generators, *arguments, *arrays)
            return drawn


def graphs_of(model: Any) -> Graphs:
    """Find out what a PyMC model is made of, or say why it cannot be used.

    Raises
    ------
    ModelError
        When it has no parameters or discrete ones, or is not in float64.
    """
    for rv in model.free_RVs:
        if not isinstance(rv.type, TensorType):
            raise ModelError(
                f"variable {rv.name!r} is of pymc.dims, whose variables have no plain arrays: "
                "write the model with pm distributions"
            )
        if rv.dtype.startswith(("int", "uint", "bool")):
            raise ModelError(f"variable {rv.name!r} is a discrete parameter: {_HINT_DISCRETE}")
        if rv.dtype != "float64":
            raise ModelError(
                f"variable {rv.name!r} is computed in {rv.dtype}, in which khat comes out wrong: "
                "set pytensor.config.floatX = 'float64' before building the model"
            )
    if not model.free_RVs:
        raise ModelError("the model has no parameters: every variable is observed")
    with _BUILDING:
        return _graphs(model, signature_of(model))


@lru_cache(maxsize=16)
def _graphs(model: Any, signature: Any) -> Graphs:
    parts = [model.free_RVs, model.observed_RVs, model.deterministics, model.potentials]
    seen = [model.rvs_to_values[rv] for rv in model.observed_RVs]
    variables = [variable for part in parts for variable in part]
    whole = whole_of_minibatches([*variables, *seen])
    copies = _copies(variables, whole | whole_sizes(model, whole))
    free, observed, deterministics, potentials = (
        tuple(copies[variable] for variable in part) for part in parts
    )
    everything = [*free, *observed, *deterministics, *potentials, *replace(seen, whole)]
    inputs: dict[str, Any] = {}
    holders: dict[str, Any] = {}
    replaced: dict[Any, Any] = {}
    for shared in shared_variables(everything):
        if is_data(model, shared):
            inputs[shared.name], holders[shared.name] = unshaped_like(shared.name, shared), shared
            replaced[shared] = inputs[shared.name]
        else:
            replaced[shared] = pt.constant(shared.get_value())
    values = {rv: model.rvs_to_values[own] for rv, own in zip(free, model.free_RVs, strict=True)}
    targets: dict[str, str] = {}
    refusals = reasons_against_drawing(model)
    for rv, value in zip(observed, seen, strict=True):
        values[rv] = unshaped_like(rv.name, value)
        holder = holder_of(value, whole)
        if holder is None:
            replaced[values[rv]] = replace(replace([value], whole), replaced)[0]
            refusals.append(f"variable {rv.name!r} observes an expression instead of data")
            continue
        known = holders.get(holder.name or "") is holder
        name: str = holder.name if known else rv.name
        if name in targets:
            refusals.append(f"variables {targets[name]!r} and {rv.name!r} observe the same data")
        elif holder in replaced and is_used((*free, *observed), holder):
            refusals.append(f"{name!r} is both observed and conditioned on")
        if name not in inputs:
            inputs[name], holders[name] = unshaped_like(name, value), holder
        targets[name] = rv.name
        replaced[values[rv]] = pt.cast(inputs[name], value.dtype)
    if whole:
        refusals.append("its data come in minibatches: write it with all of the data")
    own = [*model.free_RVs, *model.observed_RVs]
    return Graphs(
        model=model,
        free=free,
        observed=observed,
        deterministics=deterministics,
        potentials=potentials,
        transforms={
            rv: model.rvs_to_transforms[old]
            for rv, old in zip((*free, *observed), own, strict=True)
        },
        values=values,
        inputs=inputs,
        holders=holders,
        replaced=replaced,
        targets=targets,
        totals={rv.name: total_sizes(rv) for rv in observed},
        refusal="; ".join(refusals),
        in_minibatches=bool(whole),
    )


def _copies(variables: list[Any], replaced: Mapping[Any, Any]) -> dict[Any, Any]:
    """Copy variables, with everything they depend on, in float64."""
    changed = in_double_precision(replace(variables, replaced))
    copies = dict(zip(variables, changed, strict=True))
    for variable, copied in copies.items():
        copied.name = variable.name
    return copies


def observing(model: Any, names: tuple[str, ...]) -> Any:
    """Return the model with some of its parameters observed, as zeros of the right shapes."""
    with _BUILDING:
        return _observing(model, names, signature_of(model))


@lru_cache(maxsize=16)
def _observing(model: Any, names: tuple[str, ...], signature: Any) -> Any:
    variables = [model[name] for name in names]
    shapes = run_quickly([], [pt.as_tensor(variable.shape) for variable in variables])()
    zeros = [np.zeros(shape, v.dtype) for shape, v in zip(shapes, variables, strict=True)]
    try:
        return observe(model, dict(zip(variables, zeros, strict=True)))
    except Exception as error:  # models that PyMC cannot copy, such as those with initial values
        raise ModelError(f"PyMC cannot observe {', '.join(names)}: {error}") from error
