"""Stan's ADVI: the algorithm of `stan::variational::advi`, with its step sizes and stopping rule.

For comparison with fits made by Stan, and to reproduce what was published with them (Kucukelbir et
al. 2017). The algorithm is that of the C++ source; random numbers are not, so that runs agree in
distribution only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from vicheck.errors import ArgumentError
from vicheck.model import Data, Model, Program
from vicheck.results.fit import Solution
from vicheck.results.status import FitStatus
from vicheck.runtime.compiling import compiled
from vicheck.runtime.interrupts import check_interrupt
from vicheck.vi.curvature import Curvature
from vicheck.vi.families.abilities import entropy_of
from vicheck.vi.families.family import Family
from vicheck.vi.families.registry import Kind, entry_of, family_names
from vicheck.vi.solvers.iterates import Thinned, max_rows, row_of
from vicheck.vi.solvers.reporting import Report
from vicheck.vi.solvers.stochastic import find_start, steps_at_once
from vicheck.vi.solvers.stopping import relative_changes

__all__ = ["ETAS", "StanAdvi"]

Floats = NDArray[np.float64]

ETAS = (100.0, 10.0, 1.0, 0.1, 0.01)
"""Step sizes that are tried, the largest first."""

_INIT_TRIES = 100
_TAU, _OLD, _NEW = 1.0, 0.9, 0.1
"""Steps are divided by tau plus the root of the mean squared gradient, a moving average with these
weights of old and new."""
_GRADIENT_DROPS = 10
"""How many draws may fail, for each one needed, before the gradient counts as failed."""


@dataclass(frozen=True)
class StanAdvi:
    """Options of the solver, with Stan's names and defaults.

    Parameters
    ----------
    iter
        Largest number of iterations.
    grad_samples, elbo_samples
        Draws for each gradient and for each ELBO.
    eval_elbo
        Number of iterations between estimates of the ELBO.
    tol_rel_obj
        The run ends when the mean or median of the relative changes of the ELBO is below this.
    eta
        Step size; ``None`` tries 100, 10, 1, 0.1 and 0.01 until the ELBO gets worse again.
    adapt_iter
        Number of iterations with each step size tried.
    """

    iter: int = 10_000
    grad_samples: int = 1
    elbo_samples: int = 100
    eval_elbo: int = 100
    tol_rel_obj: float = 0.01
    eta: float | None = None
    adapt_iter: int = 50

    def __post_init__(self) -> None:
        for name in ("iter", "grad_samples", "elbo_samples", "eval_elbo", "adapt_iter"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
        if not self.tol_rel_obj > 0.0:
            raise ValueError(f"tol_rel_obj must be positive, got {self.tol_rel_obj}")
        if self.eta is not None and not 0.0 < self.eta < np.inf:
            raise ValueError(f"eta must be positive or None, got {self.eta}")

    @property
    def window(self) -> int:
        """How many relative changes the stopping rule looks at."""
        return int(max(0.1 * self.iter / self.eval_elbo, 2.0))

    def solve(self, model: Model, kind: Kind, seed: int, report: Report) -> Solution:
        """Fit a family to a model."""
        if not kind.entry.in_stan:
            names = [name for name in family_names() if entry_of(name).in_stan]
            problem = f"must be {' or '.join(names)} for Stan, got {kind.name!r}"
            raise ArgumentError("family", problem)
        return _Run(self, model, kind, seed, report).solve()


class _State(NamedTuple):
    q: Family
    squares: Family
    """Moving average of the squared gradients."""
    iteration: jax.Array
    """Iterations so far."""
    num_evaluations: jax.Array
    failed: jax.Array
    """Whether a gradient could not be computed."""


class _Run:
    """One fit: the host's side of the solver."""

    def __init__(
        self, options: StanAdvi, model: Model, kind: Kind, seed: int, report: Report
    ) -> None:
        self.options, self.kind, self.report = options, kind, report
        self.program = model.program
        self.data = jax.tree.map(jnp.asarray, model.data)
        self.rng = np.random.default_rng((seed, 3))
        self.num_evaluations = 0
        self.elbo_trace: list[float] = []
        per_step = options.grad_samples * kind.noise_dim(model.dim)
        longest = max(options.eval_elbo, options.adapt_iter)
        self.capacity = steps_at_once(longest, per_step)
        self.iterates = Thinned(max_rows(model.dim))
        self.stride = -(-self.capacity // max_rows(model.dim))

    def solve(self) -> Solution:
        dim = self.program.dim
        starts = self.rng.uniform(-2.0, 2.0, (_INIT_TRIES, dim))
        z, self.num_evaluations = find_start(self.program, self.data, starts)
        unit = Curvature(np.ones(dim), np.ones(dim))
        start = jax.tree.map(jnp.asarray, self.kind.start(z, unit))
        eta, status = self.options.eta, None
        if eta is None:
            eta, status = self._adapt(start)
        self.state = _begin(start)
        if status is None:
            status = self._ascend(eta)
        mean, median = relative_changes(self.elbo_trace, self.options.window)
        return Solution(
            q=self.state.q,
            status=status,
            elbo=self.elbo_trace[-1] if self.elbo_trace else np.nan,
            num_evaluations=self.num_evaluations,
            num_draws=self.options.grad_samples,
            elbo_trace=np.array(self.elbo_trace),
            iterates=self.iterates.last_half(2 * dim),
            settings={
                "eta": eta,
                "iterations": int(self.state.iteration),
                "rel_mean": mean,
                "rel_median": median,
            },
        )

    def _adapt(self, start: Family) -> tuple[float, FitStatus | None]:
        """Choose the step size after which the ELBO got worse again, or say why there is none."""
        first = self._elbo(start)
        if np.isnan(first):
            return np.nan, FitStatus.NOT_FINITE
        best, best_eta = -np.inf, np.nan
        for eta in ETAS:
            state, _ = self._steps(_begin(start), eta, self.options.adapt_iter, tolerant=True)
            elbo = self._elbo(state.q)
            elbo = -np.inf if np.isnan(elbo) else elbo
            self.report(f"ELBO {elbo:.3f} after {self.options.adapt_iter} steps of size {eta:g}")
            if elbo < best and best > first:
                return best_eta, None
            best, best_eta = elbo, eta
        return (best_eta, None) if best > first else (np.nan, FitStatus.NO_STEP_SIZE)

    def _ascend(self, eta: float) -> FitStatus:
        """Ascend until the ELBO changes little, and return how the run ended."""
        options, left = self.options, self.options.iter
        try:
            while left:
                count = min(options.eval_elbo, left)
                self.state, rows = self._steps(self.state, eta, count, tolerant=False)
                self.iterates.append(rows)
                if self.state.failed:
                    return FitStatus.NOT_FINITE
                left -= count
                if count < options.eval_elbo:
                    break
                elbo = self._elbo(self.state.q)
                if np.isnan(elbo):
                    return FitStatus.NOT_FINITE
                self.elbo_trace.append(elbo)
                changes = relative_changes(self.elbo_trace, options.window)
                self.report(
                    f"ELBO {elbo:.3f}, iteration {options.iter - left} of {options.iter}, relative "
                    f"changes {changes[0]:.2g} (mean) and {changes[1]:.2g} (median)"
                )
                if min(changes) < options.tol_rel_obj:
                    return FitStatus.CONVERGED
        except KeyboardInterrupt:
            if not self.elbo_trace:
                raise
            return FitStatus.INTERRUPTED
        return FitStatus.MAX_ITERATIONS

    def _steps(
        self, state: _State, eta: float, count: int, tolerant: bool
    ) -> tuple[_State, Floats]:
        """Take steps, and return the iterates to keep too."""
        kept, left = [], count
        before = state.num_evaluations
        while left and not state.failed:
            check_interrupt()
            part = min(left, self.capacity)
            size = (self.capacity, self.options.grad_samples, self.kind.noise_dim(self.program.dim))
            # Generated here for many steps: inside the loop it would cost more than the model.
            noise = self.rng.standard_normal(size)
            first = int(state.iteration)
            settings = (self._seed(), eta, part, tolerant)
            state, rows = _ascend((self.program, self.stride), state, noise, *settings, self.data)
            kept.append(np.asarray(rows)[: -(-(int(state.iteration) - first) // self.stride)])
            left -= part
        self.num_evaluations += int(state.num_evaluations) - int(before)
        return state, np.concatenate(kept)

    def _elbo(self, q: Family) -> float:
        """Estimate the ELBO, or return NaN when too many draws fail."""
        noise = self.rng.standard_normal((self.options.elbo_samples, q.noise_dim))
        elbo, num_evaluations = _elbo(self.program, q, noise, self._seed(), self.data)
        self.num_evaluations += int(num_evaluations)
        return float(elbo)

    def _seed(self) -> int:
        return int(self.rng.integers(2**31))


@jax.jit
def _begin(q: Family) -> _State:
    zero = jnp.zeros((), int)
    return _State(q, jax.tree.map(jnp.zeros_like, q), zero, zero, jnp.array(False))


@compiled("log_density")
def _ascend(
    what: tuple[Program, int],
    state: _State,
    noise: Any,
    seed: Any,
    eta: Any,
    count: Any,
    tolerant: Any,
    data: Data,
) -> tuple[_State, jax.Array]:
    """Make ``count`` iterations; return every ``stride``-th iterate too.

    Where a gradient fails, a tolerant ascent stays where it is; otherwise it ends there.
    """
    program, stride = what
    key, first = jax.random.key(seed), state.iteration
    last: jax.Array = first + count

    def unfinished(carry: tuple[_State, jax.Array]) -> jax.Array:
        now = carry[0]
        return (now.iteration < last) & ~now.failed

    def advance(carry: tuple[_State, jax.Array]) -> tuple[_State, jax.Array]:
        now, rows = carry
        index = now.iteration - first
        own_key = jax.random.fold_in(key, index)
        gradient, drops = _gradient(program, now.q, noise[index], own_key, data)
        failed = drops >= _GRADIENT_DROPS * noise.shape[1]
        gradient = jax.tree.map(lambda leaf: jnp.where(failed, 0.0, leaf), gradient)
        # At the first iteration the squares are those of its own gradient.
        old = jnp.where(now.iteration == 0, 1.0, _OLD)
        new = jnp.where(now.iteration == 0, 1.0, _NEW)
        squares = jax.tree.map(lambda s, g: old * s + new * g**2, now.squares, gradient)
        rate = eta / jnp.sqrt(now.iteration + 1.0)
        q = jax.tree.map(
            lambda leaf, g, s: leaf + rate * g / (_TAU + jnp.sqrt(s)), now.q, gradient, squares
        )
        num_evaluations = now.num_evaluations + noise.shape[1] + drops
        after = _State(q, squares, now.iteration + 1, num_evaluations, failed & ~tolerant)
        ended = now._replace(num_evaluations=num_evaluations, failed=after.failed)
        after = jax.tree.map(partial(jnp.where, after.failed), ended, after)
        return after, rows.at[index // stride].set(row_of(after.q))

    rows = jnp.zeros((-(-len(noise) // stride), 2 * state.q.dim), noise.dtype)
    return lax.while_loop(unfinished, advance, (state, rows))


def _gradient(
    program: Program, q: Family, noise: jax.Array, key: jax.Array, data: Data
) -> tuple[Family, jax.Array]:
    """Return the gradient of the ELBO for noise of shape ``(n, d)``, and how many draws failed."""

    def slopes(noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        z = jax.vmap(q.transform)(noise)
        values, slopes = jax.vmap(jax.value_and_grad(program.log_density), (0, None))(z, data)
        # A model in Stan throws where ours has NaN or -inf, which need not reach the gradient.
        return slopes, jnp.isfinite(values) & jnp.isfinite(slopes).all(axis=1)

    slope, noise, drops = _redrawn(slopes, noise, key, _GRADIENT_DROPS * len(noise))
    _, pull_back = jax.vjp(lambda member: jax.vmap(member.transform)(noise), q)
    energy = q.projected(pull_back(slope / len(noise))[0])
    return jax.tree.map(jnp.add, energy, jax.grad(entropy_of)(q, noise)), drops


@compiled("log_density")
def _elbo(
    program: Program, q: Family, noise: Any, seed: Any, data: Data
) -> tuple[jax.Array, jax.Array]:
    """Return the ELBO, NaN when too many draws fail, and the number of evaluations."""

    def values(noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        value = jax.vmap(lambda e: program.log_density(q.transform(e), data))(noise)
        return value, jnp.isfinite(value)

    limit = len(noise)
    value, noise, drops = _redrawn(values, noise, jax.random.key(seed), limit)
    elbo = jnp.where(drops < limit, value.mean() + entropy_of(q, noise), jnp.nan)
    return elbo, limit + drops


class _Draws(NamedTuple):
    noise: jax.Array
    values: jax.Array
    accepted: jax.Array
    drops: jax.Array
    rounds: jax.Array


def _redrawn(
    evaluate: Any, noise: jax.Array, key: jax.Array, limit: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Evaluate draws, those that fail again with fresh noise, until ``limit`` have failed.

    Returns the values, the noise they belong to and how many draws have failed.
    """

    def unfinished(draws: _Draws) -> jax.Array:
        return ~draws.accepted.all() & (draws.drops < limit)

    def again(draws: _Draws) -> _Draws:
        # The first round is part of the loop, so that the model is compiled once.
        fresh = lax.cond(
            draws.rounds == 0,
            lambda: draws.noise,
            lambda: jax.random.normal(
                jax.random.fold_in(key, draws.rounds), noise.shape, noise.dtype
            ),
        )
        tried = jnp.where(draws.accepted[:, None], draws.noise, fresh)
        values, accepted = evaluate(tried)
        return _Draws(tried, values, accepted, draws.drops + (~accepted).sum(), draws.rounds + 1)

    shapes = jax.eval_shape(evaluate, noise)
    empty = jnp.zeros(shapes[0].shape, shapes[0].dtype)
    start = _Draws(noise, empty, jnp.zeros(len(noise), bool), jnp.array(0), jnp.array(0))
    end = lax.while_loop(unfinished, again, start)
    return end.values, end.noise, end.drops
