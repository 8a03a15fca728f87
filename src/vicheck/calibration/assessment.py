"""What each fit says about the truth behind its data: probabilities, khat, symmetric KL."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from vicheck.calibration.noise import as_normal, random_bits
from vicheck.evaluation import BLOCKS, chunk_size, densities_and_values
from vicheck.model import Data, Program
from vicheck.quantities import Quantities
from vicheck.runtime.compiling import compiled
from vicheck.runtime.seeds import generators
from vicheck.stats.calibration import randomised_probability, ranked_probability, symmetric_kl_terms
from vicheck.stats.psis import psis_quietly
from vicheck.stats.smoothing import is_small
from vicheck.vi.families.abilities import HasMarginals
from vicheck.vi.families.family import Family

__all__ = ["Assessment", "assess", "compile_assessment", "probabilities_of_draws"]

Floats = NDArray[np.float64]

_NOISE, _RANKS = 2, 3
"""Streams of random numbers that belong to a dataset's seed."""


class Assessment(NamedTuple):
    """What is known of some fits, the first axis over them."""

    probability: Floats
    khat: Floats
    symmetric_kl: Floats


def assess(
    program: Program,
    quantities: Quantities,
    q: Family,
    truth: Floats,
    own: Data,
    shared: Data,
    seeds: NDArray[np.int64],
    num_draws: int,
) -> Assessment:
    """Compare fits with the truths; arrays in ``q``, ``truth`` and ``own`` have an axis over fits.

    Entries of z have exact probabilities. For the other quantities the truth is ranked among draws
    from q, ties and the gaps between draws broken at random.
    """
    bits = _no_bits(q, truth, own, shared, num_draws)
    num_blocks, size, noise_dim = bits.shape[1:]
    uniform = np.empty((len(seeds), len(quantities.drawn_names)))
    used = bits.reshape(len(seeds), -1)[:, : num_draws * noise_dim]
    rngs = generators(np.random.SFC64, seeds, _NOISE)
    for row, numbers, rng in zip(used, uniform, rngs, strict=True):
        row[:] = random_bits(rng, row.size)
        rng.random(out=numbers)
    evaluated = _evaluate((program, quantities), q, truth, bits, own, shared)
    cdf, at_truth, ratios, true_values, values = map(np.asarray, evaluated)
    ratios = ratios.reshape(len(seeds), -1)[:, :num_draws]
    values = values.reshape(len(seeds), num_blocks * size, -1)[:, :num_draws]
    ranked = ranked_probability(values.swapaxes(0, 1), true_values, 1.0 - uniform)
    return Assessment(
        np.concatenate([quantities.exact(cdf), ranked], axis=1),
        _khats(ratios),
        symmetric_kl_terms(at_truth, ratios),
    )


def compile_assessment(
    program: Program,
    quantities: Quantities,
    q: Family,
    truth: Floats,
    own: Data,
    shared: Data,
    num_draws: int,
) -> None:
    """Compile what `assess` needs for arrays of these shapes."""
    bits = _no_bits(q, truth, own, shared, num_draws)
    _evaluate((program, quantities), q, truth, bits, own, shared)


def _no_bits(q: Family, truth: Floats, own: Data, shared: Data, num_draws: int) -> Any:
    """Return zeros to be filled with random bits for all draws, cut into blocks for each fit."""
    width = truth.shape[1] + sum(
        np.size(leaf) // len(truth) if name in own else np.shape(leaf)[0]
        for name, part in (own | shared).items()
        for leaf in jax.tree.leaves(part)
        if np.ndim(leaf)
    )
    size = chunk_size(num_draws, width, BLOCKS)
    return np.zeros((len(truth), -(-num_draws // size), size, _noise_dim(q)), np.uint32)


def _khats(ratios: Floats) -> Floats:
    """Return khat of each row, from so few rows at a time that no compiled code is loaded for it.

    Where one row is long enough for that code, it is.
    """
    count, num_draws = ratios.shape
    size = max((n for n in range(1, count + 1) if is_small(n, num_draws)), default=count)
    parts = (ratios[start : start + size] for start in range(0, count, size))
    return np.concatenate([psis_quietly(part, with_weights=False).khat for part in parts])


def probabilities_of_draws(draws: Any, truth: Any, seed: Any) -> Floats:
    """Rank the truth among draws, which come first in the shape; reproducible by the seed."""
    rng = np.random.default_rng((int(seed), _RANKS))
    return np.asarray(randomised_probability(draws, truth, rng))


def _noise_dim(q: Family) -> int:
    return jax.tree.map(lambda leaf: np.empty(np.shape(leaf)[1:]), q).noise_dim


@compiled("log_density")
def _evaluate(
    what: tuple[Program, Quantities], q: Family, truth: Any, bits: Any, own: Data, shared: Data
) -> tuple[jax.Array, ...]:
    program, quantities = what

    def of_fit(lane: Any) -> tuple[jax.Array, ...]:
        member, z_true, blocks, its_own = lane

        def of_block(block: jax.Array) -> tuple[jax.Array, jax.Array]:
            log_p, log_q, values = densities_and_values(
                program, quantities, member, block.astype(truth.dtype), shared | its_own, z_true
            )
            return log_p - log_q, values

        ratios, values = lax.map(of_block, blocks)
        # By the family, not by the quantities: code is shared where the drawn ones are the same.
        exact = isinstance(member, HasMarginals)
        cdf = member.marginal_cdf(z_true) if exact else jnp.full_like(z_true, jnp.nan)
        return cdf, ratios[0, 0], ratios[:, 1:], values[0, 0], values[:, 1:]

    # All at once: within the loop XLA would compute them anew wherever they are used.
    return lax.map(of_fit, (q, truth, as_normal(bits), own))
