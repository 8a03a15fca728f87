"""The Hessian of minus the ELBO on fixed draws, by products with vectors.

A product is a difference of two gradients of the objective, on the same draws: nothing more has to
be compiled than a fit has compiled already, and densities that have no second derivatives, such as
Stan's, need no way of their own.
"""

from __future__ import annotations

import jax
import numpy as np
from numpy.typing import NDArray

from vicheck.model import Model
from vicheck.runtime.interrupts import check_interrupt
from vicheck.vi.charts.chart import Chart
from vicheck.vi.density import Density
from vicheck.vi.families.family import Family

__all__ = ["DIFFERENCE", "Hessian", "chart_of"]

Floats = NDArray[np.float64]

DIFFERENCE = 1e-3
"""Length of a step to either side, in sds of q: higher derivatives change a central difference by
about its square, and rounding by some 1e-12."""
_TOGETHER = 2**21
"""Numbers in the draws that are worked on together."""


def chart_of(q: Family) -> Chart:
    """Return the chart around q alone, in which a step is measured in q's own sds."""
    anchor: Family = jax.tree.map(lambda leaf: np.asarray(leaf)[None], q)
    still = np.zeros((1, q.step_dim))
    _, sd = anchor.chart(np.zeros((1, q.dim))).mean_and_sd(still)
    return anchor.chart(sd)


class Hessian:
    """Second derivatives of minus the ELBO at q, by steps in q's own sds: about 1 on the diagonal.

    Parameters
    ----------
    model
        The model, a snapshot.
    q
        Where the derivatives are taken.
    half
        Noise, shape ``(n, k)``: each draw comes with its negative.
    """

    def __init__(self, model: Model, q: Family, half: Floats) -> None:
        self.chart = chart_of(q)
        self.size = int(self.chart.step_dim)
        self._density = Density(model.program, model.data, {})
        self._half = half

    @property
    def num_evaluations(self) -> int:
        """How often the density and its gradient were evaluated so far."""
        return int(self._density.num_evaluations[0])

    def times(self, vectors: Floats) -> Floats:
        """Return the Hessian times each row of an array, shape ``(m, p)``."""
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        steps = DIFFERENCE * vectors / np.where(lengths > 0.0, lengths, 1.0)
        products = np.empty_like(vectors)
        width = max(1, _TOGETHER // (4 * self._half.size))
        for start in range(0, len(vectors), width):
            some = steps[start : start + width]
            ahead, behind = np.split(self._gradients(np.concatenate([some, -some])), 2)
            products[start : start + width] = (ahead - behind) / (2.0 * DIFFERENCE)
        return products * lengths

    def dense(self) -> Floats:
        """Return all of it, made symmetric."""
        whole = self.times(np.eye(self.size))
        return 0.5 * (whole + whole.T)

    def _gradients(self, steps: Floats) -> Floats:
        """Return the gradients of the objective at some steps, shape ``(m, p)``."""
        check_interrupt()
        count, (pairs, width) = len(steps), self._half.shape
        chart = self.chart.repeated(count)
        total = np.zeros_like(steps)
        block = max(1, _TOGETHER // (2 * count * width))
        for start in range(0, pairs, block):
            half = self._half[start : start + block]
            noise = np.broadcast_to(np.concatenate([half, -half]), (count, 2 * len(half), width))
            draws = chart.draws(steps, noise)
            # All steps are of one fit, so their draws are one batch of points.
            log_p, gradients = self._density(
                np.zeros(1, np.intp), draws.reshape(1, -1, draws.shape[-1])
            )
            gradients = np.where(np.isfinite(log_p)[..., None], gradients, np.nan)
            pulled = chart.pull_back(steps, noise, gradients.reshape(draws.shape))
            _, slope = chart.entropy(steps, noise)
            total -= (pulled + slope) * (len(half) / pairs)
        return total
