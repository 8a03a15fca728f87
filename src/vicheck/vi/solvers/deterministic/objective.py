"""The objective of variational inference on fixed noise: minus the ELBO, and its gradient."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vicheck.vi.charts.chart import Chart
from vicheck.vi.density import Density, Lanes

__all__ = ["Objective"]

Floats = NDArray[np.float64]

_TOGETHER = 2**21
"""Numbers in the draws that are worked on together: more are slower, being too many for a cache."""


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
    """

    def __init__(
        self, density: Density, lanes: Lanes, chart: Chart, half: Floats, hessian: Floats | None
    ) -> None:
        self.density, self.lanes, self.chart = density, lanes, chart
        self.half = half
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
        everyone = len(which) == len(self.lanes)
        chart = self.chart if everyone else self.chart.take(which)
        num_rows = self.half.shape[1]
        block = max(1, _TOGETHER // (2 * len(which) * self.half.shape[2]))
        if block >= num_rows:
            noise = self.noise if everyone else self.noise[which]
            value, gradient = self._on(chart, steps, which, noise)
        else:
            value, gradient = np.zeros(len(which)), np.zeros_like(steps)
            for start in range(0, num_rows, block):
                half = self.half[which, start : start + block]
                noise = np.concatenate([half, -half], axis=1)
                part = half.shape[1] / num_rows
                of_block = self._on(chart, steps, which, noise)
                value, gradient = value + part * of_block[0], gradient + part * of_block[1]
        if self.excess is not None:
            excess = self.excess if everyone else self.excess[which]
            added, slope = chart.correction(steps, excess)
            value, gradient = value + added, gradient + slope
        return value, gradient

    def _on(
        self, chart: Chart, steps: Floats, which: NDArray[np.intp], noise: Floats
    ) -> tuple[Floats, Floats]:
        """Return the same on some of the draws, without the correction for their number."""
        log_p, gradients = self.density(self.lanes[which], chart.draws(steps, noise))
        entropy, slope = chart.entropy(steps, noise)
        value = -log_p.mean(axis=1) - entropy
        return value, -chart.pull_back(steps, noise, gradients) - slope
