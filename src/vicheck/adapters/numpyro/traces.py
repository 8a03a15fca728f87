"""How NumPyro functions are traced: one at a time, with whole plates, at any point."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import Distribution, biject_to, constraints
from numpyro.distributions.distribution import validation_enabled
from numpyro.primitives import Messenger

from vicheck.errors import ModelError
from vicheck.model import Data
from vicheck.runtime.tracing import abstract_key

__all__ = [
    "CheckedWhereNeeded",
    "ProperPriors",
    "Redrawn",
    "WholePlates",
    "at_zero",
    "outline_at",
    "sites_at_zero",
    "tracing",
]

_TRACING = threading.RLock()
"""NumPyro keeps what it traces in one stack for the whole process: one thread at a time."""


def tracing() -> Any:
    """Return the context to trace in."""
    return _TRACING


class WholePlates(Messenger):  # type: ignore[misc]
    """Give every plate all of its data, and remember the ``subsample_size`` it asked for."""

    def process_message(self, msg: Any) -> None:
        if msg["type"] == "plate":
            size, asked = msg["args"]
            msg["args"], msg["value"] = (size, None), jnp.arange(size)
            msg["infer"] = {"subsampled": asked not in (None, size)}


class Redrawn(Messenger):  # type: ignore[misc]
    """Draw sites that are observed, in the shapes of what they observe.

    Not those within a ``scan``: what comes later there may depend on them.
    """

    def __init__(self, fn: Any, sites: frozenset[str]) -> None:
        super().__init__(fn)
        self.sites = sites

    def process_message(self, msg: Any) -> None:
        if msg["type"] != "sample" or msg["name"] not in self.sites or not msg["is_observed"]:
            return
        if msg.get("_control_flow_done", False):
            return
        shape = jnp.shape(msg["value"])
        msg["fn"] = msg["fn"].expand(shape[: len(shape) - msg["fn"].event_dim])
        msg["kwargs"]["sample_shape"] = ()
        msg["value"], msg["is_observed"] = None, False


class ProperPriors(Messenger):  # type: ignore[misc]
    """Name the site when a prior cannot be drawn from."""

    def process_message(self, msg: Any) -> None:
        improper = type(msg.get("fn")).__name__ == "ImproperUniform"
        if msg["type"] == "sample" and msg["value"] is None and improper:
            raise ModelError(
                f"site {msg['name']!r} has a flat prior that cannot be drawn from",
                hint="to simulate data, give it a proper prior",
            )


class _WithinSupport:
    """A distribution whose density is asked for where its support is beyond doubt."""

    def __init__(self, distribution: Any) -> None:
        self._distribution = distribution

    def log_prob(self, *args: Any) -> Any:
        with validation_enabled(False):
            return self._distribution.log_prob(*args)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._distribution(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._distribution, name)


class CheckedWhereNeeded(Messenger):  # type: ignore[misc]
    """Compare values with the support of their distribution only where they may lie outside.

    NumPyro does so at every site. A parameter is where its transform puts it, within the support,
    and what is infinite or NaN has no finite density on the whole line anyway.
    """

    def process_message(self, msg: Any) -> None:
        if msg["type"] != "sample" or not isinstance(msg["fn"], Distribution):
            return
        is_parameter = msg["value"] is None and not msg["is_observed"]
        if is_parameter or _is_real(msg["fn"].support):
            msg["fn"] = _WithinSupport(msg["fn"])


def _is_real(support: Any) -> bool:
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support is constraints.real


def at_zero(site: Any, shift: Any = 0.0) -> Any:
    """Return the value of a parameter where its unconstrained vector is zero, or all ``shift``."""
    if site["type"] != "sample" or site["is_observed"] or site["fn"].support.is_discrete:
        return None
    transform = biject_to(site["fn"].support)
    return transform(jnp.zeros(transform.inverse_shape(site["fn"].shape())) + shift)


def outline_at(
    function: Callable[..., Any], z: Mapping[str, Any], arguments: Data, redrawn: bool = False
) -> Any:
    """Run a model at an unconstrained point; return all that NumPyro computes its density from.

    Distributions and transforms of NumPyro's are trees themselves, of their parameters. Where the
    model draws what is observed (``redrawn``), that is zero.

    Raises
    ------
    NotImplementedError
        If there is more to it, such as a loop in which NumPyro substitutes step by step.
    """
    transforms: dict[str, Any] = {}

    def value_of(site: Any) -> Any:
        name = site["name"]
        if site["type"] != "sample":
            return None
        if name not in z:
            missing = redrawn and site["value"] is None
            return jnp.zeros(site["fn"].shape(site["kwargs"]["sample_shape"])) if missing else None
        if "_scan_current_index" in site["infer"]:
            raise NotImplementedError("a loop")
        transforms[name] = biject_to(site["fn"].support)
        return transforms[name](z[name])

    with tracing():
        at_z = handlers.substitute(function, substitute_fn=value_of)
        sites = handlers.trace(at_z).get_trace(**arguments)
    drawn = [site for site in sites.values() if site["type"] == "sample"]
    if any(site["intermediates"] for site in drawn):
        raise NotImplementedError("a value that was drawn")
    parts = [
        # What is no array is a key: it belongs to the structure of the tree.
        {
            (site["name"], site["is_observed"]): (
                site["fn"], site["value"], site["scale"], transforms.get(site["name"])
            )
        }
        for site in drawn
    ]  # fmt: skip
    return {getattr(Distribution, "_validate_args", None): parts}


def run_at_zero(function: Callable[..., Any], fixed: Data, data: Data) -> None:
    """Run a model's code at z = 0."""
    at_origin = handlers.substitute(WholePlates(function), substitute_fn=at_zero)
    with tracing():
        handlers.trace(handlers.seed(at_origin, jax.random.key(0))).get_trace(**{**fixed, **data})


def sites_at_zero(function: Callable[..., Any], fixed: Data, data: Data) -> dict[str, Any]:
    """Trace a model at z = 0, its shapes only: nothing is computed.

    Raises
    ------
    ModelError
        If the function raises anything; the message has the shapes of the data.
    """
    captured: dict[str, Any] = {}

    def run(key: jax.Array, data: Data) -> None:
        at_origin = handlers.substitute(WholePlates(function), substitute_fn=at_zero)
        at_origin = handlers.seed(at_origin, key)
        captured.update(handlers.trace(at_origin).get_trace(**{**fixed, **data}))

    try:
        with tracing():
            jax.eval_shape(run, abstract_key(), data)
    except ModelError:
        raise
    except Exception as error:  # whatever a user's function can raise
        arrays = {k: v for k, v in data.items() if v is not None and not isinstance(v, Mapping)}
        shapes = ", ".join(f"{name} {np.shape(array)}" for name, array in arrays.items())
        raise ModelError(
            f"the model cannot be run with data of shapes {shapes or 'none'}: "
            f"{type(error).__name__}: {error}"
        ) from error
    return captured
