"""Stochastic solver: gradient steps on fresh draws, averaged, and judged by their iterates.

For models whose data come in minibatches, and to compare with what other software does. Whether
the run has converged is judged as in Dhaka et al. (2020): the last half of the iterates is treated
like a Markov chain, with split R-hat and the Monte Carlo standard error of its average.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from vicheck.errors import ModelError
from vicheck.model import Data, Model, Program, is_finite
from vicheck.results.convergence import MAX_ITERATE_MCSE, MAX_RHAT
from vicheck.results.fit import Solution
from vicheck.results.status import FitStatus
from vicheck.runtime.compiling import compiled
from vicheck.runtime.interrupts import piece
from vicheck.vi.curvature import Curvature
from vicheck.vi.families.abilities import entropy_of
from vicheck.vi.families.family import Family
from vicheck.vi.families.registry import Kind
from vicheck.vi.solvers.iterates import (
    distance,
    iterate_diagnostics,
    max_rows,
    row_of,
)
from vicheck.vi.solvers.reporting import Report

if TYPE_CHECKING:
    import optax

__all__ = [
    "Stochastic",
    "find_start",
    "steps_at_once",
]

Floats = NDArray[np.float64]

GRADIENTS = ("reparametrised", "path")

_START_SCALE = 0.1
"""Scales at the start: a narrow q finds its place before it spreads."""
_FORGETTING = 0.99
"""Adam's b2. Squared gradients far from the optimum may be 1e12 times those near it, and take 30
times as many steps to be forgotten as 1 / (1 - b2): the usual 0.999 would outlast the run."""
_MAX_GRADIENT = 0.5
"""In sds. An average gradient above it means that q is still on its way, however slowly."""
_NUMBERS_AT_ONCE = 2**22
"""Random numbers that are passed to compiled code at a time: 32 MB."""


@dataclass(frozen=True)
class Stochastic:
    """Options of the solver.

    Parameters
    ----------
    optimizer
        An ``optax.GradientTransformation`` that descends; by default Adam with ``b2=0.99`` and a
        learning rate that falls to zero like a cosine. Code is compiled again for each new
        optimizer, so make it only once.
    learning_rate
        The initial learning rate of Adam; ignored if there is an ``optimizer``.
    num_steps
        Total number of steps.
    num_draws
        Draws in each step.
    gradient
        ``"reparametrised"`` uses the entropy of q, in closed form where there is one. ``"path"``
        differentiates log q only along the draws (Roeder, Wu and Duvenaud 2017), so that its noise
        vanishes where q = p.
    minibatches
        Whether each step sees only a random part of the data.
    averaging
        Whether q is the average of the parameters over the last half of the steps, or the last.
    eval_every
        Steps in a block: after each block the ELBO is recorded, and the run can be interrupted.
    """

    optimizer: optax.GradientTransformation | None = None
    learning_rate: float = 0.01
    num_steps: int = 10_000
    num_draws: int = 8
    gradient: str = "reparametrised"
    minibatches: bool = False
    averaging: bool = True
    eval_every: int = 100

    def __post_init__(self) -> None:
        if self.optimizer is not None:
            import optax

            if not isinstance(self.optimizer, optax.GradientTransformation):
                raise ValueError(
                    "optimizer must be an optax.GradientTransformation such as optax.adam(0.01), "
                    f"got {type(self.optimizer).__name__}"
                )
        if not 0.0 < self.learning_rate < np.inf:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate}")
        for name in ("num_steps", "num_draws", "eval_every"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
        if self.gradient not in GRADIENTS:
            names = " or ".join(map(repr, GRADIENTS))
            raise ValueError(f"gradient must be {names}, got {self.gradient!r}")
        for name in ("minibatches", "averaging"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")

    def solve(self, model: Model, kind: Kind, seed: int, report: Report) -> Solution:
        """Fit a family to a model."""
        if self.minibatches and not model.program.has_minibatches:
            raise ValueError(
                "minibatches must be False for a model without subsampling: to use a part of the "
                "data at a time, write a numpyro.plate with subsample_size"
            )
        return _Run(self, model, kind, seed, report).solve()

    def make_optimizer(self) -> optax.GradientTransformation:
        """Return the optimizer that was given, or Adam."""
        import optax

        if self.optimizer is not None:
            return self.optimizer
        rate = optax.cosine_decay_schedule(self.learning_rate, self.num_steps)
        return optax.adam(rate, b2=_FORGETTING)

    def stride(self, dim: int) -> int:
        """Return how many steps lie between two iterates that are kept."""
        return -(-(self.num_steps - self.num_steps // 2) // max_rows(dim))


def steps_at_once(num_steps: int, numbers_per_step: int) -> int:
    """Return for how many steps noise is generated at a time."""
    return max(1, min(num_steps, _NUMBERS_AT_ONCE // numbers_per_step))


_is_finite = compiled("log_density")(is_finite)


def find_start(program: Program, data: Data, starts: Floats) -> tuple[Floats, int]:
    """Return the first of the starts with finite density and gradient, and how many were tried.

    Raises
    ------
    ModelError
        When there is none; the message says in which part of the model the trouble is.
    """
    for count, start in enumerate(starts, start=1):
        if _is_finite(program, start, data):
            return start, count
    where = program.locate_trouble(jnp.asarray(starts[0]), data)
    at = "at z = 0" if not starts[0].any() else "at the first"
    raise ModelError(
        f"the log density is not finite at any of {len(starts)} starts; {at} the trouble is in "
        f"{where}"
    )


class _State(NamedTuple):
    q: Family
    average: Family
    """The mean over the last half of the steps; before them, q itself."""
    gradient: Family
    """The mean gradient over the last half of the steps; before them, that of the last step."""
    optimizer: Any
    step: jax.Array
    """Steps so far."""
    finite: jax.Array


_Carry = tuple[_State, jax.Array, jax.Array]
"""With the iterates that were kept, and the sum of the ELBOs."""


class _Run:
    """One fit: the host's side of the solver."""

    def __init__(
        self, options: Stochastic, model: Model, kind: Kind, seed: int, report: Report
    ) -> None:
        self.options, self.kind, self.report = options, kind, report
        self.program = model.program
        self.data = jax.tree.map(jnp.asarray, model.data)
        self.rng = np.random.default_rng((seed, 2))
        self.key = jax.random.key(seed)
        self.elbo_trace: list[float] = []
        self.rows: list[Floats] = []

    def solve(self) -> Solution:
        options, dim = self.options, self.program.dim
        starts = np.concatenate([np.zeros((1, dim)), self.rng.uniform(-2.0, 2.0, (20, dim))])
        z, num_evaluations = find_start(self.program, self.data, starts)
        unit = Curvature(np.ones(dim), np.ones(dim))
        q = self.kind.start(z, unit, _START_SCALE)
        self.state = _begin((self.program, options), q, self.data)
        status = FitStatus.MAX_ITERATIONS
        try:
            for first in range(0, options.num_steps, options.eval_every):
                if not self._block(min(options.eval_every, options.num_steps - first)):
                    status = FitStatus.NOT_FINITE
                    break
        except KeyboardInterrupt:
            if not self.elbo_trace:
                raise
            status = FitStatus.INTERRUPTED
        iterates = np.concatenate(self.rows) if self.rows else np.empty((0, 2 * dim))
        rhat, mcse = iterate_diagnostics(iterates)
        row, gradient_norm = map(np.asarray, _describe(self.state.average, self.state.gradient))
        # Averaged parameters need not have the averaged sd: low rank factors may cancel.
        error = max(mcse, distance(row, iterates))
        settled = rhat < MAX_RHAT and error < MAX_ITERATE_MCSE and gradient_norm < _MAX_GRADIENT
        if status is FitStatus.MAX_ITERATIONS and settled:
            status = FitStatus.CONVERGED
        return Solution(
            q=self.state.average,
            status=status,
            elbo=self.elbo_trace[-1] if self.elbo_trace else np.nan,
            num_evaluations=num_evaluations + int(self.state.step) * options.num_draws,
            gradient_norm=float(gradient_norm),
            sampling_error=error,
            num_draws=options.num_draws,
            elbo_trace=np.array(self.elbo_trace),
            iterates=iterates,
            settings={"rhat": rhat, "mcse": mcse},
        )

    @piece()
    def _block(self, num_steps: int) -> bool:
        """Take a block of steps, and say whether all went well."""
        noise_dim = self.kind.noise_dim(self.program.dim)
        size = (self.options.num_draws, noise_dim)
        capacity = steps_at_once(self.options.eval_every, size[0] * size[1])
        total, taken = 0.0, 0
        while taken < num_steps:
            count = min(capacity, num_steps - taken)
            before = int(self.state.step)
            # Generated here for many steps: inside the loop it would cost more than the model.
            noise = self.rng.standard_normal((capacity, *size))
            self.state, rows, part = _advance(
                (self.program, self.options), self.state, noise, self.key, count, self.data
            )
            total += float(part)
            taken += int(self.state.step) - before
            self._keep(rows, before, int(self.state.step))
            if not self.state.finite:
                break
        if taken:
            self.elbo_trace.append(total / taken)
            self.report(
                f"ELBO {self.elbo_trace[-1]:.3f}, step {int(self.state.step)} of "
                f"{self.options.num_steps}"
            )
        return bool(self.state.finite)

    def _keep(self, rows: jax.Array, before: int, after: int) -> None:
        stride, half = self.options.stride(self.program.dim), self.options.num_steps // 2
        count = -(-max(after - half, 0) // stride) - -(-max(before - half, 0) // stride)
        if count:
            self.rows.append(np.asarray(rows)[:count])


@compiled()
def _begin(what: tuple[Program, Stochastic], q: Family, data: Data) -> _State:
    options = what[1]
    memory = options.make_optimizer().init(q)
    zero = jax.tree.map(jnp.zeros_like, q)
    return _State(q, q, zero, memory, jnp.array(0), jnp.array(True))


@jax.jit
def _describe(q: Family, gradient: Family) -> tuple[jax.Array, jax.Array]:
    """Return means and log sds, and the largest entry of a gradient in units of sds."""
    units = q.units()
    still = jnp.zeros(q.step_dim, units.dtype)
    _, pull_back = jax.vjp(lambda step: q.displaced(step, units), still)
    return row_of(q), jnp.abs(pull_back(gradient)[0]).max()


@compiled("log_density", "log_density_of_minibatch")
def _advance(
    what: tuple[Program, Stochastic],
    state: _State,
    noise: Any,
    key: jax.Array,
    count: Any,
    data: Data,
) -> _Carry:
    """Take ``count`` steps; return the iterates to keep and the sum of the steps' ELBOs too."""
    program, options = what
    optimizer = options.make_optimizer()
    half, stride = options.num_steps // 2, options.stride(state.q.dim)
    average_from = half if options.averaging else options.num_steps
    first = state.step
    last: jax.Array = first + count
    first_row = -(-jnp.maximum(first - half, 0) // stride)
    num_rows = len(noise) // stride + 1

    def unfinished(carry: _Carry) -> jax.Array:
        now = carry[0]
        return (now.step < last) & now.finite

    def advance(carry: _Carry) -> _Carry:
        now, rows, total = carry
        own_key = jax.random.fold_in(key, now.step)
        loss, gradient = jax.value_and_grad(_loss, argnums=2)(
            program, options, now.q, noise[now.step - first], own_key, data
        )
        gradient = now.q.projected(gradient)
        updates, memory = optimizer.update(gradient, now.optimizer, now.q)
        q = eqx.apply_updates(now.q, updates)
        # The loss too: a density that is NaN may still have a slope, and lead anywhere.
        finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves((q, loss))]).all()
        average = _mean(now.average, q, now.step - average_from + 1)
        mean_gradient = _mean(now.gradient, gradient, now.step - half + 1)
        # An index past the end keeps nothing.
        past = now.step - half
        index = jnp.where((past >= 0) & (past % stride == 0), past // stride - first_row, num_rows)
        kept = rows.at[index].set(row_of(q), mode="drop")
        after = _State(q, average, mean_gradient, memory, now.step + 1, finite)
        # Where parameters or density are not finite, the last finite ones are kept.
        after, kept, total = jax.tree.map(
            partial(jnp.where, finite), (after, kept, total - loss), (now, rows, total)
        )
        return after._replace(finite=finite), kept, total

    rows = jnp.zeros((num_rows, 2 * state.q.dim), noise.dtype)
    return lax.while_loop(unfinished, advance, (state, rows, jnp.zeros((), noise.dtype)))


def _mean(old: Family, new: Family, count: jax.Array) -> Family:
    """Return a mean with one more value, the ``count``-th; before the first, the value itself."""
    weight = 1.0 / jnp.maximum(count, 1)
    mean: Family = jax.tree.map(lambda a, b: a + weight * (b - a), old, new)
    return mean


def _loss(
    program: Program, options: Stochastic, q: Family, noise: jax.Array, key: jax.Array, data: Data
) -> jax.Array:
    """Estimate minus the ELBO from one step's noise, shape ``(num_draws, k)``."""

    def energy(z: jax.Array) -> jax.Array:
        if options.minibatches:
            # One part of the data for all draws of a step: to choose it costs as much as a draw.
            return -program.log_density_of_minibatch(z, data, key)
        return -program.log_density(z, data)

    z = jax.vmap(q.transform)(noise)
    energies = jax.vmap(energy)(z)
    if options.gradient == "path":
        return (energies + jax.vmap(lax.stop_gradient(q).log_prob)(z)).mean()
    return energies.mean() - entropy_of(q, noise)
