"""What the figures of a check show, as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vicheck.errors import NothingToShowError
from vicheck.results.check import Check
from vicheck.results.psis import PsisStatus
from vicheck.stats.dependence import pair_shifts
from vicheck.stats.estimates import truncated_log_weights
from vicheck.stats.gpd import fit_gpd, log_quantiles
from vicheck.stats.growth import khat_growth
from vicheck.stats.reliability import GOOD_BELOW, USABLE_BELOW, khat_threshold
from vicheck.stats.tail import log_exceedances, select_tail

__all__ = [
    "Cloud",
    "KhatGrowth",
    "KhatScale",
    "Pair",
    "TailFit",
    "Trace",
    "khat_growth_data",
    "khat_scale_data",
    "pairs_data",
    "require_check",
    "solver_data",
    "tail_data",
]

Floats = NDArray[np.float64]

_TAIL_POINTS = 250
_TRACE_POINTS = 300
_CANDIDATES = 24
"""How many of the worst quantities are looked at in pairs."""
_DOTS = 1500
_WIDE = 2.5
"""A positive quantity whose draws span less than this factor needs no log scale."""


def require_check(value: Any) -> None:
    """Raise unless this is a check."""
    if not isinstance(value, Check):
        raise TypeError(f"check must come from vicheck.check, got {type(value).__name__}")


@dataclass(frozen=True, eq=False)
class KhatScale:
    """khat with its 90% interval, on the scale of what can be trusted."""

    khat: float
    low: float
    high: float
    threshold: float
    """Largest khat that is reliable with this many draws."""
    num_draws: int
    bands: tuple[tuple[str, float, float], ...]
    """The paper's: what a khat between two numbers means."""


def khat_scale_data(check: Check) -> KhatScale:
    """Return khat, its interval, the threshold and the paper's bands."""
    require_check(check)
    low, high = check.psis.khat_interval()
    return KhatScale(
        khat=check.khat,
        low=float(low),
        high=float(high),
        threshold=check.psis.threshold,
        num_draws=check.psis.num_draws,
        bands=(
            ("good", -np.inf, GOOD_BELOW),
            ("usable", GOOD_BELOW, USABLE_BELOW),
            ("not reliable", USABLE_BELOW, np.inf),
        ),
    )


@dataclass(frozen=True, eq=False)
class TailFit:
    """The largest ratios, in order, and what was fitted to them.

    All are divided by the mean of the ratios as they are, so 0 is an average one; logarithms are
    to base 10.
    """

    share: Floats
    """Share of the draws whose ratio is at least as large."""
    log_ratios: Floats
    """As they are."""
    log_fitted: Floats
    """By the generalised Pareto distribution, in their place."""
    log_smoothed: Floats
    """What PSIS puts in their place: the fitted ones, but never above the largest ratio."""
    khat: float


def tail_data(check: Check) -> TailFit:
    """Return the tail that khat was estimated from, the rarest draw first.

    Raises
    ------
    ValueError
        When khat is not estimated from a tail, as for constant ratios.
    """
    require_check(check)
    if check.psis.status is not PsisStatus.OK:
        raise NothingToShowError(f"khat was not estimated: {check.psis.message}")
    result = check.psis
    tail = select_tail(check.log_ratios, result.tail_length)
    size = result.tail_length
    fit = fit_gpd(log_exceedances(tail))
    u = (np.arange(size) + 0.5) / size
    quantiles = log_quantiles(u, float(fit.k), float(fit.log_sigma))
    fitted = tail.cutoff + np.logaddexp(quantiles, 0.0)
    # Dots that cannot be distinguished are left out: all of the largest, fewer of the others.
    ranks = np.unique(np.geomspace(1, size, _TAIL_POINTS).astype(int))
    shown = size - ranks
    mean = np.logaddexp.reduce(check.log_ratios) - np.log(result.num_draws)
    scale = np.log(10.0)
    return TailFit(
        share=(ranks - 0.5) / result.num_draws,
        log_ratios=(tail.values[shown] - mean) / scale,
        log_fitted=(fitted[shown] - mean) / scale,
        log_smoothed=(np.minimum(fitted, tail.values[-1])[shown] - mean) / scale,
        khat=check.khat,
    )


@dataclass(frozen=True, eq=False)
class KhatGrowth:
    """khat of the first draws, by their number."""

    num_draws: NDArray[np.int64]
    khat: Floats
    low: Floats
    high: Floats
    threshold: Floats
    """Largest reliable khat for each number."""


def khat_growth_data(check: Check) -> KhatGrowth:
    """Return khat with its 90% interval for the numbers of draws that the verdict looks at.

    Raises
    ------
    ValueError
        When khat is defined for none of them.
    """
    require_check(check)
    growth = khat_growth(check.log_ratios, check.psis)
    if np.isnan(growth.khats).all():
        raise NothingToShowError(f"khat is undefined: {check.psis.message}")
    return KhatGrowth(
        num_draws=np.array(growth.sizes),
        khat=growth.khats,
        low=growth.intervals[:, 0],
        high=growth.intervals[:, 1],
        threshold=np.array([khat_threshold(size) for size in growth.sizes]),
    )


@dataclass(frozen=True, eq=False)
class Trace:
    """The progress of a solver."""

    steps: Floats
    values: Floats
    what: Literal["gradient", "elbo"]
    """The largest entry of the gradient, in sds, or the ELBO, in nats."""
    block: int = 1
    """How many estimates of the ELBO each value is the mean of."""


def solver_data(check: Check) -> Trace:
    """Return the gradient after each round of the deterministic solver, or else the ELBO.

    Its ELBO would mislead: it falls when the draws it is computed on are doubled.

    Raises
    ------
    ValueError
        When the fit came without a trace.
    """
    require_check(check)
    if check.convergence is not None and len(check.convergence.gradient_trace):
        gradient = np.asarray(check.convergence.gradient_trace, np.float64)
        return Trace(np.arange(1.0, gradient.size + 1.0), gradient, "gradient")
    elbo = np.asarray(check.elbo_trace, np.float64)
    if not elbo.size:
        raise NothingToShowError("the fit came without a trace of its ELBO")
    block = -(-elbo.size // _TRACE_POINTS)
    whole = elbo[elbo.size % block :]  # the end matters more than the start
    steps = np.asarray(np.arange(elbo.size % block, elbo.size, block) + 0.5 * (block + 1))
    return Trace(steps, whole.reshape(-1, block).mean(axis=1), "elbo", block)


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points in two dimensions, each counted so many times."""

    x: Floats
    y: Floats
    count: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two quantities: draws of q, and the same number drawn again by their weights.

    The weights are truncated, at sqrt(S) times their mean (Ionides 2008): untruncated ones can
    leave nothing to be seen but a few draws.
    """

    x_name: str
    y_name: str
    x_log: bool
    y_log: bool
    shift: float
    """How much the weights change the dependence; see `vicheck.stats.dependence`."""
    q: Cloud
    reweighted: Cloud


def pairs_data(check: Check, num_pairs: int = 3, seed: int = 0) -> list[Pair]:
    """Return the pairs whose dependence the weights change most, among the worst quantities.

    Raises
    ------
    ValueError
        When there are no weights, or fewer than two quantities.
    """
    require_check(check)
    if num_pairs < 1:
        raise ValueError(f"num_pairs must be at least 1, got {num_pairs}")
    if not len(check.values):
        raise NothingToShowError("no draws were kept")
    if np.isnan(check.kept_log_weights).any():
        raise NothingToShowError(f"the draws have no weights: {check.psis.message}")
    log_weights = truncated_log_weights(check.log_ratios[: len(check.values)])
    where = {name: column for column, name in enumerate(check.names)}
    worst = (where[name] for name in check.worst_first.index)
    columns = list(islice((column for column in worst if _varies(check, column)), _CANDIDATES))
    shifts = pair_shifts(check.values[:, columns], log_weights)
    if not shifts:
        raise NothingToShowError("there are fewer than two quantities that vary")
    with np.errstate(under="ignore"):
        weights = np.exp(log_weights)
    rng = np.random.default_rng(seed)
    size = min(_DOTS, len(weights))
    plain = np.arange(size), np.ones(size, np.int64)
    again = np.unique(rng.choice(len(weights), size, p=weights / weights.sum()), return_counts=True)
    pairs = []
    for first, second, shift in shifts[:num_pairs]:
        # The one with a log scale, as a rule the scale parameter, goes up.
        x, y = sorted((columns[first], columns[second]), key=lambda at: _is_wide(check, at))
        clouds = (
            Cloud(check.values[rows, x], check.values[rows, y], count)
            for rows, count in (plain, again)
        )
        names = check.names[x], check.names[y]
        pairs.append(Pair(*names, _is_wide(check, x), _is_wide(check, y), shift, *clouds))
    return pairs


def _varies(check: Check, column: int) -> bool:
    low, high = check.values[:, column].min(), check.values[:, column].max()
    return bool(np.isfinite(low) and np.isfinite(high) and low < high)


def _is_wide(check: Check, column: int) -> bool:
    """Whether a quantity is better seen on a log scale: it is positive and less skewed there."""
    values = check.values[:, column]
    if values.min() <= 0.0:
        return False
    low, middle, high = np.quantile(values, [0.01, 0.5, 0.99])
    if not (high > _WIDE * low and low < middle < high):
        return False
    skew = np.log((high - middle) / (middle - low))
    skew_of_log = np.log(np.log(high / middle) / np.log(middle / low))
    return bool(abs(skew_of_log) < abs(skew))
