"""What JAX compiles of a NumPyro model: its densities, its constraints and its draws."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Container, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer.util import constrain_fn, log_density, potential_energy

from vicheck.adapters.numpyro.dependencies import put, take
from vicheck.adapters.numpyro.indices import require_indices
from vicheck.adapters.numpyro.observed import Chosen, find_missing, find_numbers, find_wiring
from vicheck.adapters.numpyro.parameters import find_parameters, unconstrained_shape
from vicheck.adapters.numpyro.refusals import Refusal, Target, is_factor
from vicheck.adapters.numpyro.traces import (
    CheckedWhereNeeded,
    ProperPriors,
    Redrawn,
    WholePlates,
    outline_at,
    run_at_zero,
    sites_at_zero,
    tracing,
)
from vicheck.errors import ARGUMENTS_DO_NOT_FIT, ModelError
from vicheck.model import Data, Layout, Program, as_data, double_precision, ravel, unravel
from vicheck.runtime.tracing import abstract_key

__all__ = ["NumpyroProgram"]


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
    """Parameters that are only bounded above: they fall where z rises."""
    constrained: Layout = ()
    """Names and shapes of the parameters on their own scale."""
    redraws: bool = False
    """Whether observed sites have to be redrawn; otherwise the model draws what is None."""
    refusal: Refusal | None = None
    """Why data cannot be simulated."""
    stand_ins: tuple[tuple[str, str], ...] = ()

    checked: bool = True
    """Whether parameters are compared with their support too, as NumPyro does."""

    def log_density(self, z: jax.Array, data: Data) -> jax.Array:
        return self._log_density(WholePlates(self.function), z, data)

    def unchecked(self) -> NumpyroProgram:
        """Return the same density, compiled in less time: see `CheckedWhereNeeded`.

        Not for one set of data: XLA for CPUs happens to fuse the comparisons so well that densities
        of many draws take up to twice the time without them. One fit after the other does not.
        """
        return replace(self, checked=False)

    def log_density_of_minibatch(self, z: jax.Array, data: Data, key: jax.Array) -> jax.Array:
        return self._log_density(handlers.seed(self.function, key), z, data)

    def _log_density(self, function: Callable[..., Any], z: jax.Array, data: Data) -> jax.Array:
        function = function if self.checked else CheckedWhereNeeded(function)
        with tracing():
            return -potential_energy(function, (), self.arguments(data), unravel(z, self.layout))

    def outline(self, use: str, data: Data) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
        """Return a function of the parts of z and data that returns the sites.

        They decide the log density, together with how z is cut into its parts, which is known.

        All code of the user's runs in there, but for distributions of the user's own. What NumPyro
        computes from the sites takes three quarters of the time of a trace. A simulation is decided
        by the sites where nothing is observed and, as it is for its parameters on the unconstrained
        scale, by the log density.
        """
        # Without what is observed there is no log density.
        complete = all(path[0] in data for path, _ in self.targets)
        if use == "simulate" and self.refusal is None and complete:
            density = self.computation("log_density", data)
            return partial(self._sites_drawn_at, density), self._parts_and(data)
        return (self._sites_at, self._parts_and(data)) if use == "log_density" else None

    def _parts_and(self, data: Data) -> tuple[Any, Any]:
        """Return the shapes and types of the parts of z and of data, to trace with."""
        z, abstract_data = self.traces("log_density", data)[1]
        return {name: z.update(shape=shape) for name, shape in self.layout}, abstract_data

    def _sites_drawn_at(self, density: Hashable, z: Mapping[str, Any], data: Data) -> Any:
        """Return the sites of a simulation, but with parameters from z in place of draws."""
        function, arguments = self._unobserved(data)
        parts = outline_at(function, z, arguments, redrawn=True)
        targets = tuple((tuple(path), site) for path, site in self.targets)
        return {(density, targets, self.layout): parts}

    def _sites_at(self, z: Mapping[str, Any], data: Data) -> Any:
        sites = outline_at(WholePlates(self.function), z, self.arguments(data))
        return {(self.checked, self.layout): sites}

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
        """Return z, and the log of the Jacobian determinant of theta with respect to z."""
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

    def factors(self, data: Data) -> tuple[str, ...]:
        sites = self._sites_at_zero(data).items()
        return tuple(name for name, site in sites if site["type"] == "sample" and is_factor(site))

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
        replaced = data
        for path, site in self.targets:
            value, given = sites[site]["value"], take(data, path)
            if given is not None and np.size(given) != np.size(value):
                raise ModelError(
                    f"the model draws {'.'.join(path)!r} with shape {np.shape(value)}, but has it "
                    f"with shape {np.shape(given)}",
                    hint="give it to from_numpyro at once",
                )
            fitting = value if given is None else value.reshape(np.shape(given))
            replaced = put(replaced, path, fitting)
        return {path[0]: replaced[path[0]] for path, _ in self.targets}

    def require_simulation(self) -> None:
        if self.refusal is not None:
            sentence, hint = self.refusal
            raise ModelError(f"this model cannot simulate data: {sentence}", hint=hint)

    def without_observations(self, data: Data) -> Data:
        self.require_simulation()
        _, drawn = jax.eval_shape(self.simulate, abstract_key(), data)
        for path, _ in self.targets:
            leaf = take(drawn, path)
            data = put(data, path, np.zeros(leaf.shape, leaf.dtype))
        return data

    def example(self, data: Data, missing: tuple[str, ...]) -> Data:
        """Return data of the right shapes; what is missing is drawn from the model."""
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
        numbers = find_numbers(self.function, self._sites_at_zero, dict(self.fixed), data)
        return {name: as_data(name, value) for name, value in numbers.items()}

    def without(self, names: Container[str]) -> NumpyroProgram:
        """Return the program with some of its fixed arguments left to the data."""
        fixed = tuple((name, value) for name, value in self.fixed if name not in names)
        return replace(self, fixed=fixed)

    def with_targets(self, data: Data, missing: tuple[str, ...], chosen: Chosen) -> NumpyroProgram:
        """Return the program that knows what it observes."""
        names = tuple(name for name, _ in self.layout)
        wiring = find_wiring(
            self.function, self._sites_at_zero, dict(self.fixed), data, missing, chosen, names
        )
        return replace(self, targets=wiring.targets, redraws=wiring.redraws, refusal=wiring.refusal)

    def with_parameters(self, data: Data) -> NumpyroProgram:
        """Return the program that knows its parameters, or say why the model cannot be used."""
        return replace(self, **find_parameters(self._sites_at_zero(data))._asdict())

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
        for name, shape in self.layout:
            now = unconstrained_shape(sites[name])
            if now != shape:
                raise ModelError(
                    f"with this data parameter {name!r} has shape {now}, before {shape}: "
                    "make a new model with from_numpyro"
                )
        with double_precision():
            require_indices(partial(run_at_zero, self.function, dict(self.fixed)), data)

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
        function, arguments = self._unobserved(data)
        known = {} if theta is None else {name: theta[name] for name, _ in self.layout}
        function = handlers.seed(handlers.substitute(function, data=known), key)
        with tracing():
            return dict(handlers.trace(function).get_trace(**arguments))

    def _unobserved(self, data: Data) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the model as it draws what is observed, and what it is called with."""
        for path, _ in self.targets:
            blank = jnp.zeros_like(take(data, path)) if self.redraws else None
            data = put(data, path, blank)
        sites = frozenset(target.site for target in self.targets)
        return Redrawn(ProperPriors(WholePlates(self.function)), sites), self.arguments(data)

    def _bind(self, data: Data) -> None:
        try:
            inspect.signature(self.function).bind(**self.arguments(data))
        except TypeError as error:
            raise ModelError(
                f"the arguments do not fit the model: {error}", code=ARGUMENTS_DO_NOT_FIT
            ) from error

    def _sites_at_zero(self, data: Data) -> dict[str, Any]:
        self._bind(data)
        return sites_at_zero(self.function, dict(self.fixed), data)


def _fits(expected: tuple[int, ...], came: tuple[int, ...]) -> bool:
    """Whether a distribution of one shape can have data of the other without growing it."""
    try:
        return np.broadcast_shapes(expected, came) == came
    except ValueError:
        return False
