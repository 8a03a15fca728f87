"""The chart of normals with any covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vicheck.vi.charts.chart import Chart, Floats
from vicheck.vi.families.family import Family
from vicheck.vi.families.gaussian import LOG_2PI

__all__ = ["FullRankChart"]

_ROOT_2 = np.sqrt(2.0)


@dataclass
class FullRankChart(Chart):
    """Steps are shifts along the columns of the scale, then entries of a factor to its right.

    In the basis of its own scale every direction has standard deviation 1; a product of lower
    triangular matrices is lower triangular.
    """

    family: type[Family]
    loc: Floats
    scale: Floats

    def __post_init__(self) -> None:
        dim = self.loc.shape[-1]
        self._below = np.tril_indices(dim, -1)
        self._diagonal = np.arange(dim)
        self.num_shifts = int(dim)
        self.step_dim = dim + dim * (dim + 1) // 2

    def _parameters(self, steps: Floats) -> tuple[Floats, Floats, Floats]:
        """Return location and scale, and the diagonal of the factor between the scales."""
        dim = self.num_shifts
        loc = self.loc + (self.scale @ steps[:, :dim, None])[..., 0]
        growth = np.exp(steps[:, dim : 2 * dim] / _ROOT_2)
        factor = np.zeros((len(steps), dim, dim))
        factor[:, *self._below] = steps[:, 2 * dim :]
        factor[:, self._diagonal, self._diagonal] = growth
        return loc, self.scale @ factor, growth

    def draws(self, steps: Floats, noise: Floats) -> Floats:
        loc, scale, _ = self._parameters(steps)
        return np.asarray(loc[:, None] + noise @ np.swapaxes(scale, 1, 2))

    def pull_back(self, steps: Floats, noise: Floats, gradients: Floats) -> Floats:
        dim, count = self.num_shifts, noise.shape[1]
        pulled = gradients @ self.scale
        factor = np.swapaxes(pulled, 1, 2) @ noise / count
        growth = np.exp(steps[:, dim : 2 * dim] / _ROOT_2) / _ROOT_2
        return np.concatenate(
            [
                pulled.mean(axis=1),
                growth * factor[:, self._diagonal, self._diagonal],
                factor[:, *self._below],
            ],
            axis=1,
        )

    def pulled_moments(self, half: Floats, slopes: Floats) -> tuple[Floats, Floats]:
        # Products of matrices: there are too many entries to look at those of each pair.
        up, down = slopes @ self.scale[0]
        even, odd = 0.5 * (up + down), 0.5 * (up - down)
        return self._sums(even, odd, half, 1.0), self._sums(even**2, odd**2, half**2, 2.0)

    def _sums(self, even: Floats, odd: Floats, noise: Floats, power: float) -> Floats:
        factor = odd.T @ noise
        diagonal = factor[self._diagonal, self._diagonal] / _ROOT_2**power
        return np.concatenate([even.sum(axis=0), diagonal, factor[self._below]])

    def entropy(self, steps: Floats, noise: Floats) -> tuple[Floats, Floats]:
        dim = self.num_shifts
        growth = steps[:, dim : 2 * dim] / _ROOT_2
        diagonal = np.abs(self.scale[:, self._diagonal, self._diagonal])
        slope = np.zeros_like(steps)
        slope[:, dim : 2 * dim] = 1.0 / _ROOT_2
        with np.errstate(divide="ignore"):
            log_determinant = (np.log(diagonal) + growth).sum(axis=1)
        return 0.5 * dim * (1.0 + LOG_2PI) + log_determinant, slope

    def scores(self, noise: Floats, draws: Floats) -> Floats:
        transposed = np.swapaxes(self.scale, 1, 2)
        columns = np.linalg.solve(transposed, np.swapaxes(noise, 1, 2))
        return np.asarray(-np.swapaxes(columns, 1, 2))

    def anchors_and_directions(self) -> tuple[Family, Floats]:
        return self.family(self.loc, self.scale), np.zeros((len(self.loc), 0))

    def members(self, steps: Floats) -> Family:
        loc, scale, _ = self._parameters(steps)
        return self.family(loc, scale)

    def mean_and_sd(self, steps: Floats) -> tuple[Floats, Floats]:
        loc, scale, _ = self._parameters(steps)
        return loc, np.sqrt(np.square(scale).sum(axis=-1))

    def take(self, which: Any) -> FullRankChart:
        return FullRankChart(self.family, self.loc[which], self.scale[which])

    def repeated(self, count: int) -> FullRankChart:
        return self
