"""Which quantities a calibration is about, fixed before any data is simulated."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vicheck.errors import ArgumentError, ModelError
from vicheck.model import Data, Model, Program, labels
from vicheck.runtime.compiling import Traced

__all__ = ["LIKELIHOOD", "Quantities", "choose_quantities"]

LIKELIHOOD = "log_likelihood"
"""The joint log likelihood, the data-dependent quantity of Modrak et al. (2023)."""

Spec = Sequence[str] | Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Quantities(Traced):
    """Entries of z, whose probabilities are exact, and quantities that draws are needed for."""

    coordinates: tuple[int, ...]
    """Entries of z."""
    falling: tuple[bool, ...]
    """Whether the parameter falls where its entry of z rises."""
    exact_names: tuple[str, ...]
    picked: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Values that the model derives, and which of their elements."""
    functions: tuple[tuple[str, Callable[..., Any]], ...] = ()
    drawn_names: tuple[str, ...] = ()
    """Names of all that draws are needed for, in order; the likelihood comes last."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all quantities."""
        return self.exact_names + self.drawn_names

    def traces(self, use: str, data: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return the quantities that are drawn as a function of z and data, and shapes of these."""
        program, given = data
        return partial(self.drawn, program), program.traces("constrain", given)[1]

    def exact(self, cdf: Any) -> Any:
        """Return the calibration probabilities of the entries of z from their CDF at the truth."""
        chosen = cdf[..., np.array(self.coordinates, int)]
        return np.where(np.array(self.falling, bool), 1.0 - chosen, chosen)

    def drawn(self, program: Program, z: jax.Array, data: Data) -> jax.Array:
        """Return the other quantities at z as one vector."""
        parts = []
        if self.picked or self.functions:
            theta = program.constrain(z, data)
            parts += [jnp.ravel(theta[name])[np.array(where)] for name, where in self.picked]
            parts += [jnp.ravel(jnp.asarray(_call(f, theta, data))) for _, f in self.functions]
        if LIKELIHOOD in self.drawn_names:
            sites = program.log_likelihood(z, data).values()
            parts.append(jnp.sum(jnp.stack([jnp.sum(site) for site in sites]))[None])
        return jnp.concatenate(parts) if parts else jnp.zeros(0, z.dtype)


def choose_quantities(
    model: Model, data: Data, spec: Spec | None, *, exact: bool = True
) -> Quantities:
    """Resolve names and functions, or say what there is.

    Parameters
    ----------
    model, data
        The model, and data of the right shapes.
    spec
        None for every element of every parameter and the joint log likelihood; names of parameters,
        of their elements and of derived values; or functions of the parameters, or of parameters
        and data.
    exact
        Whether the marginal distribution functions of the approximations are known; otherwise
        every quantity is ranked among draws.
    """
    program = model.program
    if isinstance(spec, str):
        raise TypeError(f"quantities must be a list of names, got the string {spec!r}")
    if spec is not None and not isinstance(spec, Mapping | Collection):
        raise TypeError(
            "quantities must be a list of names or a dictionary of functions, got "
            f"{type(spec).__name__}"
        )
    if spec is not None and not len(spec):
        raise ArgumentError("quantities", "must hold at least one name or function, got none")
    if isinstance(spec, Mapping):
        return _of_functions(program, model.dim, data, spec)
    entries = _entries(program) if exact else {}
    shapes = {
        name: value.shape
        for name, value in jax.eval_shape(program.constrain, jnp.zeros(model.dim), data).items()
    }
    derived = {name: labels({name: shape}) for name, shape in shapes.items() if name not in entries}
    likelihood = [LIKELIHOOD] if _has_likelihood(program, model.dim, data) else []
    joint = [name for name, _ in program.layout if name not in entries]
    chosen = [*entries, *joint, *likelihood] if spec is None else list(dict.fromkeys(spec))
    entered: dict[str, tuple[int, bool]] = {}
    picked: dict[str, list[int]] = {}
    for name in chosen:
        array, elements = _find(name, {key: tuple(own) for key, own in entries.items()} | derived)
        if array in entries:
            entered |= {label: entries[array][label] for label in elements}
        elif array:
            picked.setdefault(array, []).extend(derived[array].index(label) for label in elements)
        elif name not in likelihood:
            known = [*entries, *derived, *likelihood]
            raise ArgumentError(
                "quantities", f"has {name!r}, but the model has: {', '.join(known)}"
            )
    picks = tuple((array, tuple(dict.fromkeys(where))) for array, where in picked.items())
    return Quantities(
        tuple(index for index, _ in entered.values()),
        tuple(falls for _, falls in entered.values()),
        tuple(entered),
        picks,
        (),
        tuple(derived[array][index] for array, where in picks for index in where)
        + tuple(name for name in likelihood if name in chosen),
    )


def _entries(program: Program) -> dict[str, dict[str, tuple[int, bool]]]:
    """Return, for parameters whose elements are functions of one entry of z, which and how.

    Others, such as a simplex, have elements whose distribution under q is not known.
    """
    start, entries = 0, {}
    for name, shape in program.layout:
        names = labels({name: shape})
        if program.is_elementwise(name):
            falls = program.is_decreasing(name)
            entries[name] = {label: (start + i, falls) for i, label in enumerate(names)}
        start += len(names)
    return entries


def _of_functions(
    program: Program, dim: int, data: Data, functions: Mapping[str, Callable[..., Any]]
) -> Quantities:
    names: list[str] = []
    for name, function in functions.items():
        if not callable(function):
            raise TypeError(
                f"quantities[{name!r}] must be a function, got {type(function).__name__}"
            )

        def value(z: jax.Array, data: Data, function: Callable[..., Any] = function) -> Any:
            return jnp.asarray(_call(function, program.constrain(z, data), data))

        try:
            shape = jax.eval_shape(value, jnp.zeros(dim), data)
        except Exception as error:  # whatever a user's function can raise
            raise ValueError(
                f"quantities[{name!r}] fails on the parameters of one draw: "
                f"{type(error).__name__}: {error}"
            ) from error
        if shape.dtype.kind not in "iuf" or not shape.size:
            raise ValueError(
                f"quantities[{name!r}] must return numbers, at least one, got an array of type "
                f"{shape.dtype} and shape {shape.shape}"
            )
        names += labels({name: shape.shape})
    return Quantities((), (), (), (), tuple(functions.items()), tuple(names))


def _find(name: str, known: Mapping[str, tuple[str, ...]]) -> tuple[str, tuple[str, ...]]:
    """Return the array of a name and which elements it means: all of it, one, or nothing."""
    for array, elements in known.items():
        if name == array:
            return array, elements
        if name in elements:
            return array, (name,)
    return "", ()


def _call(function: Callable[..., Any], theta: Mapping[str, Any], data: Data) -> Any:
    parameters = list(inspect.signature(function).parameters.values())
    # A default is a value of the user's own, as in functions that a loop makes.
    takes_data = any(each.default is each.empty or each.name == "data" for each in parameters[1:])
    return function(theta, data) if takes_data else function(theta)


def _has_likelihood(program: Program, dim: int, data: Data) -> bool:
    try:
        return bool(jax.eval_shape(program.log_likelihood, jnp.zeros(dim), data))
    except ModelError:
        return False
