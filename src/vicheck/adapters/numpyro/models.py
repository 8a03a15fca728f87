"""Models written in NumPyro."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import biject_to, constraints
from numpyro.distributions.transforms import IndependentTransform
from numpyro.infer.util import constrain_fn, log_density, potential_energy
from numpyro.primitives import Messenger

from vicheck.adapters.numpyro.observed import (
    Chosen,
    Refusal,
    Target,
    find_missing,
    find_numbers,
    find_wiring,
    put,
    take,
)
from vicheck.adapters.numpyro.traces import Redrawn, WholePlates, at_zero, tracing
from vicheck.errors import ARGUMENTS_DO_NOT_FIT, ModelError
from vicheck.model import Data, Layout, Model, Program, as_data, double_precision, ravel, unravel

__all__ = ["NumpyroProgram", "WholePlates", "from_numpyro", "tracing"]

_BOUNDED_ABOVE = (type(constraints.less_than(0.0)), type(constraints.less_than_eq(0.0)))
_INDEPENDENT = type(constraints.independent(constraints.real, 1))
_HINT_DISCRETE = "marginalise it out, for example with dist.MixtureSameFamily"


def from_numpyro(
    model_fn: Callable[..., Any],
    *args: Any,
    observed: tuple[str, ...] | Mapping[str, str] | None = None,
    **kwargs: Any,
) -> Model:
    """Take a model written in NumPyro.

    Parameters
    ----------
    model_fn
        The function with ``numpyro.sample`` statements.
    *args, **kwargs
        Its arguments. Arrays become the model's data, which `vicheck.fit` can replace without
        compiling again; numbers, strings and the like are fixed. Those that reach ``obs=`` are
        observed: `vicheck.vsbc` simulates them, and they may be left out here and given to
        `vicheck.fit`.
    observed
        Only where that is not to be found out: names of the arguments that are observed, or a
        dictionary of these and the sites whose draws they are. With ``()`` what is left out is
        a parameter.

    Returns
    -------
    Model
        With the log joint density on the flat unconstrained vector, Jacobians included.

    Raises
    ------
    ModelError
        For discrete latent variables, ``numpyro.param`` sites (they have no prior density),
        data with NaN, and shapes that do not fit; the message names the site or argument.

    Examples
    --------
    >>> import numpyro, numpyro.distributions as dist
    >>> def coin(y=None):
    ...     p = numpyro.sample("p", dist.Beta(1, 1))
    ...     numpyro.sample("y", dist.Bernoulli(p).expand([3]), obs=y)
    >>> model = vicheck.from_numpyro(coin, y=[1, 1, 0])
    >>> model.coordinates
    ('p',)
    """
    arguments = _bind(model_fn, args, kwargs)
    chosen = _chosen(observed, model_fn, arguments)
    data, fixed = {}, {}
    for name, value in arguments.items():
        seen = chosen is not None and name in chosen and value is not None
        if seen or isinstance(value, list | Mapping) or _is_array(value):
            data[name] = as_data(name, value)
        else:
            fixed[name] = _hashable(name, value)
    with double_precision():
        draft = NumpyroProgram(model_fn, tuple(fixed.items()), (), (), ())
        absent = _absent(model_fn, data | fixed, chosen)
        imagined = draft.imagine(data, absent, chosen)
        draft = draft.without(imagined)
        if chosen is None:
            data |= draft.observed_numbers(data | imagined)
            draft = draft.without(data)
        filled = data | imagined
        program = draft.with_layout(filled)
        program.check_data(filled)
        program = program.with_targets(filled, tuple(imagined), chosen)
    return Model(program, data, tuple(imagined))


@dataclass(frozen=True)
class NumpyroProgram(Program):
    """A NumPyro function with everything but its arrays."""

    function: Callable[..., Any]
    fixed: tuple[tuple[str, Any], ...]
    targets: tuple[Target, ...]
    """Observed arguments and the sites they go to."""
    layout: Layout
    subsampled: tuple[str, ...]
    """Plates that see only a part of the data at a time."""
    joint: tuple[str, ...] = ()
    """Parameters whose constraint ties their entries together, such as a simplex."""
    decreasing: tuple[str, ...] = ()
    """Parameters that are bounded above only: they fall where z rises."""
    constrained: Layout = ()
    """Names and shapes of the parameters on their own scale."""
    redraws: bool = False
    """Whether sites are drawn in spite of what they observe; else the model draws what is None."""
    refusal: Refusal | None = None
    """Why data cannot be simulated."""

    def log_density(self, z: jax.Array, data: Data) -> jax.Array:
        return self._log_density(WholePlates(self.function), z, data)

    def log_density_of_minibatch(self, z: jax.Array, data: Data, key: jax.Array) -> jax.Array:
        return self._log_density(handlers.seed(self.function, key), z, data)

    def _log_density(self, function: Callable[..., Any], z: jax.Array, data: Data) -> jax.Array:
        with tracing():
            return -potential_energy(function, (), self.arguments(data), unravel(z, self.layout))

    def is_elementwise(self, name: str) -> bool:
        return name not in self.joint

    @property
    def has_minibatches(self) -> bool:
        return bool(self.subsampled)

    def constrain(self, z: jax.Array, data: Data) -> dict[str, jax.Array]:
        with tracing():
            values = constrain_fn(
                WholePlates(self.function),
                (),
                self.arguments(data),
                unravel(z, self.layout),
                return_deterministic=True,
            )
        order = [name for name, _ in self.layout]
        order += [name for name in values if name not in order]
        return {name: jnp.asarray(values[name], float) for name in order}

    def unconstrain(self, theta: Mapping[str, Any], data: Data) -> jax.Array:
        return self.unconstrain_with_jacobian(theta, data)[0]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the parameters on their own scale."""
        return dict(self.constrained)

    def log_density_at(
        self, theta: Mapping[str, Any], data: Data
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Return the log density of parameters on their own scale, and all that is derived."""
        known = {name: theta[name] for name, _ in self.layout}
        with tracing():
            value, sites = log_density(WholePlates(self.function), (), self.arguments(data), known)
        derived = [name for name, site in sites.items() if site["type"] == "deterministic"]
        return value, {
            name: jnp.asarray(sites[name]["value"], float) for name in [*known, *derived]
        }

    def unconstrain_with_jacobian(
        self, theta: Mapping[str, Any], data: Data
    ) -> tuple[jax.Array, jax.Array]:
        """Return z, and the log of how much volume of theta one of z makes."""
        sites = self._trace(theta, data)
        inverse, total = {}, jnp.zeros(())
        for name, _ in self.layout:
            transform, value = biject_to(sites[name]["fn"].support), jnp.asarray(theta[name], float)
            inverse[name] = transform.inv(value)
            total += jnp.sum(transform.log_abs_det_jacobian(inverse[name], value))
        return ravel(inverse, self.layout), total

    def log_likelihood(self, z: jax.Array, data: Data) -> dict[str, jax.Array]:
        sites = self._trace(self.constrain(z, data), data)
        return {
            name: site["fn"].log_prob(site["value"])
            for name, site in sites.items()
            if site["type"] == "sample" and site["is_observed"]
        }

    def is_decreasing(self, name: str) -> bool:
        return name in self.decreasing

    @property
    def observed(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(".".join(target.path) for target in self.targets))

    def simulate(self, key: jax.Array, data: Data) -> tuple[jax.Array, Data]:
        sites = self._draw(key, data)
        theta = {name: sites[name]["value"] for name, _ in self.layout}
        simulated = self._simulated(sites, data)
        return self.unconstrain(theta, data | simulated), simulated

    def replicate(self, key: jax.Array, z: jax.Array, data: Data) -> Data:
        return self._simulated(self._draw(key, data, self.constrain(z, data)), data)

    def _simulated(self, sites: Mapping[str, Any], data: Data) -> Data:
        """Return the observed arguments with draws in place of what was given."""
        found = data
        for path, site in self.targets:
            value, given = sites[site]["value"], take(data, path)
            if given is not None and np.size(given) != np.size(value):
                raise ModelError(
                    f"the model draws {'.'.join(path)!r} with shape {np.shape(value)}, but has it "
                    f"with shape {np.shape(given)}",
                    hint="give it to from_numpyro already",
                )
            found = put(found, path, value if given is None else value.reshape(np.shape(given)))
        return {path[0]: found[path[0]] for path, _ in self.targets}

    def require_simulation(self) -> None:
        if self.refusal is not None:
            sentence, hint = self.refusal
            raise ModelError(f"this model cannot simulate data: {sentence}", hint=hint)

    def without_observations(self, data: Data) -> Data:
        self.require_simulation()
        _, drawn = jax.eval_shape(self.simulate, jax.random.key(0), data)
        for path, _ in self.targets:
            leaf = take(drawn, path)
            data = put(data, path, np.zeros(leaf.shape, leaf.dtype))
        return data

    def example(self, data: Data, missing: tuple[str, ...]) -> Data:
        """Return data of the right shapes, as far as it is missing drawn from the model."""
        if not missing:
            return data
        return data | jax.tree.map(np.asarray, self.simulate(jax.random.key(0), data)[1])

    def imagine(self, data: Data, absent: tuple[str, ...], chosen: Chosen) -> Data:
        """Return arrays of the right shapes in place of observed data that has not been given."""
        if not absent:
            return {}
        try:
            rest = self.without(absent)
            return find_missing(
                self.function, rest._sites_at_zero, dict(rest.fixed), data, absent, chosen
            )
        except ModelError:
            self._bind(data)  # what the function cannot do without is the better answer
            raise

    def observed_numbers(self, data: Data) -> Data:
        """Return fixed arguments that are observed numbers, as data."""
        found = find_numbers(self.function, self._sites_at_zero, dict(self.fixed), data)
        return {name: as_data(name, value) for name, value in found.items()}

    def without(self, names: Container[str]) -> NumpyroProgram:
        """Return the program with some of its fixed arguments left to the data."""
        fixed = tuple((name, value) for name, value in self.fixed if name not in names)
        return replace(self, fixed=fixed)

    def with_targets(self, data: Data, missing: tuple[str, ...], chosen: Chosen) -> NumpyroProgram:
        """Return the program that knows what it observes."""
        names = tuple(name for name, _ in self.layout)
        found = find_wiring(
            self.function, self._sites_at_zero, dict(self.fixed), data, missing, chosen, names
        )
        return replace(self, targets=found.targets, redraws=found.redraws, refusal=found.refusal)

    def with_layout(self, data: Data) -> NumpyroProgram:
        """Return the program that knows its parameters, or say why the model cannot be used."""
        layout, subsampled, joint, decreasing, constrained = [], [], [], [], []
        for name, site in self._sites_at_zero(data).items():
            if site["type"] == "plate" and site["infer"]["subsampled"]:
                subsampled.append(name)
            if site["type"] == "param":
                raise ModelError(
                    f"site {name!r} is a numpyro.param, which has no prior density",
                    hint="make it a numpyro.sample, or fix its value",
                )
            if site["type"] != "sample" or site["is_observed"]:
                continue
            if site["fn"].support.is_discrete:
                raise ModelError(
                    f"site {name!r} is a discrete latent variable", hint=_HINT_DISCRETE
                )
            if any(frame.name in subsampled for frame in site["cond_indep_stack"]):
                raise ModelError(f"site {name!r} is a latent variable in a subsampled plate")
            transform = biject_to(site["fn"].support)
            if _base(transform).codomain.event_dim:
                joint.append(name)
            if isinstance(_base_constraint(site["fn"].support), _BOUNDED_ABOVE):
                decreasing.append(name)
            layout.append((name, tuple(transform.inverse_shape(site["fn"].shape()))))
            constrained.append((name, tuple(site["fn"].shape())))
        if not layout:
            raise ModelError("the model has no parameters: every site is observed")
        return replace(
            self,
            layout=tuple(layout),
            subsampled=tuple(subsampled),
            joint=tuple(joint),
            decreasing=tuple(decreasing),
            constrained=tuple(constrained),
        )

    def check_data(self, data: Data) -> None:
        with double_precision():
            sites = self._sites_at_zero(data)
        for name, site in sites.items():
            if site["type"] == "sample" and site["is_observed"]:
                expected, came = tuple(site["fn"].shape()), jnp.shape(site["value"])
                if not _fits(expected, came):
                    raise ModelError(
                        f"data for site {name!r} must have shape {expected}, got {came}"
                    )
        now = {
            name: tuple(
                biject_to(sites[name]["fn"].support).inverse_shape(sites[name]["fn"].shape())
            )
            for name, _ in self.layout
        }
        for name, shape in self.layout:
            if now[name] != shape:
                raise ModelError(
                    f"with this data parameter {name!r} has shape {now[name]}, before {shape}: "
                    "make a new model with from_numpyro"
                )

    def locate_trouble(self, z: jax.Array, data: Data) -> str:
        theta = self.constrain(z, data)
        sites = self._trace(theta, data)
        bad = []
        for name, site in sites.items():
            if site["type"] != "sample":
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # values out of support: that is what we look for
                value = float(jnp.sum(site["fn"].log_prob(site["value"])))
            if not np.isfinite(value):
                bad.append(f"site {name!r} (log density {value})")
        return ", ".join(bad) or "the Jacobian of a constraint"

    def arguments(self, data: Data) -> dict[str, Any]:
        """Return all that the function is called with."""
        return {**dict(self.fixed), **data}

    def _trace(self, theta: Mapping[str, Any], data: Data) -> dict[str, Any]:
        known = {name: theta[name] for name, _ in self.layout}
        function = handlers.substitute(WholePlates(self.function), data=known)
        with tracing():
            return handlers.trace(function).get_trace(**self.arguments(data))

    def _draw(
        self, key: jax.Array, data: Data, theta: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Draw every site, or those that are not parameters given in ``theta``."""
        self.require_simulation()
        for path, _ in self.targets:
            blank = jnp.zeros_like(take(data, path)) if self.redraws else None
            data = put(data, path, blank)
        known = {} if theta is None else {name: theta[name] for name, _ in self.layout}
        sites = frozenset(target.site for target in self.targets)
        function = Redrawn(_NoImproper(WholePlates(self.function)), sites)
        function = handlers.seed(handlers.substitute(function, data=known), key)
        with tracing():
            return dict(handlers.trace(function).get_trace(**self.arguments(data)))

    def _bind(self, data: Data) -> None:
        try:
            inspect.signature(self.function).bind(**self.arguments(data))
        except TypeError as error:
            raise ModelError(
                f"the arguments do not fit the model: {error}", code=ARGUMENTS_DO_NOT_FIT
            ) from error

    def _sites_at_zero(self, data: Data) -> dict[str, Any]:
        """Trace the model at z = 0, its shapes only: nothing is computed."""
        captured: dict[str, Any] = {}
        self._bind(data)

        def run(key: jax.Array, data: Data) -> None:
            function = handlers.substitute(WholePlates(self.function), substitute_fn=at_zero)
            function = handlers.seed(function, key)
            captured.update(handlers.trace(function).get_trace(**self.arguments(data)))

        try:
            with tracing():
                jax.eval_shape(run, jax.random.key(0), data)
        except ModelError:
            raise
        except Exception as error:  # whatever a user's function can raise
            shapes = ", ".join(f"{k} {v.shape}" for k, v in _leaves(data).items())
            raise ModelError(
                f"the model cannot be run with data of shapes {shapes or 'none'}: "
                f"{type(error).__name__}: {error}"
            ) from error
        return captured


class _NoImproper(Messenger):  # type: ignore[misc]
    """Name the site when a prior cannot be drawn from."""

    def process_message(self, msg: Any) -> None:
        improper = type(msg.get("fn")).__name__ == "ImproperUniform"
        if msg["type"] == "sample" and msg["value"] is None and improper:
            raise ModelError(
                f"site {msg['name']!r} has a flat prior that cannot be drawn from",
                hint="to simulate data, give it a proper prior",
            )


def _base(transform: Any) -> Any:
    """Return the transform of single entries inside one of independent entries."""
    while isinstance(transform, IndependentTransform):
        transform = transform.base_transform
    return transform


def _base_constraint(constraint: Any) -> Any:
    """Return the constraint of single entries inside one of independent entries."""
    while isinstance(constraint, _INDEPENDENT):
        constraint = constraint.base_constraint
    return constraint


def _bind(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> dict[str, Any]:
    signature = inspect.signature(function)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        raise ModelError("a model with *args has no names for its data: name its arguments")
    try:
        bound = signature.bind_partial(*args, **kwargs)
    except TypeError as error:
        raise ModelError(
            f"the arguments do not fit the model: {error}", code=ARGUMENTS_DO_NOT_FIT
        ) from error
    arguments = dict(bound.arguments)
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments.update(arguments.pop(name, {}))
    return arguments


def _chosen(observed: Any, function: Callable[..., Any], arguments: Data) -> Chosen:
    """Return the arguments that the user says are observed, with sites where these are said."""
    if observed is None:
        return None
    if isinstance(observed, str):
        raise ModelError(f"observed must be a tuple of names, got the string {observed!r}")
    chosen = dict(observed) if isinstance(observed, Mapping) else dict.fromkeys(observed)
    known = dict.fromkeys([*inspect.signature(function).parameters, *arguments])
    for name in chosen:
        if name not in known:
            told = ", ".join(known) or "none"
            raise ModelError(f"observed has {name!r}, but the model's arguments are: {told}")
    return chosen


def _absent(function: Callable[..., Any], given: Data, chosen: Chosen) -> tuple[str, ...]:
    """Return the arguments that are None or left out, as far as they may be observed."""
    absent = []
    for name, parameter in inspect.signature(function).parameters.items():
        value = given.get(name, parameter.default)
        empty = value is None or value is parameter.empty
        if empty and parameter.kind is not parameter.VAR_KEYWORD:
            absent.append(name)
    return tuple(name for name in absent if chosen is None or name in chosen)


def _hashable(name: str, value: Any) -> Any:
    try:
        hash(value)
    except TypeError as error:
        raise ModelError(
            f"argument {name!r} must be an array or hashable, got {type(value).__name__}"
        ) from error
    return value


def _fits(expected: tuple[int, ...], came: tuple[int, ...]) -> bool:
    """Whether a distribution of one shape can have data of the other without growing it."""
    try:
        return np.broadcast_shapes(expected, came) == came
    except ValueError:
        return False


def _leaves(data: Data) -> dict[str, Any]:
    arrays = {k: v for k, v in data.items() if v is not None and not isinstance(v, Mapping)}
    return {k: np.asarray(v) for k, v in arrays.items()}


def _is_array(value: Any) -> bool:
    """Whether a value is an array of some library: NumPy, JAX, pandas."""
    return hasattr(value, "__array__") and not np.isscalar(value)
