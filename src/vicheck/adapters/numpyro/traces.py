"""How NumPyro functions are traced: one at a time, with whole plates, at any point."""

from __future__ import annotations

import threading
from typing import Any

import jax.numpy as jnp
from numpyro.distributions import biject_to
from numpyro.primitives import Messenger

__all__ = ["Redrawn", "WholePlates", "at_zero", "tracing"]

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

    Not those within a ``scan``: what comes later there may hang on them.
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


def at_zero(site: Any, shift: Any = 0.0) -> Any:
    """Return the value of a parameter where its unconstrained vector is zero, or all ``shift``."""
    if site["type"] != "sample" or site["is_observed"] or site["fn"].support.is_discrete:
        return None
    transform = biject_to(site["fn"].support)
    return transform(jnp.zeros(transform.inverse_shape(site["fn"].shape())) + shift)
