"""Normalising flows of flowjax, trained by the ELBO and drawn from like any other family.

A coupling flow of affine layers, in coordinates in which the posterior has mean zero and unit
covariance as far as is known. It begins as the identity, so that all there is to learn is what a
normal lacks; its noise may have heavier tails than a normal, and the flow passes them on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from numpy.typing import NDArray

from vicheck.model import Data, Model, Program, double_precision
from vicheck.runtime.compiling import compiled
from vicheck.runtime.interrupts import check_interrupt
from vicheck.runtime.tally import count
from vicheck.vi.families.abilities import HasMoments
from vicheck.vi.families.family import Family
from vicheck.vi.families.students import Students

__all__ = ["Flow", "trained_flow"]

Floats = NDArray[np.float64]

_LAYERS, _WIDTH = 4, 24
_STEPS, _DRAWS = 1000, 32
"""Of training. Twice as many draws in a step made khat no lower."""
_RATE = 5e-3
_FORGETTING = 0.99
_BLOCK = 100
"""Steps between which a run can be interrupted."""
_MOMENT_DRAWS = 2**14


@dataclass(frozen=True)
class _Plan:
    """All that a flow is but for its weights."""

    dim: int
    seed: int
    """Which coordinates each layer leaves as they are is chosen by it."""
    release: str
    """Of flowjax, because compiled code depends on it."""

    def __post_init__(self) -> None:
        # Made with the plan, and not when first used: that may be while JAX traces.
        object.__setattr__(self, "parts", _identity(self.dim, self.seed))

    def __reduce__(self) -> Any:
        return _Plan, (self.dim, self.seed, self.release)

    def first_weights(self) -> list[jax.Array]:
        """Return the weights with which the flow is the identity."""
        return list(vars(self)["parts"][0])

    def with_weights(self, weights: list[jax.Array]) -> Any:
        """Return flowjax's bijection."""
        _, structure, others = vars(self)["parts"]
        return eqx.combine(jax.tree.unflatten(structure, weights), others)


class Flow(Family, HasMoments):
    """``z = loc + root @ flow(u)``, where u is drawn from a mixture of Student's t."""

    loc: jax.Array
    root: jax.Array
    weights: list[jax.Array]
    base: Students
    plan: _Plan = field(metadata={"static": True})

    @property
    def dim(self) -> int:
        return int(self.loc.shape[-1])

    @property
    def noise_dim(self) -> int:
        return self.base.noise_dim

    def over(self, base: Students) -> Self:
        """Return the same flow of other noise."""
        return eqx.tree_at(lambda flow: flow.base, self, base)

    def mapped(self, u: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the z that u becomes, and the log of by how much volumes grow on the way."""
        bent, log_det = self.plan.with_weights(self.weights).transform_and_log_det(u)
        return self.loc + self.root @ bent, log_det + self._log_volume

    def transform(self, noise: jax.Array) -> jax.Array:
        return self.mapped(self.base.transform(noise))[0]

    def transform_and_log_prob(self, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self._with_log_prob(*self.base.transform_and_log_prob(noise))

    def log_prob(self, z: jax.Array) -> jax.Array:
        bent = jax.scipy.linalg.solve_triangular(self.root, z - self.loc, lower=True)
        u, log_det = self.plan.with_weights(self.weights).inverse_and_log_det(bent)
        return self.base.log_prob(u) + log_det - self._log_volume

    def draw_noise(self, rng: np.random.Generator, num_draws: int) -> Floats:
        return self.base.draw_noise(rng, num_draws)

    def sample_and_log_prob(self, key: jax.Array, num_draws: int) -> tuple[jax.Array, jax.Array]:
        drawn = self.base.sample_and_log_prob(key, num_draws)
        return jax.vmap(self._with_log_prob)(*drawn)

    def _with_log_prob(self, u: jax.Array, log_base: jax.Array) -> tuple[jax.Array, jax.Array]:
        z, log_det = self.mapped(u)
        return z, log_base - log_det

    @property
    def _log_volume(self) -> jax.Array:
        return jnp.log(jnp.abs(jnp.diagonal(self.root))).sum()

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


def trained_flow(model: Model, loc: Floats, root: Floats, base: Students, seed: int) -> Flow:
    """Return a flow that was trained by the ELBO, from normal noise, over a base for its draws.

    Parameters
    ----------
    model
        What to approximate.
    loc, root
        Mean, and lower Cholesky factor of the covariance, of the normal that it begins as.
    base
        What u is drawn from afterwards.
    seed
        The same seed gives the same bits.
    """
    plan = _Plan(len(loc), seed, version("flowjax"))
    with double_precision():
        now = model.snapshot()
        flow = Flow(jnp.asarray(loc), jnp.asarray(root), plan.first_weights(), base, plan)
        state = _State(flow.weights, _adam().init(flow.weights), jnp.array(0))
        rng = np.random.default_rng((seed, 8))
        for _ in range(0, _STEPS, _BLOCK):
            check_interrupt()
            noise = rng.standard_normal((_BLOCK, _DRAWS, plan.dim))
            count(gradients=_BLOCK * _DRAWS)
            state = _trained(now.program, flow, state, noise, now.data)
        return eqx.tree_at(lambda each: each.weights, flow, state.weights)


class _State(NamedTuple):
    weights: list[jax.Array]
    optimizer: Any
    step: jax.Array


def _adam() -> optax.GradientTransformation:
    """Return what descends; a step whose gradient is not finite changes nothing."""
    rate = optax.cosine_decay_schedule(_RATE, _STEPS)
    return optax.apply_if_finite(optax.adam(rate, b2=_FORGETTING), _STEPS)


@compiled("log_density")
def _trained(program: Program, flow: Flow, state: _State, noise: Any, data: Data) -> _State:
    """Take a step for each block of noise, shape ``(steps, draws, d)``.

    Gradients of log q are taken along the draws only: their noise vanishes where q is the posterior
    (Roeder, Wu and Duvenaud 2017).
    """

    def loss(weights: list[jax.Array], noise: jax.Array) -> jax.Array:
        still = lax.stop_gradient(weights)

        def of_draw(u: jax.Array) -> jax.Array:
            bent, _ = flow.plan.with_weights(weights).transform_and_log_det(u)
            back, log_det = flow.plan.with_weights(still).inverse_and_log_det(bent)
            log_q = log_det - 0.5 * back @ back
            return log_q - program.log_density(flow.loc + flow.root @ bent, data)

        return jax.vmap(of_draw)(noise).mean()

    def advance(now: _State, noise: jax.Array) -> tuple[_State, None]:
        gradient = jax.grad(loss)(now.weights, noise)
        updates, memory = _adam().update(gradient, now.optimizer, now.weights)
        return _State(optax.apply_updates(now.weights, updates), memory, now.step + 1), None

    return lax.scan(advance, state, noise)[0]


@lru_cache(maxsize=16)
def _identity(dim: int, seed: int) -> tuple[list[jax.Array], Any, Any]:
    """Return the weights with which a flow is the identity, their structure, and all the rest."""
    from flowjax.distributions import StandardNormal
    from flowjax.flows import coupling_flow

    with double_precision():
        flow = coupling_flow(
            jax.random.key(seed),
            base_dist=StandardNormal((dim,)),  # type: ignore[call-arg]
            flow_layers=_LAYERS,
            nn_width=_WIDTH,
            nn_activation=jnp.tanh,
            invert=False,
        )
        flow = eqx.tree_at(_last_layers, flow.bijection, replace_fn=jnp.zeros_like)
        known, others = eqx.partition(flow, eqx.is_inexact_array)
        leaves, structure = jax.tree.flatten(known)
    return leaves, structure, others


def _last_layers(flow: Any) -> tuple[Any, Any]:
    """Return what the scales and shifts of all layers are made of, which are none where it is 0."""
    last = flow.bijection.bijections[0].conditioner.layers[-1]
    return last.weight, last.bias
