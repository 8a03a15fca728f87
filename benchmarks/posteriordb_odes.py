"""Posteriors of posteriordb whose models are differential equations, in NumPyro.

Runge-Kutta with fixed steps between the measurements, fine enough that the moments do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

STEPS = 20
"""Between two measurements."""
LARGEST_LOG = 30.0
"""Of a population: beyond it a step could overflow, and no data is near."""


def one_compartment(times: Any, start: Any, dose: Any, volume: Any, y: Any = None) -> None:
    rate = numpyro.sample("k_a", dist.HalfCauchy(1))
    half = numpyro.sample("K_m", dist.HalfCauchy(1))
    top = numpyro.sample("V_m", dist.HalfCauchy(1))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(1))

    def slope(time: Any, level: Any) -> Any:
        level = jnp.maximum(level, 0)
        return (jnp.exp(-rate * time) * dose * rate - top * level / (half + level)) / volume

    level = jnp.maximum(solved(slope, 0 * rate, start, times), 1e-10)
    numpyro.sample("y", dist.LogNormal(jnp.log(level), sigma), obs=y)


def lotka_volterra(times: Any, start: Any, y_init: Any, y: Any = None) -> None:
    """Hares and lynxes: the program's parameters, with the populations on the log scale."""
    middle, spread = jnp.array([1.0, 0.05, 1.0, 0.05]), jnp.array([0.5, 0.05, 0.5, 0.05])
    positive = dist.TruncatedNormal(middle, spread, low=0.0).to_event(1)
    theta = numpyro.sample("theta", positive)
    z_init = numpyro.sample("z_init", dist.LogNormal(jnp.log(10.0), 1).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.LogNormal(-1, 1).expand([2]).to_event(1))

    def slope(time: Any, log_level: Any) -> Any:
        hares, lynxes = jnp.exp(jnp.clip(log_level, -LARGEST_LOG, LARGEST_LOG))
        return jnp.stack([theta[0] - theta[1] * lynxes, theta[3] * hares - theta[2]])

    log_levels = jnp.clip(solved(slope, jnp.log(z_init), start, times), -1e3, 1e3)
    log_z = jnp.concatenate([jnp.log(z_init)[None], log_levels])
    numpyro.sample("first", dist.LogNormal(log_z[0], sigma).to_event(1), obs=y_init)
    numpyro.sample("y", dist.LogNormal(log_z[1:], sigma).to_event(2), obs=y)


def solved(slope: Callable[[Any, Any], Any], level: Any, start: Any, times: Any) -> Any:
    """Return the solution of an equation at each time, from a level at the start."""

    def step(level: Any, interval: Any) -> tuple[Any, Any]:
        time, width = interval
        k1 = slope(time, level)
        k2 = slope(time + width / 2, level + width / 2 * k1)
        k3 = slope(time + width / 2, level + width / 2 * k2)
        k4 = slope(time + width, level + width * k3)
        level += width / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return level, level

    widths = jnp.diff(times, prepend=start) / STEPS
    begins = times[:, None] - widths[:, None] * jnp.arange(STEPS, 0, -1)
    _, levels = jax.lax.scan(step, level, (begins.ravel(), jnp.repeat(widths, STEPS)))
    return levels[STEPS - 1 :: STEPS]


def prepare_compartment(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "times": np.asarray(data["times"], float),
        "start": np.asarray(data["t0"], float),
        "dose": np.asarray(data["D"], float),
        "volume": np.asarray(data["V"], float),
        "y": np.asarray(data["C_hat"], float),
    }


def prepare_populations(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "times": np.asarray(data["ts"], float),
        "start": np.asarray(0.0),
        "y_init": np.asarray(data["y_init"], float),
        "y": np.asarray(data["y"], float),
    }
