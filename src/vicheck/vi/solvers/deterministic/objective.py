"""The objective of variational inference on fixed noise: minus the ELBO, and its gradient."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.vi.charts.chart import Chart
from vicheck.vi.density import Density, Lanes
from vicheck.vi.guided import Bowl

__all__ = ["Evaluated", "Objective"]

Floats = NDArray[np.float64]

_TOGETHER = 2**21
"""Numbers in the draws that are worked on together: more are slower, being too many for a cache."""


class Evaluated(NamedTuple):
    """The log density and its gradient at the draws of one fit."""

    steps: Floats
    """Away from the anchor, shape ``(1, p)``."""
    half: Floats
    """The noise, shape ``(1, n, k)``: each draw comes with its negative."""
    log_p: Floats
    """Shape ``(1, 2n)``."""
    gradients: Floats
    """Shape ``(1, 2n, d)``."""


class Objective:
    """Minus the ELBO of several fits, as a function of steps away from the anchors of a chart.

    Parameters
    ----------
    density
        The log density of all fits.
    lanes
        Which of them these are.
    chart
        Of the members around where they are.
    half
        Noise, shape ``(l, n, k)``: each draw comes with its negative.
    hessian
        Of ``-log_p``, about where the fits are, shape ``(l, d, d)``, if it is known. Then the
        second moments of few draws, which are not exact, do no harm as far as the density is
        quadratic: what they add to the mean of its quadratic part is known and taken away.
    known
        For one fit: what is known of its anchor, from which the first evaluation is made up if it
        is of the first draws here, or of all.
    """

    def __init__(
        self,
        density: Density,
        lanes: Lanes,
        chart: Chart,
        half: Floats,
        hessian: Floats | None,
        known: Evaluated | None = None,
    ) -> None:
        self.density, self.lanes, self.chart = density, lanes, chart
        self.half = half
        self.latest: Evaluated | None = None
        """The last evaluation, of one fit whose draws were worked on together."""
        if known is not None and np.array_equal(known.half, half[:, : known.half.shape[1]]):
            self._known: Evaluated | None = known
        else:
            self._known = None
        self.excess: Floats | None = None
        """What `Chart.correction` takes; None where there is nothing to correct."""
        if hessian is not None and chart.is_corrected and hessian.any():
            moments = np.swapaxes(half, 1, 2) @ half / half.shape[1]
            self.excess = hessian * (np.eye(hessian.shape[-1]) - moments)

    @cached_property
    def noise(self) -> Floats:
        """Of all draws, shape ``(l, 2n, k)``."""
        return np.concatenate([self.half, -self.half], axis=1)

    def __call__(self, steps: Floats, which: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return values, shape ``(k,)``, and gradients, shape ``(k, p)``, of some of the fits."""
        value, gradient, _ = self._evaluated(steps, which)
        return value, gradient

    def with_curvature(self, steps: Floats, which: NDArray[np.intp]) -> tuple[Floats, Floats, Bowl]:
        """Return the same, and the curvature that the gradients at the draws tell.

        The noise has at least as many rows as entries, and exact second moments.
        """
        value, gradient, products = self._evaluated(steps, which, with_products=True)
        chart = self.chart if len(which) == len(self.lanes) else self.chart.take(which)
        # The second moments of the noise are those of independent entries.
        return value, gradient, chart.curvature(steps, products / self.half.shape[1])

    def _evaluated(
        self, steps: Floats, which: NDArray[np.intp], with_products: bool = False
    ) -> tuple[Floats, Floats, Any]:
        """Return values, gradients and, if asked for, products of noise and gradients.

        These are summed over the draws of half the noise; what is odd in the noise is enough.
        """
        products: Any = 0.0
        everyone = len(which) == len(self.lanes)
        chart = self.chart if everyone else self.chart.take(which)
        num_rows = self.half.shape[1]
        block = max(1, _TOGETHER // (2 * len(which) * self.half.shape[2]))
        if block >= num_rows:
            noise = self.noise if everyone else self.noise[which]
            value, gradient, products = self._on(chart, steps, which, noise, with_products)
        else:
            value, gradient = np.zeros(len(which)), np.zeros_like(steps)
            for start in range(0, num_rows, block):
                half = self.half[which, start : start + block]
                noise = np.concatenate([half, -half], axis=1)
                part = half.shape[1] / num_rows
                of_block = self._on(chart, steps, which, noise, with_products)
                value, gradient = value + part * of_block[0], gradient + part * of_block[1]
                products = products + of_block[2]
        if self.excess is not None:
            excess = self.excess if everyone else self.excess[which]
            added, slope = chart.correction(steps, excess)
            value, gradient = value + added, gradient + slope
        return value, gradient, products

    def _on(
        self,
        chart: Chart,
        steps: Floats,
        which: NDArray[np.intp],
        noise: Floats,
        with_products: bool,
    ) -> tuple[Floats, Floats, Any]:
        """Return the same on some of the draws, without the correction for their number."""
        products: Any = 0.0

        def evaluate(draws: Floats) -> tuple[Floats, Floats]:
            log_p, gradients = self._evaluate(steps, which, draws)
            if len(self.lanes) == 1 and draws.shape[1] == 2 * self.half.shape[1]:
                self.latest = Evaluated(steps, self.half, log_p, gradients)
            if with_products:
                nonlocal products
                count = noise.shape[1] // 2
                odd = gradients[:, count:] - gradients[:, :count]
                products = 0.5 * (np.swapaxes(noise[:, :count], 1, 2) @ odd)
            return log_p, gradients

        return *chart.objective(steps, noise, evaluate), products

    def _evaluate(
        self, steps: Floats, which: NDArray[np.intp], draws: Floats
    ) -> tuple[Floats, Floats]:
        """Return log densities and gradients, at the anchor only of draws that are not known."""
        known, self._known = self._known, None
        num_rows = self.half.shape[1]
        if known is None or draws.shape[1] != 2 * num_rows or steps.any():
            return self.density(self.lanes[which], draws)
        count = known.half.shape[1]
        if count == num_rows:
            return known.log_p, known.gradients
        fresh = np.concatenate([draws[:, count:num_rows], draws[:, num_rows + count :]], axis=1)
        added = self.density(self.lanes, fresh)
        return _interleaved(known.log_p, added[0]), _interleaved(known.gradients, added[1])


def _interleaved(first: Floats, second: Floats) -> Floats:
    """Return what belongs to the draws of some noise and more, their negatives after all."""
    parts = [np.split(part, 2, axis=1) for part in (first, second)]
    return np.concatenate([each[side] for side in range(2) for each in parts], axis=1)
