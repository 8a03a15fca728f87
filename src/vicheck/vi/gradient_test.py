"""Has the fit converged? A test, on fresh draws, that the expected gradient at q is zero."""

from __future__ import annotations

import math

import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.model import Model
from vicheck.results.convergence import GradientTest
from vicheck.vi.density import Density
from vicheck.vi.families.family import Family

__all__ = ["gradient_test"]

Floats = NDArray[np.float64]

_NUMBERS = 2**22
"""Numbers in the gradients that are held at a time."""
_FEWEST = 128
"""Pairs that are evaluated together at least."""


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
    half = rng.standard_normal((num_draws // 2, q.noise_dim))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean, error = _moments(model, q, half)
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
        num_draws=2 * len(half),
    )


def _moments(model: Model, q: Family, half: Floats) -> tuple[Floats, Floats]:
    """Return means and standard errors of the gradient of log_q - log_p by a step from q."""
    anchor: Family = jax.tree.map(lambda leaf: np.asarray(leaf)[None], q)
    # A chart of scales needs these: a step of the mean is measured in them.
    _, sd = anchor.chart(np.zeros((1, q.dim))).mean_and_sd(np.zeros((1, q.step_dim)))
    chart = anchor.chart(sd)
    density, lane = Density(model.program, model.data, {}), np.zeros(1, np.intp)
    first, second = np.zeros(chart.step_dim), np.zeros(chart.step_dim)
    width = max(_FEWEST, min(len(half), _NUMBERS // chart.step_dim))
    for start in range(0, len(half), width):
        some = half[start : start + width]
        noise = np.concatenate([some, -some])[None]
        draws = chart.draws(np.zeros((1, chart.step_dim)), noise)
        _, gradients = density(lane, draws)
        slopes = (chart.scores(noise, draws) - gradients).reshape(2, *some.shape[:1], q.dim)
        sums = chart.pulled_moments(some, slopes)
        first, second = first + sums[0], second + sums[1]
    count = len(half)
    mean = first / count
    variance = np.maximum(second / count - mean**2, 0.0)
    return mean, np.sqrt(variance / (count - 1))
