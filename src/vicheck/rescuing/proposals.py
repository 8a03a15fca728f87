"""Better proposals from draws of one that failed: heavier, skewed, moved, mixed.

All of them are mixtures of Student's t (`vicheck.stats.t_mixtures`). They are found by looking at
draws, so nothing here judges them: that takes fresh ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vicheck.rescuing.steering import Look, Steering
from vicheck.stats.renyi import log_mean_power
from vicheck.stats.t_mixtures import TMixture, fit_t_mixture, matched_t, single_t

__all__ = [
    "MOST_PARAMETERS",
    "heavier",
    "matched",
    "mixed",
    "num_steering",
    "refitted",
    "stretched",
    "t_around",
]

Floats = NDArray[np.float64]

MOST_PARAMETERS = 100
"""Above it no t whose covariance is estimated from weighted draws will do."""
_DFS = (5.0, 10.0, 30.0)
_STRETCHES = (1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5)
_WIDEST = 2.5
_ORDER = 3.0
"""Of the divergence by which tails are chosen."""
_DF = 7.0
"""Degrees of freedom where they are not chosen."""
_ROUNDS = 8
"""Of moment matching."""
_PARTS = (2, 4, 8)
_DEFENSIVE = 0.2
"""Part of a mixture that is one wide t, so that no ratio is large where the other parts end."""


def num_steering(dim: int) -> int:
    """Return how many draws a look takes."""
    return max(4000, 400 * dim)


def t_around(mean: Floats, covariance: Floats, df: float = _DF) -> TMixture:
    """Return a t with a mean and covariance."""
    return single_t(mean, np.asarray(np.linalg.cholesky(covariance * (df - 2.0) / df)), df)


def heavier(steering: Steering, *around: TMixture) -> TMixture:
    """Choose df and scale of one of several t, or split t, so that no ratio is large.

    One set of draws from each, widened, serves all candidates: the mean of (p / q)^a over draws of
    q is that of p^a / (q^(a - 1) b) over draws of b. With a = 2 that is the chi-square criterion
    (Geweke 1989, section 3; the paper, section 5.2). Here a is 3, which is finite only where khat
    is below 1/3 for large samples: it asks for wider tails, at the price of some efficiency.
    """
    looks = [
        steering.look(stretched(each, _WIDEST, _DFS[0]), num_steering(steering.dim))
        for each in around
    ]
    candidates = [
        stretched(each, stretch, df) for each in around for df in _DFS for stretch in _STRETCHES
    ]

    def largest_power(candidate: TMixture) -> float:
        return max(
            log_mean_power(look.log_p, candidate.log_density(look.z), look.log_q, _ORDER)
            for look in looks
        )

    return min(candidates, key=largest_power)


def matched(steering: Steering, start: TMixture) -> tuple[TMixture, Look]:
    """Move a t until its mean and covariance are those of its own weighted draws.

    Importance-weighted moment matching (Paananen et al. 2021), with tempered weights where the
    proposal is still far away. Returns the t and draws from it.
    """
    now, least = start, max(50.0, 5.0 * steering.dim)
    for step in range(_ROUNDS):
        look = steering.look(now, num_steering(steering.dim))
        weights, power = look.weights(least)
        if power == 1.0 and step >= 2:
            break
        floor = now.roots[0] @ now.roots[0].T * _DF / (_DF - 2.0)
        now = matched_t(look.z, weights, _DF, floor)
    return now, look


def mixed(steering: Steering, start: TMixture, look: Look) -> TMixture:
    """Return the best of mixtures of several t, adapted to their own weighted draws.

    Each is fitted to draws of the one before; the draws are weighted by the density of the whole
    mixture, not by that of the part that each comes from.
    """
    wide = stretched(start, 1.5, 5.0)
    best, height = start, look.efficiency
    for count in _PARTS:
        least = max(50.0, 5.0 * steering.dim) * count**0.5
        for _ in range(2):
            weights, _ = look.weights(least)
            chosen = steering.rng.choice(len(weights), size=len(weights), p=weights)
            rows, copies = np.unique(chosen, return_counts=True)
            parts = fit_t_mixture(
                look.z[rows], copies / copies.sum(), count, 2.0 * _DF, steering.rng
            )
            now = parts.beside(wide, _DEFENSIVE)
            look = steering.look(now, num_steering(steering.dim))
        if look.efficiency > height:
            best, height = now, look.efficiency
    return best


def stretched(around: TMixture, factor: float, df: float | None = None) -> TMixture:
    """Return a mixture whose parts are wider by a factor, and may have other tails."""
    dfs = around.dfs if df is None else np.full_like(around.dfs, df)
    return TMixture(**(vars(around) | {"roots": factor * around.roots, "dfs": dfs}))


def refitted(mixture: TMixture, z: Floats, weights: Floats) -> TMixture:
    """Return each part with the share, mean and covariance of what falls to it; none is lost."""
    of_parts = mixture.of_parts(z)
    joint = of_parts.log_density + np.log(mixture.parts)
    share = weights[:, None] * np.exp(joint - joint.max(axis=1, keepdims=True))
    share *= (weights / np.maximum(share.sum(axis=1), 1e-300))[:, None]
    locs, roots = mixture.locs.copy(), mixture.roots.copy()
    for each, part in enumerate(share.T):
        total = part.sum()
        if total <= 0.0 or total**2 / np.square(part).sum() < 2.0 * z.shape[1]:
            continue  # too few draws to tell: it stays where it is
        df = float(mixture.dfs[each])
        floor = roots[each] @ roots[each].T * df / (df - 2.0)
        moved = matched_t(z, part / total, df, floor)
        locs[each], roots[each] = moved.locs[0], moved.roots[0]
    parts = np.maximum(share.sum(axis=0), 0.01)
    return TMixture(
        **(vars(mixture) | {"locs": locs, "roots": roots, "parts": parts / parts.sum()})
    )
