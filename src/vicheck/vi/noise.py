"""Fixed standard normal noise for the deterministic solver: antithetic, from scrambled Sobol."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["CHUNK", "BaseNoise"]

CHUNK = 32
"""Draws that are evaluated together: half of them noise, the other half its negative."""

_MAX_SOBOL_DIM = 1000
"""Above it, pseudo-random numbers: a few hundred points of Sobol cover no better, and cost more."""

_SMALLEST_BUFFER = 2**18
"""Numbers for which there is room at first; code is compiled again when more are needed."""


class BaseNoise:
    """Noise that grows: asking for more draws keeps the ones there are."""

    def __init__(self, dim: int, seed: int) -> None:
        self.dim = dim
        self._rng = np.random.default_rng(seed)
        self._half = np.empty((0, dim))
        self._sobol = None
        if dim <= _MAX_SOBOL_DIM:
            from scipy.stats.qmc import Sobol

            self._sobol = Sobol(dim, rng=self._rng)

    def chunks(self, num_draws: int) -> NDArray[np.float64]:
        """Return a buffer of shape ``(capacity, CHUNK, dim)`` whose first chunks hold the noise.

        Its first and second moments are those of the standard normal: exactly zero, and exactly
        one for each coordinate; with enough draws also exactly zero for each pair.
        """
        self._extend(num_draws // 2)
        half = self._half[: num_draws // 2]
        if 2 * self.dim <= len(half):
            factor = np.linalg.cholesky(half.T @ half / len(half))
            half = np.linalg.solve(factor, half.T).T
        else:
            half = half / np.sqrt(np.square(half).mean(axis=0))
        half = half.reshape(-1, CHUNK // 2, self.dim)
        buffer = np.zeros((self._capacity(len(half)), CHUNK, self.dim))
        buffer[: len(half), : CHUNK // 2] = half
        buffer[: len(half), CHUNK // 2 :] = -half
        return buffer

    def _capacity(self, num_chunks: int) -> int:
        capacity = max(1, _SMALLEST_BUFFER // (CHUNK * self.dim))
        while capacity < num_chunks:
            capacity *= 4
        return capacity

    def _extend(self, num_rows: int) -> None:
        more = num_rows - len(self._half)
        if more <= 0:
            return
        if self._sobol is None:
            fresh = self._rng.standard_normal((more, self.dim))
        else:
            from scipy.special import ndtri

            fresh = ndtri(np.clip(self._sobol.random(more), 1e-12, 1.0 - 1e-12))
        self._half = np.concatenate([self._half, fresh])
