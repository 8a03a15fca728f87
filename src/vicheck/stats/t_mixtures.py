"""Mixtures of Student's t on arrays: their draws, their density, and their fit to weighted draws.

The fit is expectation maximisation with weights (Cappe et al. 2008, adaptive importance sampling in
general mixture classes), which raises the weighted mean of the log density at each step: that is
the divergence KL(p, q) which the weights estimate, minimised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

__all__ = ["TMixture", "fit_t_mixture", "matched_t", "single_t", "weighted_moments"]

Floats = NDArray[np.float64]

_STEPS = 50
"""Of expectation maximisation at most; it also ends when it gains less than this, in nats."""
_LEAST_GAIN = 1e-3
_LEAST_PART = 1e-3
"""A part with less than this is taken out."""


class _Parts(NamedTuple):
    """Of each draw and part: log density, and squared length in the part's own units."""

    log_density: Floats
    square: Floats


@dataclass(frozen=True, eq=False)
class TMixture:
    """A mixture of multivariate t, which may be split along their axes (Geweke 1989).

    ``z = loc + root @ x``, and the entries of x are scaled by ``ups`` where they are positive and
    by ``downs`` where not. All arrays have a leading axis over the parts.
    """

    locs: Floats
    roots: Floats
    dfs: Floats
    parts: Floats
    ups: Floats
    downs: Floats

    @property
    def dim(self) -> int:
        """Length of z."""
        return int(self.locs.shape[1])

    def draw(self, rng: np.random.Generator, num_draws: int) -> Floats:
        """Return draws, shape ``(num_draws, d)``."""
        part = rng.choice(len(self.parts), size=num_draws, p=self.parts)
        normal = rng.standard_normal((num_draws, self.dim))
        df = self.dfs[part]
        normal *= np.sqrt(df / rng.chisquare(df))[:, None]
        draws = np.empty_like(normal)
        for each in range(len(self.parts)):
            x = normal[part == each]
            x *= np.where(x > 0.0, self.ups[each], self.downs[each])
            draws[part == each] = self.locs[each] + x @ self.roots[each].T
        return draws

    def log_density(self, z: Floats) -> Floats:
        """Return the log density at each row of z."""
        return np.asarray(logsumexp(self.of_parts(z).log_density, axis=1, b=self.parts))

    def of_parts(self, z: Floats) -> _Parts:
        """Return log density and squared length of each row by each part, shapes ``(n, k)``."""
        log_density = np.empty((len(z), len(self.parts)))
        square = np.empty_like(log_density)
        half = 0.5 * (self.dfs + self.dim)
        constant = gammaln(half) - gammaln(0.5 * self.dfs)
        constant -= 0.5 * self.dim * np.log(np.pi * self.dfs)
        for each, (loc, root) in enumerate(zip(self.locs, self.roots, strict=True)):
            x = (z - loc) @ np.linalg.inv(root).T
            side = np.where(x > 0.0, self.ups[each], self.downs[each])
            square[:, each] = np.square(x / side).sum(axis=1)
            volume = np.linalg.slogdet(root)[1] + np.log(side).sum(axis=1)
            log_density[:, each] = constant[each] - volume
            log_density[:, each] -= half[each] * np.log1p(square[:, each] / self.dfs[each])
        return _Parts(log_density, square)

    def taking(self, which: NDArray[np.bool_]) -> TMixture:
        """Return the mixture of some of the parts."""
        chosen = TMixture(**{name: array[which] for name, array in vars(self).items()})
        object.__setattr__(chosen, "parts", chosen.parts / chosen.parts.sum())
        return chosen

    def beside(self, other: TMixture, share: float) -> TMixture:
        """Return the mixture of this one and another, which has a share."""
        joined = {
            name: np.concatenate([array, getattr(other, name)])
            for name, array in vars(self).items()
        }
        joined["parts"] = np.concatenate([(1.0 - share) * self.parts, share * other.parts])
        return TMixture(**joined)


def single_t(
    loc: Floats, root: Floats, df: float, up: Floats | None = None, down: Floats | None = None
) -> TMixture:
    """Return a mixture of one part."""
    ones = np.ones(len(loc))
    return TMixture(
        locs=loc[None],
        roots=root[None],
        dfs=np.array([float(df)]),
        parts=np.ones(1),
        ups=(ones if up is None else up)[None],
        downs=(ones if down is None else down)[None],
    )


def weighted_moments(z: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return mean and covariance of weighted draws; weights sum to 1."""
    mean = weights @ z
    apart = z - mean
    return mean, (weights[:, None] * apart).T @ apart


def matched_t(z: Floats, weights: Floats, df: float, floor: Floats) -> TMixture:
    """Return the t whose mean and covariance are those of weighted draws.

    Parameters
    ----------
    z, weights
        Draws, and weights with sum 1.
    df
        Degrees of freedom.
    floor
        A covariance that counts as much as ``d`` draws, for where there are few effective ones.
    """
    mean, covariance = weighted_moments(z, weights)
    dim, effective = z.shape[1], 1.0 / np.square(weights).sum()
    covariance = (effective * covariance + dim * floor) / (effective + dim)
    return single_t(mean, np.linalg.cholesky(covariance * (df - 2.0) / df), df)


def fit_t_mixture(
    z: Floats, weights: Floats, num_parts: int, df: float, rng: np.random.Generator
) -> TMixture:
    """Fit a mixture of t to weighted draws.

    Parameters
    ----------
    z, weights
        Draws, and weights with sum 1.
    num_parts
        Of the mixture at most: those that nothing is left for are taken out.
    df
        Degrees of freedom of all parts.
    rng
        For where parts begin: at weighted draws that are far from each other.
    """
    mean, covariance = weighted_moments(z, weights)
    root = np.linalg.cholesky(covariance + 1e-10 * np.diag(np.diagonal(covariance)))
    x = np.linalg.solve(root, (z - mean).T).T  # where all scales are about 1
    dim = z.shape[1]
    prior = 2.0 * dim * np.square(weights).sum()  # a unit covariance, worth so much weight
    centres = _spread_out(x, weights, num_parts, rng)
    narrow = max(0.3, num_parts ** (-1.0 / dim))
    mixture = TMixture(
        locs=centres,
        roots=np.tile(narrow * np.eye(dim), (num_parts, 1, 1)),
        dfs=np.full(num_parts, df),
        parts=np.full(num_parts, 1.0 / num_parts),
        ups=np.ones((num_parts, dim)),
        downs=np.ones((num_parts, dim)),
    )
    before = -np.inf
    for _ in range(_STEPS):
        of_parts = mixture.of_parts(x)
        joint = of_parts.log_density + np.log(mixture.parts)
        log_density = logsumexp(joint, axis=1)
        height = float(weights @ log_density)
        if height - before < _LEAST_GAIN:
            break
        before = height
        share = weights[:, None] * np.exp(joint - log_density[:, None])
        pull = share * (df + dim) / (df + of_parts.square)
        mixture = _maximised(x, share, pull, prior, narrow, df)
    return TMixture(
        locs=mean + mixture.locs @ root.T,
        roots=root @ mixture.roots,
        dfs=mixture.dfs,
        parts=mixture.parts,
        ups=mixture.ups,
        downs=mixture.downs,
    )


def _maximised(
    x: Floats, share: Floats, pull: Floats, prior: float, narrow: float, df: float
) -> TMixture:
    """Return the mixture that the shares of draws ask for."""
    dim = x.shape[1]
    parts = share.sum(axis=0)
    kept = np.flatnonzero(parts > _LEAST_PART * parts.sum())
    locs, roots = np.empty((len(kept), dim)), np.empty((len(kept), dim, dim))
    for row, each in enumerate(kept):
        locs[row] = pull[:, each] @ x / pull[:, each].sum()
        apart = x - locs[row]
        scatter = (pull[:, each, None] * apart).T @ apart + prior * narrow**2 * np.eye(dim)
        roots[row] = np.linalg.cholesky(scatter / (parts[each] + prior))
    return TMixture(
        locs=locs,
        roots=roots,
        dfs=np.full(len(kept), df),
        parts=parts[kept] / parts[kept].sum(),
        ups=np.ones((len(kept), dim)),
        downs=np.ones((len(kept), dim)),
    )


def _spread_out(x: Floats, weights: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Choose draws by weight, each far from those before (as k-means++ does)."""
    chosen = [x[rng.choice(len(x), p=weights)]]
    for _ in range(count - 1):
        nearest = np.min([np.square(x - one).sum(axis=1) for one in chosen], axis=0)
        odds = weights * nearest
        chosen.append(x[rng.choice(len(x), p=odds / odds.sum())])
    return np.array(chosen)
