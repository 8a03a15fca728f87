"""Deterministic solver: the ELBO on fixed draws, optimised until its gradient vanishes.

With the noise fixed, the ELBO is an ordinary smooth function: a quasi-Newton method finds its
optimum to any accuracy, and there is no step size to tune and no question when to stop (Giordano,
Ingram and Broderick 2024). What is left is the error of the draws themselves. It is measured by
doubling them: when q from 2n draws differs from q from n, half of them the same, by some amount,
then that is the size of the error it still has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.errors import ModelError
from vicheck.model import Data, Model, Program
from vicheck.records import FitStatus
from vicheck.vi.curvature import MAX_DENSE_DIM, Curvature, climb
from vicheck.vi.family import Family
from vicheck.vi.kinds import Kind
from vicheck.vi.lbfgs import minimise
from vicheck.vi.noise import CHUNK, BaseNoise
from vicheck.vi.objective import objective_of_step
from vicheck.vi.solution import Optimum, Report, Solution

__all__ = ["Deterministic"]

_EVALUATIONS = 100
"""Evaluations from one anchor; then curvature and units are taken afresh."""
_MAX_ANCHORS = 20
_NEWTON_STEPS = 40
_SCOUT_EVALUATIONS = 60
_NEAR = 0.5
"""After a step below this many sds the units of the gradient are still right."""
_LONGEST_SHIFT, _LONGEST_GROWTH = 100.0, 1.0
"""Largest change of a mean, in sds, and of a log sd in one step."""
_INFINITY = 1e8
"""A mean or sd beyond this many times its scale at the start has run away."""


@dataclass(frozen=True)
class Deterministic:
    """Options of the solver.

    Parameters
    ----------
    tolerance
        The fit has converged when no entry of its gradient, in sd units, exceeds this.
    sampling_tolerance
        Draws are doubled until the error they cause, in sds, is below this.
    num_draws, max_draws
        Draws to begin with, and at most; multiples of 32.
    num_starts
        Starts altogether; the others look for better optima and for other modes.
    """

    tolerance: float = 1e-3
    sampling_tolerance: float = 0.05
    num_draws: int = CHUNK
    max_draws: int = 16384
    num_starts: int = 4

    def __post_init__(self) -> None:
        for name in ("tolerance", "sampling_tolerance"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("num_draws", "max_draws"):
            value = getattr(self, name)
            if value < CHUNK or value & (value - 1):
                raise ValueError(f"{name} must be a power of 2 from {CHUNK} on, got {value}")
        if self.num_starts < 1:
            raise ValueError(f"num_starts must be at least 1, got {self.num_starts}")

    def solve(self, model: Model, kind: Kind, seed: int, report: Report) -> Solution:
        """Fit a family to a model."""
        return _Run(self, model, kind, seed, report).solve()


class _Settled(NamedTuple):
    """Where one or several calls of the optimiser have ended."""

    q: Family
    sd: NDArray[np.float64]
    elbo: float
    gradient_norm: float
    status: FitStatus


class _Run:
    """One fit: the host's side of the solver, which chooses what compiled code does next."""

    def __init__(
        self, options: Deterministic, model: Model, kind: Kind, seed: int, report: Report
    ) -> None:
        self.options, self.kind, self.report = options, kind, report
        self.program, self.coordinates = model.program, model.coordinates
        self.data = jax.tree.map(jnp.asarray, model.data)
        self.noise = BaseNoise(kind.noise_dim(model.dim), seed)
        self.rng = np.random.default_rng((seed, 1))
        self.num_evaluations = 0
        self.elbo_trace: list[float] = []

    def solve(self) -> Solution:
        num_draws = self.options.num_draws
        best, error, others = None, np.nan, ()
        try:
            best = self._first(num_draws)
            others = self._scout(best, num_draws)
            best, others = _ranked(best, others)
            best, num_draws, error = self._refine(best, num_draws)
            others = tuple(self._settle(other, num_draws) for other in others)
        except KeyboardInterrupt:
            if best is None:
                raise
            best = best._replace(status=FitStatus.INTERRUPTED)
        status = best.status
        if status is FitStatus.CONVERGED and not error <= self.options.sampling_tolerance:
            status = FitStatus.SAMPLING_ERROR
        return Solution(
            q=best.q,
            status=status,
            elbo=best.elbo,
            num_evaluations=self.num_evaluations,
            gradient_norm=best.gradient_norm,
            sampling_error=error,
            num_draws=num_draws,
            others=tuple(Optimum(other.q, other.elbo) for other in others),
            elbo_trace=np.array(self.elbo_trace),
        )

    def _first(self, num_draws: int) -> _Settled:
        """Settle from z = 0 or, when that does not work, from the mode or from random starts."""
        zero = np.zeros(self.program.dim)
        first = self._from_start(zero, num_draws, newton_steps=0)
        if first is not None and first.status is FitStatus.CONVERGED:
            return first
        attempts = [first, self._from_start(zero, num_draws, _NEWTON_STEPS)]
        for start in self._random_starts():
            if any(end is not None and end.status is FitStatus.CONVERGED for end in attempts):
                break
            attempts.append(self._from_start(start, num_draws, _NEWTON_STEPS))
        ends = [end for end in attempts if end is not None]
        if not ends:
            where = self.program.locate_trouble(jnp.asarray(zero), self.data)
            raise ModelError(
                f"the log density is not finite at any of {len(attempts)} starts; at z = 0 the "
                f"trouble is in {where}"
            )
        converged = [end for end in ends if end.status is FitStatus.CONVERGED]
        return max(converged or ends, key=lambda end: end.elbo)

    def _from_start(
        self, z: NDArray[np.float64], num_draws: int, newton_steps: int
    ) -> _Settled | None:
        """Settle from a start, or return None when the density is not finite around it."""
        z, curvature = self._climb(z, newton_steps)
        for shrink in (1.0, 1e-2, 1e-4):
            q = self.kind.start(z, curvature, shrink)
            end = self._settle_at(q, curvature.directions, num_draws)
            if end is not None:
                return end
        return None

    def _climb(self, z: Any, newton_steps: int) -> tuple[Any, Curvature]:
        z, curvature = _climb(self.program, z, self.data, newton_steps)
        self.num_evaluations += 1
        return np.asarray(z), Curvature(*map(np.asarray, curvature))

    def _settle(self, start: _Settled, num_draws: int) -> _Settled:
        """Go on from where an earlier optimisation has ended, with other draws."""
        end = self._settle_at(start.q, self._directions(start.q, start.sd), num_draws)
        return start._replace(status=FitStatus.NOT_FINITE) if end is None else end

    def _directions(self, q: Family, sd: NDArray[np.float64]) -> NDArray[np.float64]:
        """Directions in which the mean moves: along the posterior's curvature where q has none."""
        if not self.kind.needs_directions or self.program.dim > MAX_DENSE_DIM:
            return sd
        return self._climb(q.loc, 0)[1].directions

    def _settle_at(
        self, q: Family, directions: NDArray[np.float64], num_draws: int
    ) -> _Settled | None:
        """Optimise from a member of the family; None when its own objective is not finite."""
        noise = jnp.asarray(self.noise.chunks(num_draws))
        num_chunks = num_draws // CHUNK
        status = FitStatus.MAX_ITERATIONS
        first_scale = None
        for anchor in range(_MAX_ANCHORS):
            q, result = _settle(
                self.program, q, directions, noise, num_chunks, self.data,
                self.options.tolerance, _EVALUATIONS,
            )
            value, norm, farthest, stalled, evaluations, largest = map(float, result.numbers)
            sd = np.asarray(result.sd)
            self.num_evaluations += int(evaluations) * num_draws
            if not np.isfinite(value):
                return None
            self.elbo_trace.append(-value)
            self.report(f"ELBO {-value:.3f} on {num_draws} draws, gradient {norm:.2g} sd")
            first_scale = first_scale or 1.0 + largest
            if norm < self.options.tolerance and (farthest < _NEAR or evaluations == 1):
                status = FitStatus.CONVERGED
                break
            if largest > _INFINITY * first_scale:
                status = FitStatus.AT_INFINITY
                break
            if stalled and evaluations < 3:
                status = FitStatus.STALLED
                break
            directions = self._directions(q, sd)
        return _Settled(q, sd, -value, norm, status)

    def _scout(self, best: _Settled, num_draws: int) -> tuple[_Settled, ...]:
        """Send scouts from over-dispersed starts, and settle where one ends far from the fit."""
        if self.options.num_starts == 1 or best.status is not FitStatus.CONVERGED:
            return ()
        starts = self._random_starts()
        ends = np.asarray(
            _descend(self.program, starts, self._directions(best.q, best.sd), self.data)
        )
        self.num_evaluations += _SCOUT_EVALUATIONS * len(starts)
        found: list[_Settled] = []
        for end in ends:
            if not np.isfinite(end).all() or not _far(end, [best], 4.0):
                continue
            q = self.kind.moved_to(best.q, end)
            settled = self._settle_at(q, self._directions(q, best.sd), num_draws)
            if settled is None or settled.status is not FitStatus.CONVERGED:
                continue
            if _far(np.asarray(settled.q.loc), [best, *found], 1.0):
                found.append(settled)
        return tuple(found)

    def _random_starts(self) -> NDArray[np.float64]:
        size = (self.options.num_starts - 1, self.program.dim)
        return self.rng.uniform(-4.0, 4.0, size)

    def _refine(self, fit: _Settled, num_draws: int) -> tuple[_Settled, int, float]:
        """Double the draws until that changes means and log sds by less than the tolerance."""
        error = np.nan
        while num_draws < self.options.max_draws and fit.status is FitStatus.CONVERGED:
            num_draws *= 2
            refined = self._settle(fit, num_draws)
            error = _difference(fit, refined)
            fit = refined
            if error < self.options.sampling_tolerance:
                break
        return fit, num_draws, error


def _ranked(
    best: _Settled, others: tuple[_Settled, ...]
) -> tuple[_Settled, tuple[_Settled, ...]]:
    first, *rest = sorted((best, *others), key=lambda end: -end.elbo)
    return first, tuple(rest)


def _difference(one: _Settled, other: _Settled) -> float:
    shift = np.abs(np.asarray(one.q.loc) - np.asarray(other.q.loc)) / other.sd
    growth = np.abs(np.log(one.sd / other.sd))
    return float(max(shift.max(), growth.max()))


def _far(z: NDArray[np.float64], ends: list[_Settled], sds: float) -> bool:
    return all((np.abs(z - np.asarray(end.q.loc)) > sds * end.sd).any() for end in ends)


class _Result(NamedTuple):
    sd: jax.Array
    numbers: jax.Array
    """In one array, because each transfer to the host costs as much as a small fit's step."""


@partial(jax.jit, static_argnums=0)
def _climb(
    program: Program, z: jax.Array, data: Data, max_steps: Any
) -> tuple[jax.Array, Curvature]:
    return climb(program, z, data, max_steps)


@partial(jax.jit, static_argnums=0)
def _settle(
    program: Program,
    anchor: Family,
    directions: jax.Array,
    noise: jax.Array,
    num_chunks: Any,
    data: Data,
    tolerance: Any,
    max_evaluations: Any,
) -> tuple[Family, _Result]:
    objective = objective_of_step(program, anchor, directions, noise, num_chunks, data)
    dim, size = anchor.dim, anchor.step_dim
    end = minimise(
        objective,
        jnp.zeros(size, noise.dtype),
        tolerance=tolerance,
        max_evaluations=max_evaluations,
        longest=jnp.where(jnp.arange(size) < dim, _LONGEST_SHIFT, _LONGEST_GROWTH),
    )
    q = anchor.displaced(end.x, directions)
    sd = q.sd
    numbers = (
        end.value,
        jnp.max(jnp.abs(end.gradient)),
        jnp.max(jnp.abs(end.x)),
        end.stalled,
        end.num_evaluations,
        jnp.maximum(jnp.max(jnp.abs(q.loc)), jnp.max(sd)),
    )
    return q, _Result(sd, jnp.stack([jnp.asarray(number, noise.dtype) for number in numbers]))


@partial(jax.jit, static_argnums=0)
def _descend(
    program: Program, starts: jax.Array, directions: jax.Array, data: Data
) -> jax.Array:
    """Follow ``-log_p`` downhill from each start, in the units of the fit there is."""
    starts = jnp.asarray(starts)

    def from_start(z: jax.Array) -> jax.Array:
        def energy(step: jax.Array) -> jax.Array:
            move = directions * step if directions.ndim == 1 else directions @ step
            return -program.log_density(z + move, data)

        end = minimise(
            jax.value_and_grad(energy),
            jnp.zeros_like(z),
            tolerance=0.1,
            max_evaluations=_SCOUT_EVALUATIONS,
            longest=jnp.full_like(z, _LONGEST_SHIFT),
        )
        return z + (directions * end.x if directions.ndim == 1 else directions @ end.x)

    return jax.lax.map(from_start, starts)
