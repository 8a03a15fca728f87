"""Log predictive density of held-out data, by plain VI and by PSIS."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vicheck.model import Data, Model, Program, double_precision
from vicheck.results.estimates import Measure, Predictive
from vicheck.runtime.compiling import compiled
from vicheck.stats.estimates import plain_log_weights
from vicheck.stats.tail_lengths import judged_psis
from vicheck.vi.families.family import Family

__all__ = ["predictive_density"]

_DRAWS = 4000
_NUMBERS = 2**25
"""Log likelihoods, of all points at all draws, that are held: with many points, fewer draws."""


def predictive_density(
    model: Model, q: Family, test_data: Mapping[str, Any], *, seed: int = 0
) -> Predictive:
    """Estimate the log predictive density of test data, summed over its points.

    The paper's warning (section 4.2): it does not diagnose variational inference, because a worse
    approximation can predict better.
    """
    held_out = model.given(test_data)
    with double_precision():
        sites = jax.eval_shape(model.program.log_likelihood, jnp.zeros(model.dim), held_out.data)
        num_points = sum(math.prod(site.shape) for site in sites.values())
        num_draws = max(100, min(_DRAWS, _NUMBERS // max(1, num_points)))
        log_p, log_q, points = map(
            np.asarray,
            _densities(
                (model.program, num_draws), q, jax.random.key(seed), model.data, held_out.data
            ),
        )
    log_ratios = log_p - log_q
    return Predictive(
        vi=_summed(points, plain_log_weights(num_draws)),
        psis=_summed(points, judged_psis(log_ratios).log_weights),
        num_points=points.shape[1],
    )


def _summed(points: np.ndarray, log_weights: np.ndarray) -> Measure:
    """Sum the log of weighted means over the points; the error by the delta method."""
    if np.isnan(log_weights).any():
        return Measure(np.nan, np.nan, "the weights are undefined")
    with np.errstate(under="ignore"):
        terms = points + log_weights[:, None]
        each = np.logaddexp.reduce(terms, axis=0)
        weights = np.exp(log_weights)
        influence = (np.exp(points - each) - 1.0).sum(axis=1)
        return Measure(float(each.sum()), float(np.sqrt(np.square(weights * influence).sum())))


@compiled()
def _densities(
    what: tuple[Program, int], q: Family, key: jax.Array, data: Data, held_out: Data
) -> tuple[jax.Array, jax.Array, jax.Array]:
    program, num_draws = what
    z, log_q = q.sample_and_log_prob(key, num_draws)

    def one(z: jax.Array) -> tuple[jax.Array, jax.Array]:
        sites = program.log_likelihood(z, held_out)
        parts = [jnp.ravel(part) for part in sites.values()]
        return program.log_density(z, data), jnp.concatenate(parts)

    log_p, points = jax.lax.map(one, z, batch_size=64)
    return log_p, log_q, points
