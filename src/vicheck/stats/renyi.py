"""Renyi variational inference on arrays: the t or normal of least Renyi divergence from p.

D_alpha(p || q) = log E_q[(p / q)^alpha] / (alpha - 1): KL(p, q) for alpha = 1, for alpha = 2 the
logarithm of one plus the chi-square divergence; D_alpha / alpha becomes KL(q, p) for alpha towards
0 (Li and Turner 2016; Dieng et al. 2017). It is finite only if alpha k < 1, where k is the Pareto
shape of the ratios (the paper, sections 2 and 5.2).

Its derivative is that of a weighted log likelihood: minus alpha times the mean of grad log q over
p^alpha q^(1 - alpha), which draws of q with weights (p / q)^alpha represent. So a step needs no
gradient of the density: it is one of expectation maximisation on weighted draws, and the weights
are those whose tail Pareto smoothing mends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from vicheck.stats.psis import psis_quietly
from vicheck.stats.t_mixtures import TMixture, single_t

__all__ = [
    "LEAST_ORDER",
    "NORMAL_DF",
    "RenyiEstimate",
    "RenyiFit",
    "fit_renyi",
    "log_mean_power",
    "order_for",
    "renyi_objective",
    "renyi_step",
]

Floats = NDArray[np.float64]

NORMAL_DF = 1e6
"""Degrees of freedom with which no number of draws tells a t from a normal."""
LEAST_ORDER = 0.1
"""Below it weights are all but equal, and steps go nowhere."""
_LARGEST_SHAPE = 0.5
"""alpha khat from which on the mean of (p / q)^alpha is estimated without a variance."""


@dataclass(frozen=True, eq=False)
class RenyiEstimate:
    """The objective at one q, and the weights that its derivative is made of."""

    alpha: float
    value: float
    """D_alpha(p || q) in nats; p need not be normalised."""
    weights: Floats
    """Of p^alpha q^(1 - alpha) at the draws of q, with sum 1."""
    khat: float
    """Of the ratios themselves; `nan` where it is undefined."""

    @property
    def is_finite(self) -> bool:
        """Whether the divergence is finite, by khat."""
        return bool(self.alpha * self.khat < 1.0)


@dataclass(frozen=True, eq=False)
class RenyiFit:
    """The member of a family of t with the least divergence."""

    q: TMixture
    alpha: float
    khats: Floats
    """Of the draws of each step."""


def renyi_objective(log_ratios: Floats, alpha: float, *, smooth: bool = True) -> RenyiEstimate:
    """Estimate D_alpha(p || q) and the weights of its derivative from draws of q.

    Parameters
    ----------
    log_ratios
        ``log_p - log_q`` at draws of q, shape ``(S,)``, up to a constant.
    alpha
        Order, positive.
    smooth
        Whether the largest of the ratios and of their powers are replaced by Pareto quantiles.

    Examples
    --------
    >>> z = 1.2 * np.random.default_rng(1).normal(size=100_000)        # q = N(0, 1.2^2)
    >>> log_ratios = -(z**2) / 2 + z**2 / (2 * 1.2**2) + np.log(1.2)
    >>> f"{renyi_objective(log_ratios, 2.0).value:.3f}"                # exactly 0.0490
    '0.049'
    """
    if not alpha > 0.0:
        raise ValueError(f"alpha must be positive, got {alpha}")
    with np.errstate(under="ignore"):
        ratios = psis_quietly(log_ratios)
        of_ratios, normaliser = _powers(log_ratios, smooth)
        if alpha == 1.0:
            weights = of_ratios
            log_relative = np.log(np.where(weights > 0.0, weights * len(weights), 1.0))
            value = float(weights @ log_relative)
        else:
            weights, of_powers = _powers(alpha * log_ratios, smooth)
            value = float((of_powers - alpha * normaliser) / (alpha - 1.0))
    return RenyiEstimate(alpha, value, weights, float(ratios.khat))


def _powers(log_values: Floats, smooth: bool) -> tuple[Floats, float]:
    """Return weights with sum 1 and the log of the mean, of values or of their smoothed ones."""
    if smooth:
        smoothed = psis_quietly(log_values)
        if not np.isnan(smoothed.khat):
            mean = float(smoothed.log_normalizer) - np.log(len(log_values))
            weights = np.exp(smoothed.log_weights)
            return np.asarray(weights / weights.sum()), float(mean)
    total = float(logsumexp(log_values))
    return np.asarray(np.exp(log_values - total)), total - float(np.log(len(log_values)))


def log_mean_power(log_p: Floats, log_q: Floats, log_b: Floats, alpha: float) -> float:
    """Return the log of E_q[(p / q)^alpha] by draws of another proposal b, up to a constant.

    One set of draws of a wide b serves many q. With alpha = 2 it is the chi-square criterion
    (Geweke 1989, section 3; the paper, section 5.2).
    """
    with np.errstate(over="ignore"):  # a density of exp(-1e308) is none
        terms = alpha * log_p - (alpha - 1.0) * log_q - log_b
    return float(logsumexp(terms) - np.log(len(log_p)))


def order_for(khat: float, most: float = 2.0) -> float:
    """Return the largest order whose divergence draws with this khat estimate with a variance.

    alpha khat stays at one half: then (p / q)^alpha has a variance, and the divergence is finite.
    """
    if np.isnan(khat):
        return LEAST_ORDER
    return float(np.clip(_LARGEST_SHAPE / max(khat, 1e-3), LEAST_ORDER, most))


def renyi_step(
    q: TMixture, z: Floats, weights: Floats, *, part: float = 1.0, diagonal: bool = False
) -> TMixture:
    """Move a single t, or a normal, towards weighted draws of it.

    Parameters
    ----------
    q
        Of one part, not split.
    z, weights
        Draws of q, and the weights of `renyi_objective`.
    part
        Of the way to go.
    diagonal
        Whether coordinates stay independent, up to their common tail.
    """
    df, dim = float(q.dfs[0]), q.dim
    pull = weights * (df + dim) / (df + q.of_parts(z).square[:, 0])
    loc = pull @ z / pull.sum()
    apart = z - loc
    scatter = (pull[:, None] * apart).T @ apart  # weights sum to 1
    step = loc - q.locs[0]
    scatter = (
        (1.0 - part) * q.roots[0] @ q.roots[0].T
        + part * scatter
        + part * (1.0 - part) * np.outer(step, step)
    )
    if diagonal:
        scatter = np.diag(np.diagonal(scatter))
    return single_t(q.locs[0] + part * step, np.linalg.cholesky(scatter), df)


def fit_renyi(
    log_density: Callable[[Floats], Floats],
    start: TMixture,
    alpha: float | None,
    *,
    rng: np.random.Generator,
    num_draws: int = 4000,
    num_steps: int = 30,
    most: float = 2.0,
    smooth: bool = True,
    diagonal: bool = False,
) -> RenyiFit:
    """Find the t or normal of least Renyi divergence, each step on fresh draws.

    Parameters
    ----------
    log_density
        Log density of p, up to a constant, at the rows of an array.
    start
        A t of one part; degrees of freedom stay those of it (`NORMAL_DF` for a normal).
    alpha
        Order of the divergence; None has it follow khat, so that the divergence stays finite
        (`order_for`): the paper's section 5.2 leaves that for future research.
    rng
        For the draws.
    num_draws, num_steps
        Draws of a step, and steps; the later half are averaged.
    most
        Largest order where it follows khat.
    smooth
        Whether the weights are smoothed.
    diagonal
        Whether coordinates stay independent.
    """
    q, khats = start, []
    order = LEAST_ORDER if alpha is None else alpha
    for step in range(num_steps):
        z = q.draw(rng, num_draws)
        with np.errstate(invalid="ignore"):
            log_ratios = log_density(z) - q.log_density(z)
        log_ratios = np.where(np.isnan(log_ratios), -np.inf, log_ratios)
        later = max(0, step - num_steps // 2)
        if alpha is None:
            khat = float(psis_quietly(log_ratios).khat)
            order += (order_for(khat, most) - order) / (1.0 + later)
        found = renyi_objective(log_ratios, order, smooth=smooth)
        khats.append(found.khat)
        # A whole step overshoots by alpha - 1: for normals p and q this one is exact.
        part = min(1.0, 1.0 / order) / (1.0 + later)
        q = renyi_step(q, z, found.weights, part=part, diagonal=diagonal)
    return RenyiFit(q, order, np.array(khats))
