"""A normal that is bent: skewed, with heavy tails, and with widths that depend on other axes.

A triangular map of standard normal noise, of which each part mends what a normal lacks: a funnel is
a width that grows with another coordinate, a banana a location that follows the square of one, and
each axis has a skewness and a tail of its own (Tukey's h, whose tails are those of a Pareto). It is
a small normalising flow, with numbers that can be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from vicheck.vi.families.family import Family
from vicheck.vi.families.full_rank import FullRank
from vicheck.vi.families.gaussian import LOG_2PI

if TYPE_CHECKING:
    from vicheck.vi.curvature import Curvature

__all__ = ["Bent"]

_FIRST_TAIL = -3.0
"""Where tails begin: their logarithm."""
_DRIVERS = 5
"""Axes, the first ones, on which widths and locations of others may depend."""
_HALVINGS = 60
"""Steps by which noise is found for a draw, each of which halves an interval."""
_FARTHEST = 40.0
"""Noise lies within this."""


class Bent(Family):
    """``z = loc + scale_tril @ w``, where ``w_i = exp(s_i) h_i(e_i) + c_i`` and e is noise.

    The log width ``s_i`` is linear in the entries of e before the i-th, and ``c_i`` in their
    squares; only the first few entries count, which in a hierarchical model are what others depend
    on. With all of them there would be more to learn than fixed draws can teach. ``h_i`` is
    ``(e + a (sqrt(1 + e^2) - 1)) exp(b e^2 / 2)`` with a skewness between -1 and 1 and a positive
    tail.
    """

    loc: jax.Array
    scale_tril: jax.Array
    widths: jax.Array
    """Slopes of log widths; what lies below the diagonal counts."""
    bends: jax.Array
    """Factors of squares, likewise."""
    skews: jax.Array
    """Inverse hyperbolic tangents of a."""
    tails: jax.Array
    """Logarithms of b."""

    @classmethod
    def start(cls, z: Any, curvature: Curvature, shrink: Any = 1.0) -> Self:
        normal = FullRank.start(z, curvature, shrink)
        flat = np.zeros_like(np.asarray(normal.scale_tril)[..., :_DRIVERS])
        even = np.zeros_like(np.asarray(z, np.float64))
        arrays: dict[str, Any] = {
            "widths": flat, "bends": flat, "skews": even, "tails": even + _FIRST_TAIL
        }  # fmt: skip
        return cls(normal.loc, normal.scale_tril, **arrays)

    @classmethod
    def is_dense(cls, dim: int) -> bool:
        return True

    @property
    def dim(self) -> int:
        return int(self.loc.shape[-1])

    @property
    def num_fixed_draws(self) -> int:
        return max(128, 8 * self.dim)

    def transform(self, noise: jax.Array) -> jax.Array:
        return self.transform_and_log_prob(noise)[0]

    def transform_and_log_prob(self, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        log_widths, shifts = self._by_others(noise)
        value, slope = _bent(noise, jnp.tanh(self.skews), jnp.exp(self.tails))
        z = self.loc + jnp.tril(self.scale_tril) @ (jnp.exp(log_widths) * value + shifts)
        return z, self._log_prob(noise, log_widths, slope)

    def log_prob(self, z: jax.Array) -> jax.Array:
        w = jax.scipy.linalg.solve_triangular(self.scale_tril, z - self.loc, lower=True)
        noise = self._noise_of(w)
        log_widths, _ = self._by_others(noise)
        slope = _bent(noise, jnp.tanh(self.skews), jnp.exp(self.tails))[1]
        return self._log_prob(noise, log_widths, slope)

    def _log_prob(self, noise: jax.Array, log_widths: jax.Array, slope: jax.Array) -> jax.Array:
        log_det = jnp.log(jnp.abs(jnp.diagonal(self.scale_tril))) + log_widths + jnp.log(slope)
        return -0.5 * (noise @ noise + self.dim * LOG_2PI) - log_det.sum()

    def _by_others(self, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return log width and shift of each axis, by the noise of those before it."""
        first = noise[: self.widths.shape[-1]]
        return jnp.tril(self.widths, -1) @ first, jnp.tril(self.bends, -1) @ (first**2 - 1.0)

    def _noise_of(self, w: jax.Array) -> jax.Array:
        """Return the noise that becomes w, one axis after the other."""
        skews, tails = jnp.tanh(self.skews), jnp.exp(self.tails)

        def solve(noise: jax.Array, axis: jax.Array) -> tuple[jax.Array, None]:
            log_widths, shifts = self._by_others(noise)
            aim = (w[axis] - shifts[axis]) * jnp.exp(-log_widths[axis])
            return noise.at[axis].set(_straightened(aim, skews[axis], tails[axis])), None

        return lax.scan(solve, jnp.zeros_like(w), jnp.arange(self.dim))[0]


def _bent(e: jax.Array, skew: jax.Array, tail: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return h and its derivative."""
    root = jnp.sqrt(1.0 + e**2)
    leaning, stretch = e + skew * (root - 1.0), jnp.exp(0.5 * tail * e**2)
    return leaning * stretch, stretch * (1.0 + skew * e / root + tail * e * leaning)


def _straightened(aim: jax.Array, skew: jax.Array, tail: jax.Array) -> jax.Array:
    """Return where h has a value: by bisection, and a step by which it can be differentiated."""

    def halve(_: Any, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        above = _bent(middle, *fixed)[0] > aim
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    fixed = lax.stop_gradient((skew, tail))
    ends = jnp.full_like(aim, -_FARTHEST), jnp.full_like(aim, _FARTHEST)
    found = lax.stop_gradient(lax.fori_loop(0, _HALVINGS, halve, ends)[0])
    value, slope = _bent(found, skew, tail)
    return found - (value - aim) / lax.stop_gradient(slope)
