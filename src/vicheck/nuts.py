"""Reference draws from NumPyro's no-U-turn sampler, with their R-hat and effective sample size.

NumPyro's own diagnostics do the work. What is added is the rank normalisation of Vehtari et al.
(2021), which they lack, and NaN for quantities that are constant.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer.hmc import hmc

from vicheck.errors import ArgumentError, ModelError, NotConvergedWarning, UnreliableWarning
from vicheck.model import Data, Model, Program, double_precision, is_finite
from vicheck.results.check import Check
from vicheck.results.fit import Fit
from vicheck.results.reference import Reference, blocks_of
from vicheck.runtime.compiling import compiled
from vicheck.runtime.interrupts import between_pieces, check_interrupt
from vicheck.runtime.progress import Progress, advance, showing
from vicheck.runtime.seeds import Seed, as_seed
from vicheck.runtime.workers import in_order, require_executor

__all__ = ["reference"]

_RADIUS = 2.0
_MAX_STARTS = 100
"""Rounds of random starts before the sampler gives up, as in Stan."""
_FOR_VARIANCES = 200
"""Draws of an approximation from which its variances are taken."""
_APART = 2.0
"""Factor by which every other chain that begins around an approximation starts farther out."""
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
    progress
        Whether to show a progress line on standard error, after a second and only in a terminal or
        a notebook; or a function to be called with each sentence instead.

    Raises
    ------
    ModelError
        When data is missing or does not fit, or no start has a finite density.

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
    if not 0.0 < target_accept < 1.0:
        raise ValueError(f"target_accept must lie between 0 and 1, got {target_accept}")
    model = model.given(data).snapshot()
    model.require_data()
    require_executor(executor)
    starts = _find_starts(model, num_chains, np.random.default_rng(seed))
    variances = np.ones(model.dim)
    if around is not None:
        starts, variances = _taken_over(model, around, starts, seed)
    chains = _Chains(model, starts, variances, num_draws, num_warmup, seed, target_accept)
    numbers = range(num_chains)
    each = map(chains.chunk, numbers) if executor is None else in_order(executor, chains, numbers)
    with showing(progress, f"sampling {num_chains} chains"):
        z, diverging, num_steps = map(np.stack, zip(*_counted(each, num_chains), strict=True))
    draws = model.constrain(z)
    names = model.indexing.labels({name: array.shape[2:] for name, array in draws.items()})
    blocks = blocks_of(draws)
    rhat, ess, mcse, tail_ess = (
        dict(zip(names, np.concatenate([of(block) for block in blocks]).tolist(), strict=True))
        for of in (_rhat, _bulk_ess, _mcse, _tail_ess)
    )
    num_divergent, num_gradients = int(diverging.sum()), int(num_steps.sum())
    return Reference(z, draws, rhat, ess, mcse, num_divergent, tail_ess, num_gradients)


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

    def snapshot(self) -> _Chains:
        return replace(self, model=self.model.snapshot())

    def chunk(self, index: int) -> tuple[Floats, NDArray[np.bool], NDArray[np.int64]]:
        """Run one chain: z, shape ``(draws, d)``, which transitions diverged, and its gradients."""
        check_interrupt()
        what = (self.model.program, self.num_draws, self.num_warmup, len(self.starts))
        which = (np.int64(self.seed), np.int64(index), self.starts[index])
        with double_precision():
            z, diverging, num_steps = _run(
                what, *which, self.variances, self.model.data, self.target_accept
            )
            return np.asarray(z), np.asarray(diverging), np.asarray(num_steps)


@compiled("log_density")
def _run(
    what: tuple[Program, int, int, int],
    seed: Any,
    index: Any,
    start: Any,
    variances: Any,
    data: Data,
    target_accept: Any,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return z of one of several chains, shape ``(draws, d)``, and what its transitions were.

    Which of them diverged, and how many gradients all of them took, warm-up included.
    """
    program, num_draws, num_warmup, num_chains = what

    def energy(z: jax.Array) -> jax.Array:
        return -program.log_density(z, data)

    begin, advance = hmc(potential_fn=energy, algo="NUTS")

    def transition(_: Any, carried: Any) -> Any:
        state, count = carried
        state = advance(state)
        return state, count + state.num_steps

    def draw(carried: Any, num_steps: jax.Array) -> Any:
        carried = lax.fori_loop(0, num_steps, transition, carried)
        return carried, (carried[0].z, carried[0].diverging)

    # Warm-up comes with the first draw, so that compiled code holds the sampler once.
    num_steps = jnp.ones(num_draws, int).at[0].add(num_warmup)
    key = jax.random.split(jax.random.key(seed), num_chains)[index]
    state = begin(
        start,
        num_warmup,
        inverse_mass_matrix=variances,
        target_accept_prob=target_accept,
        rng_key=key,
    )
    (_, count), (z, diverging) = lax.scan(draw, (state, jnp.zeros((), int)), num_steps)
    return z, diverging, count


def _rhat(draws: Floats) -> Floats:
    """Rhat of normalised ranks, and of those of distances to the median, whichever is larger.

    Vehtari et al. (2021), section 3.2.
    """
    with np.errstate(invalid="ignore"):
        folded = np.abs(draws - np.median(draws, axis=(0, 1)))
    bulk, tail = (_undisturbed(split_gelman_rubin, _ranked(x)) for x in (draws, folded))
    # Draws of two values only are all at the same distance: that is no sign of trouble.
    return np.where(np.isnan(tail), bulk, np.maximum(bulk, tail))


def _mcse(draws: Floats) -> Floats:
    """Monte Carlo standard errors of the means, shape ``(scalars,)``."""
    with np.errstate(invalid="ignore"):  # a derived quantity may be infinite
        sd = draws.std(axis=(0, 1), ddof=1)
    return np.where(sd > 0.0, sd / np.sqrt(_ess(draws)), 0.0)


def _bulk_ess(draws: Floats) -> Floats:
    """Effective sample size of normalised ranks (Vehtari et al. 2021, section 3.3)."""
    return _ess(_ranked(draws))


def _tail_ess(draws: Floats) -> Floats:
    """Effective sample size of the 5% and the 95% quantile, whichever is smaller (the same, 4.3).

    Of a quantity with few values a quantile may be its least or largest: that one says nothing.
    """
    with np.errstate(invalid="ignore"):
        quantiles = np.quantile(draws, [0.05, 0.95], axis=(0, 1))
        low, high = (_ess(np.where(draws <= each, 1.0, 0.0)) for each in quantiles)
    known = np.isfinite(draws).all(axis=(0, 1)) & (draws != draws[0, 0]).any(axis=(0, 1))
    return np.where(known, np.fmin(low, high), np.nan)


def _ess(draws: Floats) -> Floats:
    """Effective sample size of split chains, at most S log10(S) as in Stan."""
    length = draws.shape[1]
    half = length // 2
    split = np.concatenate([draws[:, :half], draws[:, length - half :]])
    most = split[..., 0].size * np.log10(split[..., 0].size)
    ess = _undisturbed(effective_sample_size, split)
    return np.where((ess <= 0.0) | (ess > most), most, ess)


def _ranked(draws: Floats) -> Floats:
    """Replace draws by the normal quantiles of their ranks among all chains (equation 14)."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    flat = draws.reshape(-1, draws.shape[2])
    ranks = rankdata(flat, axis=0, nan_policy="propagate")
    return np.asarray(ndtri((ranks - 0.375) / (len(flat) + 0.25))).reshape(draws.shape)


def _undisturbed(statistic: Callable[[Any], Any], draws: Floats) -> Floats:
    """Apply a statistic; draws that are all the same, or not finite, give NaN without a warning."""
    with np.errstate(all="ignore"):
        return np.where((draws != draws[0, 0]).any(axis=(0, 1)), statistic(draws), np.nan)
