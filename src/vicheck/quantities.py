"""The one contract for what is looked at, in `check`, `check_draws`, `vsbc` and the command line.

Names (``theta`` for a whole array, ``theta[0]`` for an element; for a model in Stan ``theta[1]``),
``log_likelihood`` for the joint log likelihood, and functions of the named parameters of one draw,
with the data as an optional second argument.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vicheck.errors import ArgumentError, ModelError, not_in_jax
from vicheck.indexing import Indexing
from vicheck.model import Data, Model, Program
from vicheck.runtime.tracing import Traced, abstract_vector

__all__ = [
    "LIKELIHOOD",
    "Quantities",
    "Quantity",
    "Spec",
    "call_on_draw",
    "choose_quantities",
    "failed_on_draw",
    "has_likelihood",
    "named_quantities",
    "needs_data",
    "reported_quantities",
    "require_numbers",
    "require_spec",
    "unique_labels",
]

LIKELIHOOD = "log_likelihood"
"""The joint log likelihood, the data-dependent quantity of Modrak et al. (2023)."""

Spec = Collection[str] | Mapping[str, Callable[..., Any]]
"""What ``quantities=`` takes: names, or functions by name."""

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Quantity:
    """A named scalar or array of one draw: an array, one of its elements, or a function."""

    name: str
    shape: tuple[int, ...]
    array: str = ""
    """Of the parameters and what is derived from them; empty for a function or the likelihood."""
    element: int | None = None
    """Place in the flat array; None for all of it."""
    function: Callable[..., Any] | None = None

    @property
    def is_likelihood(self) -> bool:
        """Whether it is the joint log likelihood."""
        return not self.array and self.function is None

    def value(self, theta: Mapping[str, Any], data: Data | None) -> Any:
        """Return the value for the parameters of one draw."""
        if self.function is not None:
            return call_on_draw(self.function, theta, data)
        array = theta[self.array]
        return array if self.element is None else array.ravel()[self.element]


@dataclass(frozen=True)
class Quantities(Traced):
    """What draws are looked at for; and entries of z, whose calibration probabilities are exact."""

    drawn: tuple[Quantity, ...] = ()
    """What is computed for each draw, in order."""
    coordinates: tuple[int, ...] = ()
    """Entries of z."""
    falling: tuple[bool, ...] = ()
    """Whether the parameter falls where its entry of z rises."""
    exact_names: tuple[str, ...] = ()
    indexing: Indexing = Indexing.PYTHON
    """How elements of what is computed are named."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what is computed for each draw, by name."""
        return {each.name: each.shape for each in self.drawn}

    @property
    def drawn_names(self) -> tuple[str, ...]:
        """Name of each number that is computed for each draw."""
        return self.indexing.labels(self.shapes)

    @property
    def num_values(self) -> int:
        """How many numbers are computed for each draw."""
        return sum(math.prod(each.shape) for each in self.drawn)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all quantities: exact ones first."""
        return self.exact_names + self.drawn_names

    def traces(self, use: str, data: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return the quantities that are drawn as a function of z and data, and shapes of these."""
        program, given = data
        return partial(self.at, program, None), program.traces("constrain", given)[1]

    def exact(self, cdf: Any) -> Any:
        """Return the calibration probabilities of the entries of z from their CDF at the truth."""
        chosen = cdf[..., np.array(self.coordinates, int)]
        return np.where(np.array(self.falling, bool), 1.0 - chosen, chosen)

    def at(self, program: Program, q: Any, z: jax.Array, data: Data) -> jax.Array:
        """Return what is computed at z as one vector; it does not depend on q."""
        if not self.drawn:
            return jnp.zeros(0, z.dtype)
        theta: Mapping[str, Any] = {}
        if not all(each.is_likelihood for each in self.drawn):
            theta = program.constrain(z, data)
        parts = []
        for each in self.drawn:
            if each.is_likelihood:
                sites = program.log_likelihood(z, data).values()
                parts.append(jnp.sum(jnp.stack([jnp.sum(site) for site in sites]))[None])
            else:
                parts.append(jnp.ravel(jnp.asarray(each.value(theta, data), z.dtype)))
        return jnp.concatenate(parts)


def choose_quantities(
    model: Model, data: Data, spec: Spec | None, *, exact: bool = True
) -> Quantities:
    """Resolve what a calibration is about, or say what there is.

    Parameters
    ----------
    model, data
        The model, and data of the right shapes.
    spec
        None for every element of every parameter and the joint log likelihood.
    exact
        Whether the marginal distribution functions of the approximations are known; otherwise
        every quantity is ranked among draws.
    """
    program = model.program
    if isinstance(spec, Mapping):
        require_spec(spec)
        return Quantities(_of_functions(model, data, spec), indexing=model.indexing)
    places = _entries(program) if exact else {}
    likelihood = has_likelihood(program, model.dim, data)
    if spec is None:
        joint = [name for name, _ in program.layout if name not in places]
        names = _reported(program, [*places, *joint])
        spec = [*names, *([LIKELIHOOD] if likelihood else [])]
    shapes = _shapes(model, data)
    # Exact ones come first, the likelihood last.
    chosen = named_quantities(spec, shapes, model.indexing, likelihood, owner="the model")
    entries = {
        label: places[each.array][label]
        for each in chosen
        if each.array in places
        for label in model.indexing.labels({each.name: each.shape})
    }
    rest = sorted(
        (each for each in chosen if each.array not in places), key=lambda each: each.is_likelihood
    )
    return Quantities(
        tuple(rest),
        tuple(index for index, _ in entries.values()),
        tuple(falls for _, falls in entries.values()),
        tuple(entries),
        model.indexing,
    )


def reported_quantities(model: Model, spec: Spec | None) -> Quantities:
    """Resolve what a check reports on: by default all parameters and what is derived from them."""
    if isinstance(spec, Mapping):
        require_spec(spec)
        return Quantities(_of_functions(model, model.data, spec), indexing=model.indexing)
    shapes = _shapes(model, model.data)
    if spec is None:
        names = _reported(model.program, shapes)
        chosen = tuple(Quantity(name, shapes[name], name) for name in names)
    else:
        likelihood = has_likelihood(model.program, model.dim, model.data)
        chosen = named_quantities(spec, shapes, model.indexing, likelihood, owner="the model")
    return Quantities(chosen, indexing=model.indexing)


def require_spec(spec: Any) -> None:
    """Raise unless ``quantities`` holds names, or functions by name."""
    if isinstance(spec, str):
        raise TypeError(
            f"quantities must be a list of names, got the string {spec!r}: write [{spec!r}]"
        )
    if not isinstance(spec, Mapping | Collection):
        raise TypeError(
            "quantities must be a list of names or a dictionary of functions, got "
            f"{type(spec).__name__}"
        )
    if not len(spec):
        raise ArgumentError("quantities", "must hold at least one name or function, got none")
    if not isinstance(spec, Mapping):
        for name in spec:
            if not isinstance(name, str):
                raise TypeError(
                    f"quantities must be a list of names, got a {type(name).__name__} in it: "
                    "functions go in a dictionary, {name: function}"
                )
        return
    for name, function in spec.items():
        if not callable(function):
            raise TypeError(
                f"quantities[{name!r}] must be a function, got {type(function).__name__}"
            )


def named_quantities(
    names: Collection[str], shapes: Shapes, indexing: Indexing, likelihood: bool, *, owner: str
) -> tuple[Quantity, ...]:
    """Resolve names among arrays of given shapes; ``owner`` has them, in an error's words.

    Elements of an array that is asked for as a whole are part of it, and do not come twice.
    """
    require_spec(names)
    places = {
        label: (array, index)
        for array, shape in shapes.items()
        for index, label in enumerate(indexing.labels({array: shape}))
    }
    chosen = []
    names = dict.fromkeys(map(indexing.spelled, names))
    for name in names:
        if name in shapes:
            chosen.append(Quantity(name, tuple(shapes[name]), name))
        elif name in places:
            array, index = places[name]
            if array not in names:
                chosen.append(Quantity(name, (), array, index))
        elif name == LIKELIHOOD and likelihood:
            chosen.append(Quantity(LIKELIHOOD, ()))
        else:
            known = [*shapes, *([LIKELIHOOD] if likelihood else [])]
            has = "have" if owner.endswith("s") else "has"
            problem = f"has {name!r}, but {owner} {has}: {', '.join(known)}"
            raise ArgumentError("quantities", problem, hint=_elements_of(name, shapes, indexing))
    return tuple(chosen)


def _elements_of(name: str, shapes: Shapes, indexing: Indexing) -> str:
    """Say how elements of an array are named, where one was asked for that it does not have."""
    array = name.split("[", 1)[0]
    if array == name or array not in shapes or not math.prod(shapes[array]):
        return ""
    first, *_, last = 2 * indexing.labels({array: shapes[array]})
    return f"the elements of {array} go from {first} to {last}"


def call_on_draw(function: Callable[..., Any], theta: Mapping[str, Any], data: Data | None) -> Any:
    """Call a user's function, with the data if it takes them."""
    return function(theta, data) if needs_data(function) else function(theta)


def needs_data(function: Callable[..., Any]) -> bool:
    """Whether a function has a second argument for the data.

    A default is a value of the user's own, as in functions that a loop makes.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False
    return any(each.default is each.empty or each.name == "data" for each in parameters[1:])


def require_numbers(name: str, kind: str, dtype: Any, shape: tuple[int, ...]) -> None:
    """Raise unless a function returned numbers, or truth values, which count as 0 and 1."""
    if kind not in "biuf" or not math.prod(shape):
        raise ValueError(
            f"quantities[{name!r}] must return numbers, at least one, got an array of type "
            f"{dtype} and shape {shape}"
        )


def failed_on_draw(name: str, error: Exception) -> ValueError:
    """Return what to say of a function that raises."""
    if isinstance(error, jax.errors.JAXTypeError):  # a NumPy function, or `if` on a value
        return ValueError(not_in_jax(f"quantities[{name!r}]", error))
    return ValueError(
        f"quantities[{name!r}] fails on the parameters of one draw: {type(error).__name__}: {error}"
    )


def unique_labels(shapes: Shapes, indexing: Indexing) -> tuple[str, ...]:
    """Return the name of each scalar, or raise when two have the same."""
    names = indexing.labels(shapes)
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise ArgumentError("quantities", f"must have different names, got {name!r} twice")
    return names


def _shapes(model: Model, data: Data) -> dict[str, tuple[int, ...]]:
    """Return shapes of the parameters, in the model's order, and of what is derived from them."""
    program = model.program
    values = jax.eval_shape(program.constrain, abstract_vector(model.dim), data)
    first = [name for name, _ in program.layout if name in values]
    order = first + [name for name in values if name not in first]
    return {name: tuple(values[name].shape) for name in order}


def _reported(program: Program, names: Iterable[str]) -> tuple[str, ...]:
    """Return names with those of mere coordinates replaced by what they stand in for."""
    others = dict(program.stand_ins)
    return tuple(dict.fromkeys(others.get(name, name) for name in names))


def _entries(program: Program) -> dict[str, dict[str, tuple[int, bool]]]:
    """Return, for parameters whose elements are functions of one entry of z, which and how.

    Others, such as a simplex, have elements whose distribution under q is not known.
    """
    start, entries = 0, {}
    for name, shape in program.layout:
        names = program.indexing.labels({name: shape})
        if program.is_elementwise(name):
            falls = program.is_decreasing(name)
            entries[name] = {label: (start + i, falls) for i, label in enumerate(names)}
        start += len(names)
    return entries


def _of_functions(
    model: Model, data: Data, functions: Mapping[str, Callable[..., Any]]
) -> tuple[Quantity, ...]:
    chosen = []
    for name, function in functions.items():

        def value(z: jax.Array, data: Data, function: Callable[..., Any] = function) -> Any:
            theta = model.program.constrain(z, data)
            return jnp.asarray(call_on_draw(function, theta, data))

        try:
            result = jax.eval_shape(value, jnp.zeros(model.dim), data)
        except Exception as error:  # whatever a user's function can raise
            raise failed_on_draw(name, error) from error
        require_numbers(name, result.dtype.kind, result.dtype, result.shape)
        chosen.append(Quantity(name, tuple(result.shape), function=function))
    unique_labels({each.name: each.shape for each in chosen}, model.indexing)
    return tuple(chosen)


def has_likelihood(program: Program, dim: int, data: Data) -> bool:
    """Whether a program knows the likelihood of its data."""
    try:
        return bool(jax.eval_shape(program.log_likelihood, abstract_vector(dim), data))
    except ModelError:
        return False
