"""A normal given a few other coordinates, by which its widths and locations change.

A triangular map in two parts. The first few axes, the *drivers*, follow each other; all others have
a width and a location that depend on the drivers alone, so that given these they are independent
along their axes. Each axis is skewed and has a tail of its own by a sinh of an arcsinh (Jones and
Pewsey 2009). Both directions of the map are in closed form.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.vi.families.abilities import HasMoments
from vicheck.vi.families.family import Family
from vicheck.vi.families.students import Students

__all__ = ["Conditional", "Shape"]

Floats = NDArray[np.float64]

_FARTHEST = 4.0
"""Beyond so many sds of a driver widths and locations of others change no further."""
_MOMENT_DRAWS = 2**14


class Shape(NamedTuple):
    """What the map does to noise u, for k drivers among d axes; all zero it does nothing."""

    slopes: Any
    """Of log widths and shifts of the other axes by features of the drivers, ``(f, 2 (d-k))``."""
    offsets: Any
    """The same where all features are zero, ``(2 (d-k),)``."""
    own_slopes: Any
    """Of log width and shift of each driver by features of those before it, ``(k, f, 2)``."""
    skews: Any
    tails: Any
    """Logarithms: a tail above 0 is heavier than that of the noise."""

    @classmethod
    def nothing(cls, dim: int, drivers: int) -> Self:
        """Return the shape of the identity."""
        features, rest = drivers + drivers * (drivers + 1) // 2, 2 * (dim - drivers)
        sizes: list[tuple[int, ...]] = [
            (features, rest), (rest,), (drivers, features, 2), (dim,), (dim,)
        ]  # fmt: skip
        return cls(*map(np.zeros, sizes))

    @property
    def drivers(self) -> int:
        """How many drivers there are."""
        return int(self.own_slopes.shape[0])

    def bent(self, u: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return what u becomes, and the log of by how much volumes grow."""
        leaning, log_slopes = _leaned(u, self.skews, self.tails)
        first, rest = leaning[: self.drivers], leaning[self.drivers :]
        own = [self._own(each, u[: self.drivers]) for each in range(self.drivers)]
        widths, shifts = (jnp.stack(numbers) for numbers in zip(*own, strict=True))
        log_widths, moves = self._others(u[: self.drivers])
        bent = jnp.concatenate(
            [jnp.exp(widths) * first + shifts, jnp.exp(log_widths) * rest + moves]
        )
        return bent, widths.sum() + log_widths.sum() + log_slopes.sum()

    def straightened(self, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the u that becomes w, and the log of by how much volumes grow on the way to w."""
        drivers, grown = jnp.zeros(self.drivers), jnp.zeros(())
        for each in range(self.drivers):
            log_width, shift = self._own(each, drivers)
            u = _upright(
                (w[each] - shift) * jnp.exp(-log_width), self.skews[each], self.tails[each]
            )
            drivers, grown = drivers.at[each].set(u), grown + log_width
        log_widths, moves = self._others(drivers)
        leaning = (w[self.drivers :] - moves) * jnp.exp(-log_widths)
        rest = _upright(leaning, self.skews[self.drivers :], self.tails[self.drivers :])
        u = jnp.concatenate([drivers, rest])
        log_slopes = _leaned(u, self.skews, self.tails)[1]
        return u, grown + log_widths.sum() + log_slopes.sum()

    def _others(self, drivers: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return log widths and locations of the other axes."""
        both = _features(drivers) @ self.slopes + self.offsets
        log_widths, moves = jnp.split(both, 2)
        return log_widths, moves

    def _own(self, each: int, drivers: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return log width and location of a driver, by those before it."""
        rows, columns = np.tril_indices(self.drivers)
        latest = np.concatenate([np.arange(self.drivers), np.maximum(rows, columns)])
        log_width, shift = (_features(drivers) * (latest < each)) @ self.own_slopes[each]
        return log_width, shift


class Conditional(Family, HasMoments):
    """``z = loc + root @ shape.bent(u)``, where drivers and the rest of u are two independent t.

    Each of the two may be split along its axes. `vicheck.vi.conditioning` trains the shape.
    """

    loc: jax.Array
    root: jax.Array
    inverse: jax.Array
    """Of the root."""
    log_volume: jax.Array
    """Logarithm of the root's determinant, without its sign."""
    shape: Shape
    first: Students
    """Of the drivers."""
    rest: Students

    @classmethod
    def around(cls, loc: Floats, root: Floats, shape: Shape, first: Any, rest: Any) -> Self:
        """Return the member with these parts, its noise two mixtures of t as arrays."""
        noise = (Students.made_of(**vars(each)) for each in (first, rest))
        volume = np.linalg.slogdet(root)[1]
        arrays: tuple[Any, ...] = (loc, root, np.linalg.inv(root), volume, shape)
        return cls(*arrays, *noise)

    def over(self, first: Any, rest: Any) -> Self:
        """Return the same map of other noise."""
        noise = tuple(Students.made_of(**vars(each)) for each in (first, rest))
        return eqx.tree_at(lambda q: (q.first, q.rest), self, noise)

    @property
    def dim(self) -> int:
        return int(self.loc.shape[-1])

    @property
    def noise_dim(self) -> int:
        return self.first.noise_dim + self.rest.noise_dim

    def mapped(self, u: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the z that u becomes, and the log of by how much volumes grow on the way."""
        bent, log_det = self.shape.bent(u)
        return self.loc + self.root @ bent, log_det + self.log_volume

    def transform(self, noise: jax.Array) -> jax.Array:
        return self.transform_and_log_prob(noise)[0]

    def transform_and_log_prob(self, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        size = self.first.noise_dim
        first, log_first = self.first.transform_and_log_prob(noise[:size])
        rest, log_rest = self.rest.transform_and_log_prob(noise[size:])
        z, log_det = self.mapped(jnp.concatenate([first, rest]))
        return z, log_first + log_rest - log_det

    def log_prob(self, z: jax.Array) -> jax.Array:
        u, log_det = self.shape.straightened(self.inverse @ (z - self.loc))
        first, rest = u[: self.shape.drivers], u[self.shape.drivers :]
        log_noise = self.first.log_prob(first) + self.rest.log_prob(rest)
        return log_noise - log_det - self.log_volume

    def draw_noise(self, rng: np.random.Generator, num_draws: int) -> Floats:
        both = [each.draw_noise(rng, num_draws) for each in (self.first, self.rest)]
        return np.concatenate(both, axis=1)

    def sample_and_log_prob(self, key: jax.Array, num_draws: int) -> tuple[jax.Array, jax.Array]:
        keys = jax.random.split(key)
        first, log_first = self.first.sample_and_log_prob(keys[0], num_draws)
        rest, log_rest = self.rest.sample_and_log_prob(keys[1], num_draws)
        z, log_det = jax.vmap(self.mapped)(jnp.concatenate([first, rest], axis=1))
        return z, log_first + log_rest - log_det

    @property
    def mean(self) -> jax.Array:
        return self._some_draws().mean(axis=0)

    @property
    def sd(self) -> jax.Array:
        return self._some_draws().std(axis=0)

    def covariance(self) -> jax.Array:
        return jnp.cov(self._some_draws(), rowvar=False)

    def _some_draws(self) -> jax.Array:
        """Return draws that are always the same: there is no formula for the moments."""
        return self.sample_and_log_prob(jax.random.key(0), _MOMENT_DRAWS)[0]


def _features(drivers: jax.Array) -> jax.Array:
    """Return what widths and locations are linear in: drivers, their squares and products."""
    near = _FARTHEST * jnp.tanh(drivers / _FARTHEST)
    rows, columns = np.tril_indices(len(drivers))
    return jnp.concatenate([near, 0.5 * (near[rows] * near[columns] - (rows == columns))])


def _leaned(u: jax.Array, skew: jax.Array, tail: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the sinh of a shifted and stretched arcsinh, and the log of its derivative."""
    angle = jnp.exp(tail) * jnp.arcsinh(u) + skew
    return jnp.sinh(angle), jnp.log(jnp.cosh(angle)) + tail - 0.5 * jnp.log1p(u**2)


def _upright(leaning: jax.Array, skew: jax.Array, tail: jax.Array) -> jax.Array:
    """Return the u that `_leaned` turns into this."""
    return jnp.sinh((jnp.arcsinh(leaning) - skew) * jnp.exp(-tail))
