"""What depends on what in a NumPyro function, seen from a trace of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr
from numpyro import handlers

from vicheck.adapters.numpyro.location_scale import base_of, other_parameters
from vicheck.adapters.numpyro.traces import Redrawn, WholePlates, at_zero, tracing
from vicheck.model import Data
from vicheck.runtime.tracing import abstract_key

__all__ = ["Look", "Path", "look_at", "put", "take"]

Path = tuple[str, ...]
"""An argument's name; for an array in a dictionary, the keys that lead to it too."""


@dataclass(frozen=True, eq=False)
class Look:
    """A trace of a model whose parameters and data are inputs, to see what depends on what."""

    sites: dict[str, Any]
    paths: tuple[Path, ...]
    """Of the data, in the order of the inputs after the two random ones."""
    labels: tuple[tuple[str, str], ...]
    """Of each output: ``value``, ``law``, ``loc and scale`` or ``density``, and its site."""
    code: ClosedJaxpr

    @property
    def observed(self) -> tuple[str, ...]:
        """Names of the sites that observe something."""
        return tuple(name for name, site in self.sites.items() if site["is_observed"])

    def sources(self, name: str, *kinds: str) -> tuple[bool, tuple[Path, ...]]:
        """Return whether something of a site is random, and which data it depends on."""
        used = self._reduced(name, kinds)[1]
        return any(used[:2]), tuple(
            path for path, here in zip(self.paths, used[2:], strict=True) if here
        )

    def path_of(self, name: str) -> Path | None:
        """Return the argument that a site observes as it is, up to its shape and type."""
        random, paths = self.sources(name, "value")
        if random or len(paths) != 1:
            return None
        code, used = self._reduced(name, ("value",))
        (place,) = np.flatnonzero(used)
        probe = _probe(self.code.jaxpr.invars[place].aval)
        (value,) = jaxpr_as_fun(ClosedJaxpr(code, self.code.consts))(probe)
        same = np.array_equal(np.ravel(value), np.ravel(probe))
        return paths[0] if same else None

    def _reduced(self, name: str, kinds: Iterable[str]) -> tuple[Any, list[bool]]:
        wanted = [label in {(kind, name) for kind in kinds} for label in self.labels]
        return dce_jaxpr(self.code.jaxpr, wanted)


def look_at(
    function: Callable[..., Any], fixed: Data, data: Data, redrawn: frozenset[str] = frozenset()
) -> Look:
    """Trace a function with these arguments, and with some of its observed sites redrawn."""
    leaves = dict(_leaves(data))
    sites: dict[str, Any] = {}
    labels: list[tuple[str, str]] = []

    def run(shift: Any, key: Any, arrays: list[Any]) -> list[Any]:
        given = data
        for path, array in zip(leaves, arrays, strict=True):
            given = put(given, path, array)
        traced = handlers.substitute(
            Redrawn(WholePlates(function), redrawn), substitute_fn=partial(at_zero, shift=shift)
        )
        trace = handlers.trace(handlers.seed(traced, key)).get_trace(**fixed, **given)
        sites.update({name: site for name, site in trace.items() if site["type"] == "sample"})
        outputs = []
        for name, site in sites.items():
            for kind, output in _outputs_of(site, arrays):
                labels.append((kind, name))
                outputs.append(output)
        return outputs

    with tracing():
        code = jax.make_jaxpr(run)(0.0, abstract_key(), list(leaves.values()))
    return Look(sites, tuple(leaves), tuple(labels), code)


def _outputs_of(site: Any, arrays: list[Any]) -> Iterable[tuple[str, Any]]:
    fn, value = site["fn"], site["value"]
    yield "value", jnp.asarray(value)
    for leaf in jax.tree.leaves((fn, site["scale"])):
        if isinstance(leaf, jax.Array):
            yield "law", leaf
    if other_parameters(fn) is not None:
        yield "loc and scale", jnp.asarray(base_of(fn).loc)
        yield "loc and scale", jnp.asarray(base_of(fn).scale)
    if site["is_observed"] and not any(value is array for array in arrays):
        # What is no argument may be a factor, or data that stay: does it depend on a parameter?
        yield "density", jnp.asarray(fn.log_prob(value))


def take(data: Data, path: Path) -> Any:
    """Return the array at a path, or None."""
    value: Any = data
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value


def put(data: Data, path: Path, value: Any) -> Data:
    """Return data with another value at a path."""
    first, *rest = path
    return data | {first: put(data.get(first, {}), tuple(rest), value) if rest else value}


def _leaves(data: Data, before: Path = ()) -> Iterable[tuple[Path, Any]]:
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _leaves(dict(value), (*before, name))
        elif value is not None:
            yield (*before, name), value


def _probe(aval: Any) -> np.ndarray:
    """Return numbers that no change leaves as they are, unless it would leave any draw so."""
    numbers = 2 + np.arange(aval.size).reshape(aval.shape)
    return (numbers % 3 == 0) if aval.dtype == bool else numbers.astype(aval.dtype)
