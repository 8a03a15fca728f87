"""Models whose checks are known, also to workers, which import this; light for that reason."""

import os
import signal
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import vicheck
from vicheck.adapters.host_calls import call_on_host


def narrow(x, data):
    """Two correlated normals: the mean field q is too narrow."""
    return -0.5 * (x @ data["precision"] @ x)


def narrow_model(correlation):
    precision = np.linalg.inv([[1.0, correlation], [correlation, 1.0]])
    return vicheck.from_log_density(narrow, np.zeros(2), data={"precision": precision})


def total(theta):
    return theta["x"].sum()


def on_host(function):
    """Return a model whose density is that of a standard normal, by a function of the host."""

    @jax.custom_jvp
    def density(x):
        return call_on_host(
            lambda z: [function(z)], [((), np.float64)], x, vmap_method="expand_dims"
        )[0]

    @density.defjvp
    def _(primals, tangents):
        return density(*primals), -jnp.sum(primals[0] * tangents[0])

    return vicheck.from_log_density(density, np.zeros(2))


def normal(z):
    return -0.5 * (z**2).sum(axis=-1)


class DyingOnce:
    """A density that kills the process that evaluates it, unless one was killed already."""

    def __init__(self, marker, parent):
        self.marker, self.parent = str(marker), parent

    def __call__(self, z):
        if os.getpid() != self.parent and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return normal(z)
