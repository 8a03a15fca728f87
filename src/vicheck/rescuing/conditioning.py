"""Normals of most coordinates given the few that their widths depend on, with heavier tails.

What integrated nested Laplace approximations do on a grid (Rue, Martino and Chopin 2009) is done at
scattered places of the few, the *drivers*, and made a proposal for importance sampling.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vicheck.model import double_precision
from vicheck.rescuing.candidate import Candidate
from vicheck.rescuing.proposals import num_steering, stretched
from vicheck.rescuing.steering import Look, Straightened
from vicheck.stats.drivers import find_drivers
from vicheck.stats.places import far_apart, strewn
from vicheck.stats.renyi import log_mean_power
from vicheck.stats.split_t import split_t
from vicheck.stats.t_mixtures import TMixture, single_t, weighted_moments
from vicheck.vi.conditioning import Normals, normals_given
from vicheck.vi.density import Density
from vicheck.vi.families.conditional import Conditional, as_numbers, mean_and_root
from vicheck.vi.families.moments import covariance_of, mean_of
from vicheck.vi.fitting import fit
from vicheck.vi.interpolation import Interpolation

__all__ = ["FEWEST_CONDITIONED", "conditioned"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

FEWEST_CONDITIONED = 3
"""Parameters from which on there are drivers and others."""
_DRAWS = 4096
"""With gradients, in which drivers are sought."""
_PLACES = 6
"""Of the drivers, in each round, for each of them and once more."""
_ROUNDS, _LEAST_ROUNDS = 12, 3
_ERROR = 0.05
"""Nats by which normals may differ from what others near them foretell, in the mean."""
_BEYOND = 1e-3
"""Part of the drivers' density that may lie farther out than all places."""
_LOOKED_AT = 6000
"""Draws of the drivers, which cost no density, from which their mean and covariance are taken."""
_POOL, _SAME = 1500, 0.05
"""Draws from which places are taken, and sds from others below which there is no need of one."""
_FLATTENED = 0.5
"""Power of the drivers' density by which places are strewn: farther out than the posterior."""
_LOWEST = 7.0
"""Nats below the highest draw at which there are no more places."""
_WIDE = (5.0, 1.5)
_ORDER = 5.0
"""Of the divergence by which tails are chosen: higher than by `proposals.heavier`, because wider
tails cost little where the middle fits, and a neck that q misses has little mass and large ratios.
"""
_SIDES = ("ups", "downs")
_MIDDLE = (30.0, 1.0)
"""df and stretch from which others are chosen."""
_OF_DRIVERS, _DFS_OF_DRIVERS = (1.0, 1.2, 1.5, 2.0), (7.0, 15.0, 30.0)
_WIDEST_OF_DRIVERS = (1.5, 7.0)
"""Stretch and df of the draws that serve all choices."""
_DEFENSIVE, _FAR = 0.1, (7.0, 2.0)
"""Part of the drivers' draws that come from a t this wide, so that no ratio is large in a neck that
has little mass: df and stretch. No heavier, because drivers are mostly logarithms of widths."""
_DFS = (10.0, 30.0, 100.0)
_LOSSES = (0.0, 0.2, 0.5, 1.0, 1.5)
"""Stretches by what they cost: a normal of d axes that is wider by a factor of
``sqrt(1 + c sqrt(6 / d))`` loses some ``3 c^2`` nats of effective draws, whatever d."""


def conditioned(candidate: Candidate, seed: int) -> Candidate | str:
    """Find drivers, normals of all others given these, and the tails of both.

    It begins with a normal with correlations, in the coordinates of the candidate: mean and
    covariance of weighted draws are too uncertain in many dimensions.
    """
    model, normal = candidate.model, candidate.fit
    if normal is None or normal.family != "full_rank":
        normal = fit(model, family="full_rank", num_starts=1, seed=seed)
    rng = np.random.default_rng((seed, 19))
    with double_precision():
        mean, covariance = np.asarray(mean_of(normal.q)), np.asarray(covariance_of(normal.q))
        density = Density(model.program, model.data, {})
        drivers = _drivers(density, mean, covariance, rng)
        if not len(drivers):
            return "no coordinate changes the widths of others"
        try:
            known, loc, scale = _explored(density, drivers, mean, covariance, rng)
        except np.linalg.LinAlgError:
            return "given the coordinates that widths depend on, the others are not nearly normal"
    surrogate = _Surrogate(known, loc, scale)
    split = split_t(surrogate.log_p, _t(len(drivers), *_MIDDLE))
    rest = _t(model.dim - len(drivers), *_MIDDLE)
    q = Conditional.of(drivers, loc, scale, surrogate.others(), split, rest)
    q = q.over(*_chosen(Straightened(model, q, seed), split))
    return Candidate(model, q, None, candidate.code, candidate.adapted)


def _drivers(density: Density, mean: Floats, covariance: Floats, rng: np.random.Generator) -> Ints:
    half = rng.standard_normal((_DRAWS // 2, len(mean)))
    z = mean + np.concatenate([half, -half]) @ np.linalg.cholesky(covariance).T
    gradients = density(np.zeros(1, np.intp), z[None])[1][0]
    finite = np.isfinite(gradients).all(axis=1)
    return find_drivers(z[finite], gradients[finite], mean, covariance)


def _explored(
    density: Density, drivers: Ints, mean: Floats, covariance: Floats, rng: np.random.Generator
) -> tuple[Normals, Floats, Floats]:
    """Return normals of the others at enough places, and location and scale of the drivers.

    Places are added where the drivers' density is not negligible, far from those there are, until
    what is found at new ones is what had been foretold.
    """
    others = np.setdiff1d(np.arange(len(mean)), drivers)
    loc = mean[drivers]
    scale: Floats = np.asarray(np.linalg.cholesky(covariance[np.ix_(drivers, drivers)]))
    places = loc + strewn(_PLACES * (len(drivers) + 1), len(drivers), rng) @ scale.T
    follow = np.linalg.solve(scale @ scale.T, covariance[np.ix_(drivers, others)])
    root = np.linalg.cholesky(np.linalg.inv(covariance)[np.ix_(others, others)])
    means = mean[others] + (places - loc) @ follow
    roots = np.tile(root, (len(places), 1, 1))
    known: Normals | None = None
    for number in range(_ROUNDS):
        new, found = normals_given(density, drivers, places, means, roots)
        apart = np.inf
        if known is not None and found.any():
            apart = _apart(new, means[found], roots[found])
        known = new if known is None else known.beside(new)
        surrogate = _Surrogate(known, loc, scale)
        look = surrogate.look(rng)
        enough = apart < _ERROR and surrogate.beyond(look) < _BEYOND
        if number + 1 == _ROUNDS or (number + 1 >= _LEAST_ROUNDS and enough):
            break
        x = _wanted(look, surrogate.x_of(known.drivers), rng)
        if not len(x):
            break
        places = loc + x @ scale.T
        means, roots, _ = surrogate.foretold(x)
        loc, scale = _moved(look, loc, scale)
    assert known is not None
    return known, *_moved(look, loc, scale)


class _Surrogate:
    """What normals at some places foretell elsewhere, where drivers are ``loc + scale @ x``.

    Its `log_p` is the log density of the drivers, all others integrated out.
    """

    def __init__(self, known: Normals, loc: Floats, scale: Floats) -> None:
        self.loc, self.scale = loc, scale
        self._known = known
        x = self.x_of(known.drivers)
        above = known.log_masses + 0.5 * np.square(x).sum(axis=1)
        self._above = Interpolation.through(x, above[:, None])

    def x_of(self, drivers: Floats) -> Floats:
        return np.asarray(np.linalg.solve(self.scale, (drivers - self.loc).T).T)

    def others(self) -> Interpolation:
        """Return means and roots of the others, by x."""
        known = self._known
        return Interpolation.through(self.x_of(known.drivers), as_numbers(known.means, known.roots))

    def foretold(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return means and roots of the others, and the log determinants of the roots."""
        return mean_and_root(self.others().at(x), self._known.means.shape[1], np)

    def log_p(self, x: Floats) -> Floats:
        # What it lacks to a normal is interpolated: beyond all places it falls as a normal does.
        return np.asarray(self._above.at(x)[:, 0] - 0.5 * np.square(x).sum(axis=1))

    def beyond(self, look: Look) -> float:
        """Return what part of the drivers' density lies farther out than all places."""
        weights, _ = look.weights(1.0)
        return float(weights[np.linalg.norm(look.z, axis=1) > self._above.reach].sum())

    def look(self, rng: np.random.Generator) -> Look:
        """Draw from a t that is wider than the drivers' density, as far as it is known."""
        wide = _t(len(self.loc), *_WIDE)
        x = wide.draw(rng, _LOOKED_AT)
        return Look(x, self.log_p(x), wide.log_density(x))


def _apart(found: Normals, means: Floats, roots: Floats) -> float:
    """Return how far normals are from those that were foretold: KL(found, foretold).

    The mean over places, weighted by the density there.
    """
    turned = np.linalg.solve(found.roots, roots)  # whose squares add up to the trace
    off = np.einsum("nij,ni->nj", roots, found.means - means)
    volumes = [np.log(np.einsum("nii->ni", each)).sum(axis=1) for each in (found.roots, roots)]
    apart = np.square(turned).sum(axis=(1, 2)) + np.square(off).sum(axis=1) - means.shape[1]
    weights = np.exp(_FLATTENED * (found.log_masses - found.log_masses.max()))
    return float(np.average(0.5 * apart + volumes[0] - volumes[1], weights=weights))


def _moved(look: Look, loc: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Return location and scale of the drivers by draws with weights."""
    weights, _ = look.weights(50.0)
    mean, covariance = weighted_moments(look.z, weights)
    return loc + scale @ mean, scale @ np.linalg.cholesky(covariance)


def _wanted(look: Look, known: Floats, rng: np.random.Generator) -> Floats:
    """Return places where the drivers' density is not negligible, far from those that are known."""
    near = look.log_p - look.log_p.max() > -_LOWEST
    flattened = np.where(near, _FLATTENED * look.log_p - look.log_q, -np.inf)
    chances = np.exp(flattened - flattened.max())
    pool = look.z[rng.choice(len(chances), _POOL, p=chances / chances.sum())]
    return far_apart(pool, known, _PLACES * (known.shape[1] + 1), _SAME)


def _chosen(steering: Straightened, split: TMixture) -> tuple[TMixture, TMixture]:
    """Choose df and stretch of drivers and others, each split along its axes or not.

    As `proposals.heavier`, but for two blocks: where a driver has a heavy tail, only it is given
    one, because one t for many axes pays for it in all of them. The draws that serve all choices
    are not so wide that in many dimensions none of them would count.
    """
    drivers, rest = split.dim, steering.dim - split.dim
    around = split_t(steering.log_p, _t(steering.dim, *_MIDDLE))
    of_others = TMixture(
        **(vars(_t(rest, *_MIDDLE)) | {side: getattr(around, side)[:, drivers:] for side in _SIDES})
    )
    stretches = [float(np.sqrt(1.0 + loss * np.sqrt(6.0 / rest))) for loss in _LOSSES]
    far = _t(drivers, *_FAR)
    firsts = _choices((_t(drivers, *_MIDDLE), split), _DFS_OF_DRIVERS, _OF_DRIVERS)
    firsts = [each.beside(far, _DEFENSIVE) for each in firsts]
    rests = _choices((_t(rest, *_MIDDLE), of_others), _DFS, stretches)
    first = stretched(split, *_WIDEST_OF_DRIVERS).beside(far, _DEFENSIVE)
    number, log_powers = num_steering(steering.dim), []
    for shape in (_t(rest, *_MIDDLE), of_others):
        wide = first, stretched(shape, stretches[2], _DFS[0])
        x, u = (each.draw(steering.rng, number) for each in wide)
        log_p = steering.log_p(np.concatenate([x, u], axis=1))
        log_wide = wide[0].log_density(x) + wide[1].log_density(u)
        of_first = [each.log_density(x) for each in firsts]
        of_rest = [each.log_density(u) for each in rests]
        log_powers.append(
            [
                [log_mean_power(log_p, one + other, log_wide, _ORDER) for other in of_rest]
                for one in of_first
            ]
        )
    worst = np.max(log_powers, axis=0)
    best = np.unravel_index(worst.argmin(), worst.shape)
    return firsts[best[0]], rests[best[1]]


def _choices(
    shapes: Sequence[TMixture], dfs: Sequence[float], stretches: Sequence[float]
) -> list[TMixture]:
    return [
        stretched(shape, stretch, df) for shape in shapes for df in dfs for stretch in stretches
    ]


def _t(dim: int, df: float, stretch: float) -> TMixture:
    return single_t(np.zeros(dim), stretch * np.eye(dim), df)
