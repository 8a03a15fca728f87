"""The chart of normals with correlations along a few directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vicheck.vi.charts.chart import Chart, Floats
from vicheck.vi.curvature import along, turned
from vicheck.vi.families.family import Family
from vicheck.vi.families.gaussian import LOG_2PI

__all__ = ["LowRankChart"]

_ROOT_2 = np.sqrt(2.0)


@dataclass
class LowRankChart(Chart):
    """Steps are shifts along directions, changes of the log diagonal, and of the factor."""

    family: type[Family]
    loc: Floats
    log_diagonal: Floats
    factor: Floats
    directions: Floats

    @property
    def step_dim(self) -> int:  # type: ignore[override]
        return int(self.num_shifts * (2 + self.factor.shape[-1]))

    @property
    def num_shifts(self) -> int:  # type: ignore[override]
        return int(self.loc.shape[-1])

    def _parameters(self, steps: Floats) -> tuple[Floats, Floats, Floats]:
        dim = self.num_shifts
        change = steps[:, 2 * dim :].reshape(len(steps), *self.factor.shape[1:])
        return (
            self.loc + along(self.directions, steps[:, :dim]),
            self.log_diagonal + steps[:, dim : 2 * dim] / _ROOT_2,
            self.factor + np.exp(self.log_diagonal)[..., None] * change,
        )

    def _to_step(self, log_diagonal: Floats, factor: Floats) -> Floats:
        """Return derivatives by the changes of diagonal and factor from those by both."""
        changes = (np.exp(self.log_diagonal)[..., None] * factor).reshape(len(factor), -1)
        return np.concatenate([log_diagonal / _ROOT_2, changes], axis=1)

    def draws(self, steps: Floats, noise: Floats) -> Floats:
        loc, log_diagonal, factor = self._parameters(steps)
        own, shared = np.split(noise, [self.num_shifts], axis=-1)
        spread = shared @ np.swapaxes(factor, 1, 2)
        return np.asarray(loc[:, None] + np.exp(log_diagonal)[:, None] * own + spread)

    def pull_back(self, steps: Floats, noise: Floats, gradients: Floats) -> Floats:
        count = noise.shape[1]
        own, shared = np.split(noise, [self.num_shifts], axis=-1)
        _, log_diagonal, _ = self._parameters(steps)
        growth = np.einsum("lni,lni->li", gradients, own) / count * np.exp(log_diagonal)
        factor = np.swapaxes(gradients, 1, 2) @ shared / count
        shift = along(turned(self.directions), gradients.mean(axis=1))
        return np.concatenate([shift, self._to_step(growth, factor)], axis=1)

    def _whitened(self, log_diagonal: Floats, factor: Floats) -> tuple[Floats, Floats]:
        whitened = factor * np.exp(-log_diagonal)[..., None]
        inner = np.eye(factor.shape[-1]) + np.swapaxes(whitened, 1, 2) @ whitened
        return whitened, inner

    def entropy(self, steps: Floats, noise: Floats) -> tuple[Floats, Floats]:
        dim = self.num_shifts
        _, log_diagonal, factor = self._parameters(steps)
        whitened, inner = self._whitened(log_diagonal, factor)
        _, log_determinant = np.linalg.slogdet(inner)
        product = whitened @ _inverse(inner)
        slope = np.concatenate(
            [
                np.zeros((len(steps), dim)),
                self._to_step(
                    1.0 - (product * whitened).sum(axis=-1),
                    product * np.exp(-log_diagonal)[..., None],
                ),
            ],
            axis=1,
        )
        value = 0.5 * dim * (1.0 + LOG_2PI) + log_diagonal.sum(axis=1) + 0.5 * log_determinant
        return value, slope

    def scores(self, noise: Floats, draws: Floats) -> Floats:
        # Woodbury: with V = D^-1 F the precision is D^-1 (I - V (I + V'V)^-1 V') D^-1.
        whitened, inner = self._whitened(self.log_diagonal, self.factor)
        scale = np.exp(-self.log_diagonal)[:, None]
        deviation = (draws - self.loc[:, None]) * scale
        along_factor = np.linalg.solve(inner, np.swapaxes(deviation @ whitened, 1, 2))
        explained = np.swapaxes(whitened @ along_factor, 1, 2)
        return np.asarray(-(deviation - explained) * scale)

    def anchors_and_directions(self) -> tuple[Family, Floats]:
        return self.family(self.loc, self.log_diagonal, self.factor), self.directions

    def members(self, steps: Floats) -> Family:
        return self.family(*self._parameters(steps))

    def mean_and_sd(self, steps: Floats) -> tuple[Floats, Floats]:
        loc, log_diagonal, factor = self._parameters(steps)
        return loc, np.sqrt(np.exp(2.0 * log_diagonal) + np.square(factor).sum(axis=-1))

    def take(self, which: Any) -> LowRankChart:
        anchors = (self.loc, self.log_diagonal, self.factor, self.directions)
        return LowRankChart(self.family, *(part[which] for part in anchors))

    def repeated(self, count: int) -> LowRankChart:
        return self


def _inverse(matrices: Floats) -> Floats:
    """Return inverses, NaN for those that have none: a step so wide is not taken."""
    try:
        return np.asarray(np.linalg.inv(matrices))
    except np.linalg.LinAlgError:
        if len(matrices) > 1:
            return np.concatenate([_inverse(each[None]) for each in matrices])
        return np.full_like(matrices, np.nan)
