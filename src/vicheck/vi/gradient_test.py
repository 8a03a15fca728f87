"""Has the fit converged? A test, on fresh draws, that the expected gradient at q is zero."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vicheck.model import Data, Model, Program
from vicheck.results.convergence import GradientTest
from vicheck.runtime.compiling import compiled
from vicheck.vi.families.family import Family

__all__ = ["gradient_test"]

_CHUNK = 16


def gradient_test(
    model: Model, q: Family, *, num_draws: int = 1024, tolerance: float = 0.1, seed: int = 0
) -> GradientTest:
    """Test whether q is an optimum of its family, up to a tolerance in standard deviations.

    At an optimum the expected gradient of log_q - log_p with respect to q's parameters is zero,
    whatever the family. Its entries are measured in sds of q: the gradient is about the distance
    from the optimum. The null hypothesis is that no entry exceeds the tolerance. A fit on finitely
    many draws is never exactly at the optimum, and a test of exactly zero would in the end reject
    every fit. Gradients are path derivatives, which have no noise at all where q equals p.
    """
    rng = np.random.default_rng((seed, 7))
    half = rng.standard_normal((num_draws // 2 // _CHUNK, _CHUNK, q.noise_dim))
    data = jax.tree.map(jnp.asarray, model.data)
    mean, error = map(np.array, _moments(model.program, q, half, data))
    count = half.shape[0] * half.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = (np.abs(mean) - tolerance) / error
    excess = np.where(np.abs(mean) > tolerance, excess, -np.inf)
    worst = int(np.argmax(np.where(np.isnan(mean), np.inf, np.abs(mean))))
    size = float(abs(mean[worst]))
    p_value = min(1.0, mean.size * math.erfc(float(np.max(excess)) / math.sqrt(2.0)))
    if not math.isfinite(size):
        p_value = math.nan
    return GradientTest(
        size=size,
        p_value=p_value,
        tolerance=tolerance,
        worst=q.entry_name(worst, mean, model.coordinates),
        num_draws=2 * count,
    )


@compiled("log_density")
def _moments(program: Program, q: Family, noise: Any, data: Data) -> tuple[Any, Any]:
    units = q.units()

    def loss(step: jax.Array, e: jax.Array) -> jax.Array:
        z = q.displaced(step, units).transform(e)
        return q.log_prob(z) - program.log_density(z, data)

    zero = jnp.zeros(q.step_dim, noise.dtype)

    def add(total: Any, half: jax.Array) -> tuple[Any, None]:
        # Antithetic draws: the average over a pair is one independent observation.
        each = jax.vmap(jax.grad(loss), (None, 0))(zero, jnp.concatenate([half, -half]))
        gradients = 0.5 * (each[: len(half)] + each[len(half) :])
        return (total[0] + gradients.sum(0), total[1] + jnp.square(gradients).sum(0)), None

    (first, second), _ = jax.lax.scan(add, (zero, zero), noise)
    count = noise.shape[0] * noise.shape[1]
    mean = first / count
    variance = jnp.maximum(second / count - mean**2, 0.0)
    return mean, jnp.sqrt(variance / (count - 1))
