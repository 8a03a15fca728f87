"""Reference draws from NumPyro's no-U-turn sampler, with their R-hat and effective sample size."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray
from numpyro.infer.hmc import hmc

from vicheck.errors import (
    ArgumentError,
    ModelError,
    NotConvergedWarning,
    OutOfTimeError,
    UnreliableWarning,
)
from vicheck.mixing import bulk_ess, mcse, rhat, tail_ess
from vicheck.model import Data, Model, Program, double_precision, is_finite
from vicheck.results.check import Check
from vicheck.results.fit import Fit
from vicheck.results.reference import Reference, blocks_of
from vicheck.runtime.compiling import compiled
from vicheck.runtime.interrupts import between_pieces, check_interrupt
from vicheck.runtime.progress import Progress, advance, showing
from vicheck.runtime.seeds import Seed, as_seed
from vicheck.runtime.workers import in_order, require_executor

__all__ = ["reference", "seconds_of_gradient"]

_RADIUS = 2.0
_MAX_STARTS = 100
"""Rounds of random starts before the sampler gives up, as in Stan."""
_FOR_VARIANCES = 200
"""Draws of an approximation from which its variances are taken."""
_APART = 2.0
"""Factor by which every other chain that begins around an approximation starts farther out."""
_TIMED = 32
"""Gradients that are timed."""
_PIECE = 50
"""Transitions between looks at the clock and at Ctrl-C."""
_MIN_DRAWS = 4
"""Half a chain needs two draws to have a variance."""
Floats = NDArray[np.float64]


@between_pieces()
def reference(
    model: Model,
    data: Mapping[str, Any] | None = None,
    *,
    num_draws: int = 1000,
    num_warmup: int = 1000,
    num_chains: int = 4,
    seed: Seed = 0,
    target_accept: float = 0.9,
    around: Check | Fit | None = None,
    executor: Executor | None = None,
    budget: float = math.inf,
    progress: Progress = True,
) -> Reference:
    """Sample the posterior with NUTS, in float64.

    Parameters
    ----------
    model
        The model. The data it already has can be replaced.
    data
        Data by name. New data of the same shapes does not compile again.
    num_draws, num_warmup
        Draws from each chain, and steps before them in which the sampler adapts.
    num_chains
        Chains, run one after the other, or by an executor. Each starts at a uniform draw from
        (-2, 2) in every coordinate of z where the density and its gradient are finite.
    seed
        An integer or a JAX key; the same seed gives the same draws.
    target_accept
        Acceptance rate to which the step size is adapted; larger means smaller steps.
    around
        An approximation of this model to start from, which shortens the warm-up: chains start at
        draws of q or, for a check, at distinct weighted draws, every other
        chain twice as far from their mean, so that R-hat can tell; the first metric is that of q.
    executor
        Anything with the interface of `concurrent.futures.Executor`, for one chain on each of its
        workers. The draws have the same bits wherever chains are run; the chain of a worker that
        dies is run again.
    budget
        Seconds after which to give up.
    progress
        Whether to show a progress line on standard error, after a second and only in a terminal or
        a notebook; or a function to be called with each sentence instead.

    Raises
    ------
    ModelError
        When data is missing or does not fit, or no start has a finite density.
    OutOfTimeError
        When the budget is used up before all chains have ended.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> model = vicheck.from_log_density(lambda x: -jnp.sum(x**2) / 2, jnp.zeros(2))
    >>> draws = vicheck.reference(model, num_draws=200, num_warmup=200)
    >>> draws.z.shape
    (4, 200, 2)
    >>> list(draws.moments.index)
    ['x[0]', 'x[1]']
    """
    if not isinstance(model, Model):
        raise TypeError(
            f"model must be a vicheck Model, got {type(model).__name__}: make one with "
            "vicheck.from_numpyro, from_pymc, from_stan or from_log_density"
        )
    for name, value, least in (
        ("num_draws", num_draws, _MIN_DRAWS),
        ("num_warmup", num_warmup, 1),
        ("num_chains", num_chains, 1),
    ):
        if not isinstance(value, int | np.integer):
            raise TypeError(f"{name} must be an integer, got {value!r}")
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    seed = as_seed(seed)
    if not budget > 0.0:
        raise ArgumentError("budget", f"must be a positive number of seconds, got {budget!r}")
    if not 0.0 < target_accept < 1.0:
        raise ValueError(f"target_accept must lie between 0 and 1, got {target_accept}")
    model = model.given(data).snapshot()
    model.require_data()
    require_executor(executor)
    starts = _find_starts(model, num_chains, np.random.default_rng(seed))
    variances = np.ones(model.dim)
    if around is not None:
        starts, variances = _taken_over(model, around, starts, seed)
    end = time.time() + budget
    chains = _Chains(model, starts, variances, num_draws, num_warmup, seed, target_accept, end)
    numbers = range(num_chains)
    each = map(chains.chunk, numbers) if executor is None else in_order(executor, chains, numbers)
    with showing(progress, f"sampling {num_chains} chains"):
        z, diverging, num_steps = map(np.stack, zip(*_counted(each, num_chains), strict=True))
    draws = model.constrain(z)
    names = model.indexing.labels({name: array.shape[2:] for name, array in draws.items()})
    blocks = blocks_of(draws)
    by_rhat, by_ess, by_mcse, by_tail_ess = (
        dict(zip(names, np.concatenate([of(block) for block in blocks]).tolist(), strict=True))
        for of in (rhat, bulk_ess, mcse, tail_ess)
    )
    num_divergent, num_gradients = int(diverging.sum()), int(num_steps.sum())
    return Reference(z, draws, by_rhat, by_ess, by_mcse, num_divergent, by_tail_ess, num_gradients)


def seconds_of_gradient(model: Model, z: Floats) -> float:
    """Return how long a gradient takes where points follow one after the other, as in a chain."""
    now = model.snapshot()
    rows = np.tile(z, (_TIMED, 1))
    with double_precision():
        np.asarray(_are_finite(now.program, rows, now.data))
        begun = time.perf_counter()
        np.asarray(_are_finite(now.program, rows, now.data))
        return (time.perf_counter() - begun) / _TIMED


def _counted(chains: Iterable[Any], total: int) -> Iterator[Any]:
    """Yield chains, and say how many are done."""
    for done, chain in enumerate(chains, start=1):
        advance(done, total)
        yield chain


def _draws_around(around: Check | Fit, most: int, seed: int) -> dict[str, Floats]:
    if isinstance(around, Fit):
        return around.sample(most, seed)
    if np.isnan(around.kept_log_weights).any() or not len(around.values):
        raise ArgumentError("around", "must have draws with weights, got a check without")
    positive = int(np.isfinite(around.kept_log_weights).sum())
    return around.resample(min(positive, _FOR_VARIANCES), replace=False, seed=seed)


def _taken_over(
    model: Model, around: Check | Fit, starts: Floats, seed: int
) -> tuple[Floats, Floats]:
    """Return starts and variances from an approximation; starts as they were where it has none."""
    if around.model is None or around.model.dim != model.dim:
        raise ArgumentError("around", "must be a fit or a check of the same model")
    with warnings.catch_warnings():  # it is NUTS that makes up for what is wrong with them
        warnings.simplefilter("ignore", UnreliableWarning)
        warnings.simplefilter("ignore", NotConvergedWarning)
        drawn = _draws_around(around, max(_FOR_VARIANCES, len(starts)), seed)
    layout = [name for name, _ in model.program.layout]
    absent = [name for name in layout if name not in drawn]
    if absent:
        raise ArgumentError(
            "around",
            f"must have draws of every parameter, but has none of {', '.join(absent)}: pass the "
            "fit, or a check of it without quantities=",
        )
    rows = range(len(drawn[layout[0]]))
    z = np.array([model.unconstrain({name: drawn[name][row] for name in layout}) for row in rows])
    with double_precision():
        finite = np.asarray(_are_finite(model.program, z, model.data))
    z = z[finite & np.isfinite(z).all(axis=1)]
    if len(z) < max(2, len(starts)):
        return starts, np.ones(model.dim)
    variances = np.maximum(z.var(axis=0), np.finfo(float).tiny)
    return _spread_out(model, z[: len(starts)], z.mean(axis=0)), variances


def _spread_out(model: Model, starts: Floats, middle: Floats) -> Floats:
    """Move every other start away from the middle where the density there is finite.

    Chains that all begin where an approximation has its draws would agree on what these have not
    reached.
    """
    farther = np.array(starts)
    farther[1::2] += (_APART - 1.0) * (farther[1::2] - middle)
    with double_precision():
        finite = np.asarray(_are_finite(model.program, farther, model.data))
    return np.where(finite[:, None], farther, starts)


def _find_starts(model: Model, num_chains: int, rng: np.random.Generator) -> Floats:
    """Draw starts until each chain has one where the density and its gradient are finite."""
    starts = np.empty((0, model.dim))
    for _ in range(_MAX_STARTS):
        check_interrupt()
        trials = rng.uniform(-_RADIUS, _RADIUS, (num_chains, model.dim))
        with double_precision():
            finite = np.asarray(_are_finite(model.program, trials, model.data))
        starts = np.concatenate([starts, trials[finite]])[:num_chains]
        if len(starts) == num_chains:
            return starts
    with double_precision():
        where = model.program.locate_trouble(jnp.asarray(trials[-1]), model.data)
    raise ModelError(
        f"the log density or its gradient is finite at only {len(starts)} of "
        f"{_MAX_STARTS * num_chains} random starts; at the last one the trouble is in {where}"
    )


@compiled("log_density")
def _are_finite(program: Program, z: Any, data: Data) -> jax.Array:
    finite: jax.Array = lax.map(lambda row: is_finite(program, row, data), z)
    return finite


@dataclass(frozen=True, eq=False)
class _Chains:
    """Chains, each a pure function of its number; it goes to workers as it is."""

    model: Model
    starts: Floats
    variances: Floats
    num_draws: int
    num_warmup: int
    seed: int
    target_accept: float
    end: float
    """When to give up, by the clock of the day."""

    def snapshot(self) -> _Chains:
        return replace(self, model=self.model.snapshot())

    def chunk(self, index: int) -> tuple[Floats, NDArray[np.bool], NDArray[np.int64]]:
        """Run one chain: z, shape ``(draws, d)``, which transitions diverged, and its gradients."""
        what = (self.model.program, self.num_warmup, len(self.starts))
        chain = _Chain(
            np.int64(self.seed),
            np.int64(index),
            self.starts[index],
            self.variances,
            np.float64(self.target_accept),
        )
        total = self.num_warmup + self.num_draws
        pieces: list[tuple[Floats, NDArray[np.bool]]] = []
        num_gradients = 0
        with double_precision():
            state = _begun(what, chain, self.model.data)
            for done in range(0, total, _PIECE):
                check_interrupt()
                if time.time() > self.end:
                    raise OutOfTimeError(
                        f"the budget was used up when {index} of {len(self.starts)} chains were "
                        f"done and {done / total:.0%} of the next",
                        hint="give more seconds (budget=)",
                    )
                size = min(_PIECE, total - done)
                how_many = np.int64(size)
                state, z, diverging, num_steps = _advanced(
                    what, chain, state, how_many, self.model.data
                )
                pieces.append((np.asarray(z)[:size], np.asarray(diverging)[:size]))
                num_gradients += int(num_steps)
        z, diverging = map(np.concatenate, zip(*pieces, strict=True))
        kept = slice(self.num_warmup, None)
        return z[kept], diverging[kept], np.array(num_gradients, np.int64)


class _Chain(NamedTuple):
    """What sets a chain apart from others."""

    seed: Any
    index: Any
    start: Any
    variances: Any
    target_accept: Any


@compiled("log_density")
def _begun(what: tuple[Program, int, int], chain: _Chain, data: Data) -> Any:
    """Return the state of one of several chains before its first transition."""
    return _sampler(what, chain, data)[0]


@compiled("log_density")
def _advanced(
    what: tuple[Program, int, int], chain: _Chain, state: Any, size: Any, data: Data
) -> tuple[Any, ...]:
    """Advance a chain by so many transitions.

    Returns its state, z, shape ``(_PIECE, d)``, which transitions diverged, and the number of
    gradients.
    """
    _, advance = _sampler(what, chain, data)

    def transition(i: Any, carried: Any) -> Any:
        state, z, diverging, num_steps = carried
        state = advance(state)
        return (
            state,
            z.at[i].set(state.z),
            diverging.at[i].set(state.diverging),
            num_steps + state.num_steps,
        )

    z = jnp.zeros((_PIECE, *state.z.shape), state.z.dtype)
    nothing = (state, z, jnp.zeros(_PIECE, bool), jnp.zeros((), int))
    end: tuple[Any, ...] = lax.fori_loop(0, size, transition, nothing)
    return end


def _sampler(
    what: tuple[Program, int, int], chain: _Chain, data: Data
) -> tuple[Any, Callable[[Any], Any]]:
    """Return the first state of a chain and what advances it; NumPyro makes them together."""
    program, num_warmup, num_chains = what

    def energy(z: jax.Array) -> jax.Array:
        return -program.log_density(z, data)

    begin, advance = hmc(potential_fn=energy, algo="NUTS")
    key = jax.random.split(jax.random.key(chain.seed), num_chains)[chain.index]
    state = begin(
        chain.start,
        num_warmup,
        inverse_mass_matrix=chain.variances,
        target_accept_prob=chain.target_accept,
        rng_key=key,
    )
    return state, advance
