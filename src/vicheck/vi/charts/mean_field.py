"""The chart of independent normals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vicheck.vi.charts.chart import Chart, Floats
from vicheck.vi.curvature import along, turned
from vicheck.vi.families.family import Family
from vicheck.vi.families.gaussian import LOG_2PI
from vicheck.vi.families.mean_field import FARTHEST
from vicheck.vi.guided import Bowl, bowl

__all__ = ["MeanFieldChart"]

_ROOT_2 = np.sqrt(2.0)


@dataclass
class MeanFieldChart(Chart):
    """Steps are shifts along directions and, after them, changes of the log scales."""

    family: type[Family]
    loc: Floats
    log_scale: Floats
    directions: Floats
    is_corrected: ClassVar[bool] = True
    tells_curvature: ClassVar[bool] = True

    @property
    def step_dim(self) -> int:  # type: ignore[override]
        return 2 * self.loc.shape[-1]

    @property
    def num_shifts(self) -> int:  # type: ignore[override]
        return int(self.loc.shape[-1])

    def _parameters(self, steps: Floats) -> tuple[Floats, Floats]:
        dim = self.num_shifts
        shifts = along(self.directions, steps[:, :dim])
        return self.loc + shifts, self.log_scale + steps[:, dim:] / _ROOT_2

    def draws(self, steps: Floats, noise: Floats) -> Floats:
        loc, log_scale = self._parameters(steps)
        return np.asarray(loc[:, None] + np.exp(log_scale)[:, None] * noise)

    def pull_back(self, steps: Floats, noise: Floats, gradients: Floats) -> Floats:
        count = noise.shape[1]
        _, log_scale = self._parameters(steps)
        growth = np.einsum("lni,lni->li", gradients, noise) / count
        shift = along(turned(self.directions), gradients.mean(axis=1))
        return np.concatenate([shift, growth * np.exp(log_scale) / _ROOT_2], axis=1)

    def entropy(self, steps: Floats, noise: Floats) -> tuple[Floats, Floats]:
        dim = self.num_shifts
        _, log_scale = self._parameters(steps)
        slope = np.zeros_like(steps)
        slope[:, dim:] = 1.0 / _ROOT_2
        return 0.5 * dim * (1.0 + LOG_2PI) + log_scale.sum(axis=1), slope

    def objective(
        self,
        steps: Floats,
        noise: Floats,
        evaluate: Callable[[Floats], tuple[Floats, Floats]],
    ) -> tuple[Floats, Floats]:
        # Of small models NumPy's calls take longer than the density: each is made once.
        dim, count = noise.shape[2], noise.shape[1]
        loc, log_scale = self._parameters(steps)
        scale = np.exp(log_scale)
        draws = scale[:, None] * noise
        draws += loc[:, None]
        log_p, gradients = evaluate(draws)
        equal = np.full(count, -1.0 / count)
        gradient = np.empty_like(steps)
        gradient[:, :dim] = along(turned(self.directions), equal @ gradients)
        growth = np.einsum("lni,lni->li", gradients, noise)
        gradient[:, dim:] = (growth * scale / count + 1.0) / -_ROOT_2
        entropy = 0.5 * dim * (1.0 + LOG_2PI) + np.add.reduce(log_scale, axis=1)
        return log_p @ equal - entropy, gradient

    def scores(self, noise: Floats, draws: Floats) -> Floats:
        return np.asarray(-noise * np.exp(-self.log_scale)[:, None])

    def anchors_and_directions(self) -> tuple[Family, Floats]:
        return self.family(self.loc, self.log_scale), self.directions

    def members(self, steps: Floats) -> Family:
        return self.family(*self._parameters(steps))

    def mean_and_sd(self, steps: Floats) -> tuple[Floats, Floats]:
        loc, log_scale = self._parameters(steps)
        return loc, np.exp(log_scale)

    def take(self, which: Any) -> MeanFieldChart:
        anchors = (self.loc, self.log_scale, self.directions)
        return MeanFieldChart(self.family, *(part[which] for part in anchors))

    def repeated(self, count: int) -> MeanFieldChart:
        return self

    def correction(self, steps: Floats, excess: Floats) -> tuple[Floats, Floats]:
        # Of s'As with s the scales and A the excess. Far from the anchors the density need not be
        # so curved, and with nothing to stop what is added the best scales could be infinite.
        dim = self.num_shifts
        growth = np.clip(steps[:, dim:], -FARTHEST, FARTHEST)
        scale = np.exp(self.log_scale + growth / _ROOT_2)
        weighted = along(excess, scale) * scale
        slope = np.where(np.abs(growth) < FARTHEST, weighted / _ROOT_2, 0.0)
        return 0.5 * weighted.sum(axis=1), np.concatenate([np.zeros_like(slope), slope], axis=1)

    def curvature(self, steps: Floats, coefficients: Floats) -> Bowl:
        growth = np.exp(steps[:, self.num_shifts :] / _ROOT_2)
        scale = np.exp(self.log_scale) * growth
        return bowl(coefficients * scale[:, None, :], growth)
