"""The chart of any family, by JAX: for one that defines only what it must."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vicheck.vi.charts.chart import Chart, Floats
from vicheck.vi.families.abilities import entropy_of
from vicheck.vi.families.family import Family
from vicheck.vi.families.moments import mean_and_sd

__all__ = ["TracedChart"]


@dataclass
class TracedChart(Chart):
    """Steps are those of `Family.displaced`, along given directions or the family's own units."""

    anchors: Family
    units: Any = None

    def __post_init__(self) -> None:
        if self.units is None:
            self.units = np.asarray(_over_fits(_units, self.anchors))
        one = jax.tree.map(lambda leaf: leaf[0], self.anchors)
        self.step_dim, self.num_shifts = one.step_dim, one.num_shifts

    def _call(self, function: Any, *args: Any) -> Any:
        return _over_fits(function, self.anchors, self.units, *args)

    def draws(self, steps: Floats, noise: Floats) -> Floats:
        return np.asarray(self._call(_draws, steps, noise))

    def pull_back(self, steps: Floats, noise: Floats, gradients: Floats) -> Floats:
        return np.asarray(self._call(_pull_back, steps, noise, gradients))

    def entropy(self, steps: Floats, noise: Floats) -> tuple[Floats, Floats]:
        value, slope = self._call(_entropy, steps, noise)
        return np.asarray(value), np.asarray(slope)

    def scores(self, noise: Floats, draws: Floats) -> Floats:
        return np.asarray(_over_fits(_scores, self.anchors, draws))

    def anchors_and_directions(self) -> tuple[Family, Floats]:
        return self.anchors, self.units

    def members(self, steps: Floats) -> Family:
        moved: Family = jax.tree.map(np.asarray, self._call(_member, steps))
        return moved

    def mean_and_sd(self, steps: Floats) -> tuple[Floats, Floats]:
        mean, sd = self._call(_moments, steps)
        return np.asarray(mean), np.asarray(sd)

    def take(self, which: Any) -> TracedChart:
        anchors = jax.tree.map(lambda leaf: np.asarray(leaf)[which], self.anchors)
        return TracedChart(anchors, self.units[which])


def _over_fits(function: Any, *args: Any) -> Any:
    """Call compiled code, for a number of fits that is a power of two: few sizes are compiled."""
    count = len(jax.tree.leaves(args)[0])
    size = 1 << (count - 1).bit_length()
    rows = np.minimum(np.arange(size), count - 1)
    filled = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], args)
    return jax.tree.map(lambda leaf: leaf[:count], _compiled(function, *filled))


@partial(jax.jit, static_argnums=0)
def _compiled(function: Any, *args: Any) -> Any:
    return jax.vmap(function)(*args)


def _units(q: Family) -> jax.Array:
    return q.units()


def _member(q: Family, units: jax.Array, step: jax.Array) -> Family:
    return q.displaced(step, units)


def _moments(q: Family, units: jax.Array, step: jax.Array) -> tuple[jax.Array, jax.Array]:
    return mean_and_sd(q.displaced(step, units))


def _draws(q: Family, units: jax.Array, step: jax.Array, noise: jax.Array) -> jax.Array:
    return jax.vmap(q.displaced(step, units).transform)(noise)


def _pull_back(
    q: Family, units: jax.Array, step: jax.Array, noise: jax.Array, gradients: jax.Array
) -> jax.Array:
    _, back = jax.vjp(lambda step: _draws(q, units, step, noise), step)
    (pulled,) = back(gradients / len(noise))
    return jnp.asarray(pulled)


def _entropy(
    q: Family, units: jax.Array, step: jax.Array, noise: jax.Array
) -> tuple[jax.Array, jax.Array]:
    return jax.value_and_grad(lambda step: entropy_of(q.displaced(step, units), noise))(step)


def _scores(q: Family, draws: jax.Array) -> jax.Array:
    return jax.vmap(jax.grad(q.log_prob))(draws)
