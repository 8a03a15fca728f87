"""Quasi-Newton minimisation of many functions at a time, each evaluated once per iteration.

A trial point that does not descend enough shortens the step, and that is an iteration of its own;
there is no line search inside. So no problem waits for the line search of another, and problems
that have ended are taken out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Dense", "Floats", "Limited", "Mask", "Memory", "Minimum", "minimise", "no_memory"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Function = Callable[[Floats, NDArray[np.intp]], tuple[Floats, Floats] | tuple[Floats, Floats, Any]]

ARMIJO = 1e-4
_MAX_DENSE = 256
"""Up to this size the whole inverse Hessian is kept (BFGS), above it some pairs (L-BFGS)."""
_PAIRS = 16
SHORTEST = 1e-9
"""A step cut to this fraction has failed: rounding hides any descent that is left."""
ROUNDING = 1e-13
"""Fraction of a value that rounding may add to it."""


class Memory:
    """What is known about the inverse Hessians, one for each problem."""

    num_pairs: NDArray[np.int64]
    """Pairs that each problem has learnt from."""

    def learn(self, step: Floats, change: Floats) -> None:
        """Take in steps and changes of the gradient, of shape ``(l, p)``; zeros teach nothing."""
        raise NotImplementedError

    def look(self, told: Any, seen: Mask) -> None:
        """Take in what functions tell of their curvature, of the problems where it is seen."""
        raise NotImplementedError

    def compare(self, gain: Floats, foretold: Floats, failed: Mask, whole: Mask) -> None:
        """Take in what steps have gained, which failed, and which were neither cut nor shorter."""

    def size(self, gradient: Floats, enough: Floats | None = None) -> Floats:
        """Return how large gradients are, shape ``(l,)``: zero at an optimum.

        Those of at least ``enough`` may be larger.
        """
        return np.asarray(np.abs(gradient).max(axis=1))

    def excess(self, direction: Floats, longest: Floats, reach: Floats) -> Floats:
        """Return how many times too long directions are, at so many times the longest step."""
        return np.asarray(np.abs(direction / longest).max(axis=1) / reach)

    def direction(self, gradient: Floats) -> Floats:
        """Return minus the inverse Hessians times gradients."""
        raise NotImplementedError

    def forget(self, some: Mask) -> None:
        """Begin anew with some problems."""
        raise NotImplementedError

    def take(self, some: Any) -> Self:
        """Return the memory of some problems."""
        raise NotImplementedError

    def put(self, some: Any, other: Self) -> None:
        """Replace the memory of some problems."""
        raise NotImplementedError


@dataclass
class Dense(Memory):
    """Inverse Hessians as matrices."""

    inverse: Floats
    num_pairs: NDArray[np.int64]

    def learn(self, step: Floats, change: Floats) -> None:
        curvature, of_change = _inner(step, change), _inner(change, change)
        curved = _is_curved(curvature, _inner(step, step), of_change)
        if not curved.any():
            return
        rho = np.where(curved, 1.0 / curvature, 0.0)[:, None]
        image = _times(self.inverse, change)
        # The first pair sets the scale, as is usual (Nocedal and Wright, equation 6.20).
        new = curved & (self.num_pairs == 0)
        if new.any():
            scale = np.where(new, curvature / of_change, 1.0)[:, None]
            image *= scale
            self.inverse *= scale[..., None]
        scaled = rho * step
        along = (1.0 + rho * _inner(change, image)[:, None]) * scaled - rho * image
        self.inverse -= scaled[:, :, None] * image[:, None, :]
        self.inverse += along[:, :, None] * step[:, None, :]
        self.num_pairs += curved

    def direction(self, gradient: Floats) -> Floats:
        return -_times(self.inverse, gradient)

    def forget(self, some: Mask) -> None:
        self.inverse[some] = np.eye(self.inverse.shape[-1])
        self.num_pairs[some] = 0

    def take(self, some: Any) -> Dense:
        return Dense(self.inverse[some], self.num_pairs[some])

    def put(self, some: Any, other: Dense) -> None:
        self.inverse[some], self.num_pairs[some] = other.inverse, other.num_pairs


@dataclass
class Limited(Memory):
    """The last accepted steps, newest last, and the changes of the gradient along them."""

    steps: Floats
    changes: Floats
    num_pairs: NDArray[np.int64]

    def learn(self, step: Floats, change: Floats) -> None:
        curved = _is_curved(_inner(step, change), _inner(step, step), _inner(change, change))
        if not curved.any():
            return
        some: Any = slice(None) if curved.all() else curved
        for kept, new in ((self.steps, step), (self.changes, change)):
            kept[some, :-1] = kept[some, 1:]
            kept[some, -1] = new[some]
        self.num_pairs += curved

    def direction(self, gradient: Floats) -> Floats:
        """Return minus the inverse Hessians times gradients (Nocedal's two loops)."""
        most = self.steps.shape[1]
        first = most - min(most, int(self.num_pairs.max(initial=0)))
        pairs = []
        direction = gradient.copy()
        for i in range(most - 1, first - 1, -1):
            step, change = self.steps[:, i], self.changes[:, i]
            curvature = _inner(step, change)
            rho = np.divide(1.0, curvature, out=np.zeros_like(curvature), where=curvature > 0.0)
            alpha = rho * _inner(step, direction)
            direction -= alpha[:, None] * change
            pairs.append((step, change, rho, alpha))
        direction = self._from_nothing(direction, gradient)
        for step, change, rho, alpha in reversed(pairs):
            direction += step * (alpha - rho * _inner(change, direction))[:, None]
        return -direction

    def _from_nothing(self, vectors: Floats, gradient: Floats) -> Floats:
        """Return vectors times the inverse Hessians as they are taken to be before any step."""
        newest = _inner(self.changes[:, -1], self.changes[:, -1])
        curvature = _inner(self.steps[:, -1], self.changes[:, -1])
        scale = np.divide(curvature, newest, out=np.ones_like(newest), where=newest > 0.0)
        return vectors * scale[:, None]

    def forget(self, some: Mask) -> None:
        self.steps[some] = 0.0
        self.changes[some] = 0.0
        self.num_pairs[some] = 0

    def take(self, some: Any) -> Limited:
        return Limited(self.steps[some], self.changes[some], self.num_pairs[some])

    def put(self, some: Any, other: Self) -> None:
        self.steps[some], self.changes[some] = other.steps, other.changes
        self.num_pairs[some] = other.num_pairs


class Minimum(NamedTuple):
    """Where `minimise` ended, the first axis over the problems."""

    x: Floats
    value: Floats
    gradient: Floats
    num_evaluations: NDArray[np.int64]
    stalled: Mask
    """No descent could be found although the gradient is above the tolerance."""
    memory: Memory
    """What was learnt about the Hessians, for a later call on nearly the same functions."""


@dataclass
class _State:
    """The problems that have not ended."""

    x: Floats
    value: Floats
    gradient: Floats
    direction: Floats
    slope: Floats
    """Of the function along the direction."""
    fraction: Floats
    reach: Floats
    """How many times the longest step a step may be."""
    cut: Mask
    """Whether the direction was cut to that."""
    num_evaluations: NDArray[np.int64]
    stalled: Mask

    def take(self, some: Any) -> _State:
        return _State(**{name: array[some] for name, array in vars(self).items()})

    def put(self, some: Any, other: _State) -> None:
        for name, array in vars(other).items():
            whole = np.array(getattr(self, name))  # which may be what the function returned
            whole[some] = array
            setattr(self, name, whole)


def minimise(
    function: Function,
    x: Floats,
    *,
    tolerance: Any,
    max_evaluations: int,
    longest: Floats,
    memory: Memory | None = None,
) -> Minimum:
    """Minimise functions until no entry of their gradients exceeds a tolerance.

    Parameters
    ----------
    function
        Returns values, shape ``(k,)``, and gradients, shape ``(k, p)``, from points of shape
        ``(k, p)`` and the numbers of the ``k`` problems they belong to. Points where either is not
        finite are stepped back from. A third value is what the memory looks at.
    x
        Starts, shape ``(l, p)``; where the value is not finite, that is where a problem ends.
    tolerance
        A problem ends when every entry of its gradient is smaller than this, or its size as the
        memory has it: one number, or one for each problem.
    max_evaluations
        It also ends after this many evaluations.
    longest
        Largest change of each entry of ``x`` in one step, shape ``(p,)``; twice as much after each
        step of that length that descends, so that what is far away is reached too.
    memory
        What an earlier call has learnt, which is changed; nothing by default.
    """
    count = len(x)
    tolerance = np.broadcast_to(tolerance, count)
    memory = no_memory(*x.shape) if memory is None else memory
    # The start is evaluated as the first trial.
    ended = _State(
        x=x.copy(),
        value=np.full(count, np.inf),
        gradient=np.full_like(x, np.inf),
        direction=np.zeros_like(x),
        slope=np.zeros(count),
        fraction=np.ones(count),
        reach=np.ones(count),
        cut=np.zeros(count, bool),
        num_evaluations=np.zeros(count, np.int64),
        stalled=np.zeros(count, bool),
    )
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        _until_ended(function, ended, memory, tolerance, max_evaluations, longest)
    return Minimum(
        ended.x, ended.value, ended.gradient, ended.num_evaluations, ended.stalled, memory
    )


def _until_ended(
    function: Function,
    ended: _State,
    memory: Memory,
    tolerance: Floats,
    max_evaluations: int,
    longest: Floats,
) -> None:
    which = np.arange(len(ended.x))
    now, known = ended, memory
    while True:
        going = (
            ~(known.size(now.gradient, tolerance[which]) < tolerance[which])
            & (now.num_evaluations < max_evaluations)
            & ~now.stalled
        )
        if not going.all():
            if now is not ended:
                ended.put(which, now)
                memory.put(which, known)
            which = which[going]
            if not len(which):
                break
            now, known = ended.take(which), memory.take(which)
        _advance(function, now, known, which, longest)


def _advance(
    function: Function,
    state: _State,
    memory: Memory,
    which: NDArray[np.intp],
    longest: Floats,
) -> None:
    """Evaluate each problem once, and decide where to look next."""
    first = state.num_evaluations == 0
    trial = state.x + state.fraction[:, None] * state.direction
    value, gradient, *told = function(trial, which)
    slope = state.slope
    allowed = state.value + ARMIJO * state.fraction * slope + ROUNDING * np.abs(state.value)
    finite = np.isfinite(value) & np.isfinite(gradient).all(axis=1)
    accepted = finite & (value <= allowed)
    all_accepted = accepted.all()
    learning = accepted & ~first
    if learning.all():
        memory.learn(trial - state.x, gradient - state.gradient)
    elif learning.any():
        mask = learning[:, None]
        memory.learn(
            np.where(mask, trial - state.x, 0.0), np.where(mask, gradient - state.gradient, 0.0)
        )
    if told:
        memory.look(told[0], accepted)
        foretold = state.fraction * (0.5 * state.fraction - 1.0) * slope
        whole = accepted & ~first & ~state.cut & (state.fraction == 1.0)
        memory.compare(state.value - value, foretold, ~accepted & ~first, whole)
    state.num_evaluations += 1
    if state.cut.any():
        state.reach = np.where(state.cut & (state.fraction == 1.0), 2.0, 1.0) * state.reach
    if all_accepted:
        state.x, state.value, state.gradient = trial, value, gradient
        state.direction, state.cut = _shortened(memory, gradient, longest, state.reach)
        state.slope = _inner(state.direction, gradient)
        state.fraction = np.ones(len(which))
        return
    shorter = _shorter_fraction(state, value, slope)
    state.reach = np.where(accepted, state.reach, 1.0)
    # When the memory misleads, forget it and go downhill once; when that fails too, it is over.
    forget = ~accepted & (shorter < SHORTEST)
    state.stalled |= (forget & (memory.num_pairs == 0)) | (first & ~finite)
    if forget.any():
        memory.forget(forget)
    # Not in place: what the function returned may be read-only, or its own.
    state.x = np.where(accepted[:, None], trial, state.x)
    state.value = np.where(accepted, value, state.value)
    state.gradient = np.where(accepted[:, None], gradient, state.gradient)
    anew = accepted | forget
    if anew.any():
        direction, cut = _shortened(memory, state.gradient, longest, state.reach)
        state.direction = np.where(anew[:, None], direction, state.direction)
        state.cut = np.where(anew, cut, state.cut)
        state.slope = _inner(state.direction, state.gradient)
    state.fraction = np.where(anew, 1.0, shorter)


def no_memory(num_problems: int, size: int, max_dense: int = _MAX_DENSE) -> Memory:
    """Return what is known about the Hessians before anything is learnt.

    Up to a size of ``max_dense`` it is kept in matrices.
    """
    count = np.zeros(num_problems, np.int64)
    if size <= max_dense:
        return Dense(np.tile(np.eye(size), (num_problems, 1, 1)), count)
    shape = (num_problems, _PAIRS, size)
    return Limited(np.zeros(shape), np.zeros(shape), count)


def _inner(one: Floats, other: Floats) -> Floats:
    return np.asarray(np.vecdot(one, other))


def _times(matrices: Floats, vectors: Floats) -> Floats:
    return np.asarray((matrices @ vectors[..., None])[..., 0])


def _is_curved(curvature: Floats, of_step: Floats, of_change: Floats) -> Mask:
    """Whether a pair with these inner products keeps the inverse Hessian positive definite."""
    return np.asarray(curvature > 1e-10 * np.sqrt(of_step * of_change))


def _shorter_fraction(state: _State, value: Floats, slope: Floats) -> Floats:
    """Return the minimum of the parabola through both values and the slope, within bounds."""
    rise = (value - state.value - state.fraction * slope) / state.fraction**2
    vertex = -0.5 * slope / rise
    vertex = np.where(np.isfinite(vertex), vertex, 0.0)
    return np.clip(vertex, 0.1 * state.fraction, 0.5 * state.fraction)


def _shortened(
    memory: Memory, gradient: Floats, longest: Floats, reach: Floats
) -> tuple[Floats, Mask]:
    """Return directions cut to so many times the longest step, and which were."""
    direction = memory.direction(gradient)
    farthest = memory.excess(direction, longest, reach)
    cut = np.asarray(farthest > 1.0)
    return direction / np.maximum(1.0, farthest)[:, None] if cut.any() else direction, cut
