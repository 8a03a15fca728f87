"""Training a `Conditional` by the ELBO: stochastic steps from a normal, with path derivatives."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jax import lax
from numpy.typing import NDArray

from vicheck.model import Data, Model, Program, double_precision
from vicheck.runtime.compiling import compiled
from vicheck.runtime.interrupts import check_interrupt
from vicheck.runtime.tally import count
from vicheck.vi.families.conditional import Shape

__all__ = ["trained_shape"]

Floats = NDArray[np.float64]

_STEPS, _DRAWS = 1000, 32
_RATE = 5e-3
_FORGETTING = 0.99
_BLOCK = 100
"""Steps between which a run can be interrupted."""


class _State(NamedTuple):
    shape: Shape
    memory: Any


def trained_shape(model: Model, loc: Floats, root: Floats, drivers: int, seed: int) -> Shape:
    """Return the shape with the highest ELBO, of standard normal noise, in given axes.

    It begins as the normal with mean ``loc`` and root ``root``, whose first axes are the drivers,
    and so learns only what that lacks. The same seed gives the same bits.
    """
    with double_precision():
        now = model.snapshot()
        shape = Shape.nothing(len(loc), drivers)
        state = _State(shape, _adam().init(shape))
        rng = np.random.default_rng((seed, 9))
        for _ in range(0, _STEPS, _BLOCK):
            check_interrupt()
            noise = rng.standard_normal((_BLOCK, _DRAWS, len(loc)))
            count(gradients=_BLOCK * _DRAWS)
            state = _trained(now.program, loc, root, state, noise, now.data)
        return Shape(*map(np.asarray, state.shape))


def _adam() -> optax.GradientTransformation:
    """Return what descends; a step whose gradient is not finite changes nothing."""
    rate = optax.cosine_decay_schedule(_RATE, _STEPS)
    return optax.apply_if_finite(optax.adam(rate, b2=_FORGETTING), _STEPS)


@compiled("log_density")
def _trained(
    program: Program, loc: Any, root: Any, state: _State, noise: Any, data: Data
) -> _State:
    """Take a step for each block of noise, shape ``(steps, draws, d)``.

    Gradients of log q are taken along the draws only: their noise vanishes where q is the posterior
    (Roeder, Wu and Duvenaud 2017).
    """

    def loss(shape: Shape, noise: jax.Array) -> jax.Array:
        still = lax.stop_gradient(shape)

        def of_draw(u: jax.Array) -> jax.Array:
            bent, _ = shape.bent(u)
            back, log_det = still.straightened(bent)
            log_q = -log_det - 0.5 * back @ back
            return log_q - program.log_density(loc + root @ bent, data)

        return jax.vmap(of_draw)(noise).mean()

    def advance(now: _State, noise: jax.Array) -> tuple[_State, None]:
        gradient = jax.grad(loss)(now.shape, noise)
        updates, memory = _adam().update(gradient, now.memory, now.shape)
        return _State(optax.apply_updates(now.shape, updates), memory), None

    return lax.scan(advance, state, noise)[0]
