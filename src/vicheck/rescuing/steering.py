"""Looks at a proposal: draws by which remedies steer, and which nothing is judged by later."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicheck.evaluation import log_p_at, log_p_through
from vicheck.model import Model, double_precision
from vicheck.results.psis import PsisResult
from vicheck.stats.psis import psis_quietly
from vicheck.stats.t_mixtures import TMixture

__all__ = ["Look", "Steering", "Straightened"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Look:
    """Draws of a proposal with both log densities."""

    z: Floats
    log_p: Floats
    log_q: Floats

    @cached_property
    def log_ratios(self) -> Floats:
        """Minus infinity where the density is not a number: such draws have no weight."""
        with np.errstate(invalid="ignore"):
            ratios = self.log_p - self.log_q
        return np.where(np.isnan(ratios), -np.inf, ratios)

    @cached_property
    def psis(self) -> PsisResult:
        """The same smoothed."""
        return psis_quietly(self.log_ratios)

    @property
    def khat(self) -> float:
        """Infinite where it is undefined."""
        khat = float(self.psis.khat)
        return np.inf if np.isnan(khat) else khat

    @property
    def efficiency(self) -> float:
        """Effective draws for each draw; by the raw ratios, so that it is never NaN."""
        if not np.isfinite(self.log_ratios).any():
            return 0.0
        return float(1.0 / (len(self.z) * np.square(_normalised(self.log_ratios)).sum()))

    def weights(self, least_effective: float) -> tuple[Floats, float]:
        """Return weights with sum 1 and so many effective draws, and the power that leaves them.

        Smoothed weights where these leave enough; elsewhere raw ratios to a power below 1, which
        is a step of the way from q to the posterior.
        """
        if self.khat < self.psis.threshold:
            weights = _normalised(self.psis.log_weights)
            if 1.0 / np.square(weights).sum() >= least_effective:
                return weights, 1.0
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = 0.5 * (low + high)
            enough = 1.0 / np.square(_normalised(middle * self.log_ratios)).sum()
            low, high = (middle, high) if enough >= least_effective else (low, middle)
        return _normalised(low * self.log_ratios), low


class Steering:
    """Log densities of one model at draws of proposals, without gradients."""

    def __init__(self, model: Model, seed: int) -> None:
        self.rng = np.random.default_rng((seed, 18))
        self.dim = model.dim
        self._now = model.snapshot()

    def look(self, proposal: TMixture, num_draws: int) -> Look:
        """Draw from a proposal."""
        z = proposal.draw(self.rng, num_draws)
        return Look(z, self.log_p(z), proposal.log_density(z))

    def log_p(self, z: Floats) -> Floats:
        """Return log densities at the rows of z; minus infinity where they are no numbers."""
        with double_precision():
            values = self._log_p(z)
        return np.where(np.isnan(values), -np.inf, values)

    def _log_p(self, z: Floats) -> Floats:
        return log_p_at(self._now.program, z, self._now.data)


class Straightened(Steering):
    """The same in the coordinates of the noise that a map turns into z."""

    def __init__(self, model: Model, q: Any, seed: int) -> None:
        super().__init__(model, seed)
        self._q = q

    def _log_p(self, z: Floats) -> Floats:
        return log_p_through(self._now.program, self._q, z, self._now.data)


def _normalised(log_weights: Floats) -> Floats:
    with np.errstate(under="ignore", invalid="ignore"):
        finite = np.where(np.isnan(log_weights), -np.inf, log_weights)  # 0 times infinity
        weights = np.exp(finite - finite.max())
    return np.asarray(weights / weights.sum())
