"""Model: a log density of the flat unconstrained vector z given data, and what belongs to it."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from vicheck.errors import ModelError
from vicheck.indexing import Indexing
from vicheck.runtime.compiling import compiled
from vicheck.runtime.jax_settings import double_precision
from vicheck.runtime.seeds import Seed, as_seed
from vicheck.runtime.tracing import Traced, abstract_key, abstract_vector

__all__ = [
    "Model",
    "Program",
    "as_data",
    "double_precision",
    "is_finite",
    "name_of",
    "ravel",
    "replicate_many",
    "simulate_many",
    "unravel",
]

Data = dict[str, Any]
"""Named arrays a model is given: what it conditions on and what was observed."""

Layout = tuple[tuple[str, tuple[int, ...]], ...]
"""Names and shapes of the parts of a flat vector, in order."""

_NAMES_SHOWN = 12
_BARE = "this model cannot simulate data: it is a bare log density"


class Program(Traced, abc.ABC):
    """The part of a model that JAX compiles: pure functions of z and data.

    Programs that compute the same share compiled code, so a program never holds data.
    """

    layout: Layout
    """Names and shapes of the parameters on the unconstrained scale."""
    indexing: Indexing = Indexing.PYTHON
    """How elements of its arrays are named."""
    stand_ins: tuple[tuple[str, str], ...] = ()
    """Parameters that are only coordinates, each with what is derived and reported in its place."""

    @property
    def dim(self) -> int:
        """Length of z."""
        return sum(math.prod(shape) for _, shape in self.layout)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Name of each entry of z."""
        return self.indexing.labels(dict(self.layout))

    @property
    def identity(self) -> str:
        """What tells the program apart from others where JAX does not see what is computed."""
        return ""

    def traces(self, use: str, data: Data) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return one of the functions below, and shapes of arguments for it."""
        z, key = abstract_vector(self.dim), abstract_key()
        arguments: dict[str, tuple[Any, ...]] = {
            "log_density_of_minibatch": (z, data, key),
            "replicate": (key, z, data),
            "simulate": (key, data),
        }
        if use == "log_density_of_minibatch" and not self.has_minibatches:
            use = "log_density"
        return getattr(self, use), arguments.get(use, (z, data))

    @property
    def observed(self) -> tuple[str, ...]:
        """Names of the data that are observed: what is simulated."""
        return ()

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Names of data that are not given to the program, because it knows where they lie."""
        return ()

    @abc.abstractmethod
    def log_density(self, z: jax.Array, data: Data) -> jax.Array:
        """Log joint density at z, the Jacobian of the constraints included."""

    def unchecked(self) -> Program:
        """Return what computes the same in less time to compile, for many fits; or itself."""
        return self

    def density_on_host(self, data: Data) -> Callable[[Any], tuple[Any, Any]] | None:
        """Return a function that computes log densities and gradients on the host, or None.

        From points, shape ``(n, d)``, it makes arrays of shapes ``(n,)`` and ``(n, d)``. Only for
        programs that JAX would have to ask the host for them.
        """
        return None

    @abc.abstractmethod
    def constrain(self, z: jax.Array, data: Data) -> dict[str, jax.Array]:
        """Return parameters on their own scale, and quantities the model derives from them."""

    @abc.abstractmethod
    def unconstrain(self, theta: Mapping[str, Any], data: Data) -> jax.Array:
        """Return the z of parameters given on their own scale."""

    @abc.abstractmethod
    def locate_trouble(self, z: jax.Array, data: Data) -> str:
        """Say in which part of the model the density at z is not finite."""

    @abc.abstractmethod
    def check_data(self, data: Data) -> None:
        """Raise `ModelError` for data the model cannot take."""

    def is_elementwise(self, name: str) -> bool:
        """Whether each entry of a parameter depends on one entry of z only."""
        return True

    @property
    def has_minibatches(self) -> bool:
        """Whether the log density can be estimated from a random part of the data."""
        return False

    def log_density_of_minibatch(self, z: jax.Array, data: Data, key: jax.Array) -> jax.Array:
        """Return an unbiased estimate of the log density from a random part of the data."""
        raise ModelError("this model has no minibatches: it has no plate with subsample_size")

    def log_likelihood(self, z: jax.Array, data: Data) -> dict[str, jax.Array]:
        """Log likelihood of each observation, by the name of its site."""
        raise ModelError("this model has no likelihood of its own: it is a bare log density")

    def factors(self, data: Data) -> tuple[str, ...]:
        """Sites in `log_likelihood` of which it is not known whether they are observations."""
        return ()

    def is_decreasing(self, name: str) -> bool:
        """Whether a parameter falls where its entry of z rises."""
        return False

    def simulate(self, key: jax.Array, data: Data) -> tuple[jax.Array, Data]:
        """Draw z from the prior and then the observed data, given the rest of the data."""
        raise ModelError(_BARE)

    def replicate(self, key: jax.Array, z: jax.Array, data: Data) -> Data:
        """Draw the observed data given z and the rest of the data."""
        raise ModelError(_BARE)

    def require_simulation(self) -> None:
        """Raise `ModelError` when data cannot be simulated."""
        raise ModelError(_BARE)

    def without_observations(self, data: Data) -> Data:
        """Return data with zeros for all that is observed: what simulations are conditioned on."""
        self.require_simulation()
        _, drawn = jax.eval_shape(self.simulate, abstract_key(), data)
        return data | jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), drawn)


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A model with its data: what `vicheck.fit` takes."""

    program: Program
    data: Data
    missing: tuple[str, ...] = ()
    """Observed arguments that have no data yet."""
    name: str = ""
    """What it is called: the name of its function or file, for titles."""
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the dimensions of its variables, where it has some, as models of PyMC have."""
    coords: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Labels along these dimensions."""

    @property
    def dim(self) -> int:
        """Number of unconstrained parameters."""
        return self.program.dim

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Name of each unconstrained parameter."""
        return self.program.coordinates

    @property
    def indexing(self) -> Indexing:
        """How elements of its arrays are named."""
        return self.program.indexing

    def __repr__(self) -> str:
        count = "parameter" if self.dim == 1 else "parameters"
        missing = [f"{name} (missing)" for name in self.missing]
        in_shards = [f"{name} (in shards)" for name in self.program.elsewhere]
        data = _listed([*self.data, *missing, *in_shards])
        names = _listed([name for name, _ in self.program.layout])
        return f"Model({self.dim} {count}: {names}; data: {data or 'none'})"

    def snapshot(self) -> Model:
        """Return the model as it computes now, for the length of one call: it is traced once."""
        return replace(self, program=self.program.snapshot())

    @property
    def observed(self) -> tuple[str, ...]:
        """Names of the data that are observed: what `simulate` and `vicheck.vsbc` draw."""
        return self.program.observed

    def given(self, data: Mapping[str, Any] | None) -> Model:
        """Return the model with some or all of its data replaced.

        Raises
        ------
        ModelError
            When a name is unknown, an array has missing or infinite values, or shapes do not fit.
        """
        if not data:
            return self
        unknown = sorted(set(data) - set(self.data) - set(self.missing))
        fixed = [name for name in unknown if name in self.program.elsewhere]
        if fixed:
            raise ModelError(
                f"data has {', '.join(fixed)}, which the model has in shards",
                hint="make a model of other shards by from_shards",
            )
        if unknown:
            known = ", ".join([*self.data, *self.missing]) or "none"
            raise ModelError(f"data has {', '.join(unknown)}, but the model's data are: {known}")
        merged = self.data | {name: as_data(name, value) for name, value in data.items()}
        missing = tuple(name for name in self.missing if name not in data)
        model = replace(self, data=merged, missing=missing)
        if not missing:
            self.program.check_data(merged)
        return model

    def log_density(self, z: Any) -> Any:
        """Log joint density at z, shape ``(d,)``, or at each row of z, shape ``(..., d)``."""
        z = self._as_rows(z)
        with double_precision():
            values = _log_densities(self.program, z.reshape(-1, self.dim), self.data)
        return np.asarray(values).reshape(z.shape[:-1])[()]

    def constrain(self, z: Any) -> dict[str, np.ndarray]:
        """Return parameters and derived quantities at z, or at each row of z."""
        z = self._as_rows(z)
        with double_precision():
            flat = _constrained(self.program, z.reshape(-1, self.dim), self.data)
        # Compiled code returns names sorted; parameters come in the order of the model.
        order = [name for name, _ in self.program.layout]
        order += [name for name in flat if name not in order]
        return {k: np.asarray(flat[k]).reshape(z.shape[:-1] + flat[k].shape[1:]) for k in order}

    def unconstrain(self, theta: Mapping[str, Any]) -> np.ndarray:
        """Return the z of parameters given on their own scale."""
        absent = [name for name, _ in self.program.layout if name not in theta]
        if absent:
            raise ModelError(f"theta lacks {', '.join(absent)}")
        self.require_data()
        with double_precision():
            return np.asarray(self.program.unconstrain(theta, self.data))

    def simulate(self, seed: Seed = 0) -> tuple[np.ndarray, Data]:
        """Draw parameters from the prior and data from the model given them.

        Returns
        -------
        z, data
            The unconstrained parameters, and the data with what is observed replaced.
        """
        self.program.require_simulation()
        with double_precision():
            z, simulated = jax.device_get(
                simulate_many(self.program, np.array([as_seed(seed)]), self.data)
            )
        return z[0], self.data | jax.tree.map(lambda array: np.asarray(array[0]), simulated)

    def _as_rows(self, z: Any) -> np.ndarray:
        self.require_data()
        z = np.asarray(z, np.float64)
        if z.ndim == 0 or z.shape[-1] != self.dim:
            raise ValueError(f"z must have shape (..., {self.dim}), got {z.shape}")
        return z

    def require_data(self) -> None:
        """Raise `ModelError` when observed data is missing."""
        if self.missing:
            example = ", ".join(f"{name!r}: ..." for name in self.missing)
            raise ModelError(
                f"the model has no data for {', '.join(self.missing)}",
                hint=f"pass data={{{example}}}, or name by observed= what is observed instead",
            )


def _listed(names: Sequence[str]) -> str:
    """Return names one after the other; of many the first, and how many more there are."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join([*names[:_NAMES_SHOWN], *([f"and {more} more"] if more > 0 else [])])


def name_of(function: Any) -> str:
    """Return what a function is called, also one that is wrapped; nothing for a lambda."""
    while not hasattr(function, "__name__"):
        inner = getattr(function, "func", None) or getattr(function, "fn", None)
        if inner is None:
            return type(function).__name__
        function = inner
    name = str(function.__name__)
    return "" if name == "<lambda>" else name


def as_data(name: str, value: Any) -> Any:
    """Return data as arrays: floats in float64, and all of them finite."""
    if isinstance(value, Mapping):
        return {key: as_data(f"{name}.{key}", item) for key, item in value.items()}
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ModelError(f"{name} must hold numbers, got an array of type {array.dtype}")
    if array.dtype.kind in "iu":
        return array.astype(np.int64)  # narrow integers would wrap around inside a density
    if array.dtype.kind == "b":
        return array.copy()
    array = array.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        where = tuple(int(i) for i in np.unravel_index(bad[0], array.shape))
        raise ModelError(
            f"{name} must be finite, got {bad.size} of {array.size} values that are NaN or "
            f"infinite, the first at index {where if len(where) != 1 else where[0]}"
        )
    return array


def unravel(z: jax.Array, layout: Layout) -> dict[str, jax.Array]:
    """Cut a flat vector into its named parts."""
    parts, start = {}, 0
    for name, shape in layout:
        size = math.prod(shape)
        parts[name] = z[start : start + size].reshape(shape)
        start += size
    return parts


def ravel(parts: Mapping[str, Any], layout: Layout) -> jax.Array:
    """Join named parts to a flat vector."""
    return jnp.concatenate([jnp.ravel(jnp.asarray(parts[name], float)) for name, _ in layout])


def is_finite(program: Program, z: jax.Array, data: Data) -> jax.Array:
    """Whether the log density and its gradient are finite at z."""
    value, gradient = jax.value_and_grad(program.log_density)(z, data)
    return jnp.isfinite(value) & jnp.isfinite(gradient).all()


@compiled("simulate", rarely=True)
def simulate_many(program: Program, seeds: Any, data: Data) -> tuple[jax.Array, Data]:
    """Draw z and the observed data once for each seed.

    One after the other: batched random numbers take three times as long to compile.
    """
    return lax.map(lambda seed: program.simulate(jax.random.key(seed), data), jnp.asarray(seeds))


@compiled("replicate", rarely=True)
def replicate_many(program: Program, seeds: Any, z: Any, data: Data) -> Data:
    """Draw the observed data given each row of z."""
    return lax.map(
        lambda pair: program.replicate(jax.random.key(pair[0]), pair[1], data),
        (jnp.asarray(seeds), jnp.asarray(z)),
    )


@compiled("log_density")
def _log_densities(program: Program, z: jax.Array, data: Data) -> jax.Array:
    return jax.vmap(program.log_density, (0, None))(z, data)


@compiled("constrain")
def _constrained(program: Program, z: jax.Array, data: Data) -> dict[str, jax.Array]:
    return jax.vmap(program.constrain, (0, None))(z, data)
