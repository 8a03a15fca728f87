"""Normals given the few coordinates that the widths of others depend on, with heavier tails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicheck.model import double_precision
from vicheck.rescuing.candidate import Candidate
from vicheck.rescuing.proposals import num_steering, stretched
from vicheck.rescuing.steering import Look, Straightened
from vicheck.stats.drivers import axes_after, find_drivers
from vicheck.stats.renyi import log_mean_power
from vicheck.stats.t_mixtures import TMixture, single_t
from vicheck.vi.conditioning import trained_shape
from vicheck.vi.density import Density
from vicheck.vi.families.conditional import Conditional
from vicheck.vi.families.moments import covariance_of, mean_of
from vicheck.vi.fitting import fit

__all__ = ["FEWEST_CONDITIONED", "conditioned"]

Floats = NDArray[np.float64]

FEWEST_CONDITIONED = 3
"""Parameters from which on there are drivers and others."""
_DRAWS = 4096
"""With gradients, in which drivers are sought."""
_ORDER = 3.0
"""Of the divergence by which tails are chosen, as by `proposals.heavier`."""
_OF_DRIVERS = tuple(
    (df, stretch) for df in (3.0, 5.0, 10.0, 30.0) for stretch in (0.9, 1.0, 1.2, 1.5, 2.0, 2.5)
)
_WIDEST_OF_DRIVERS = (3.0, 2.0)
_DFS = (10.0, 30.0, 100.0)
_LOW_ENOUGH = 0.4
"""khat below which drivers are drawn no wider: 0.5 is asked, and other draws may have more."""
_WIDER = (1.0, 1.25, 1.6)
"""Factors by which drivers are drawn wider than chosen."""
_LOSSES = (0.0, 0.2, 0.5, 1.0, 1.5)
"""Stretches by what they cost: a normal of d axes that is wider by a factor of
``sqrt(1 + c sqrt(6 / d))`` loses some ``3 c^2`` nats of effective draws, whatever d."""


def conditioned(candidate: Candidate, seed: int) -> Candidate | str:
    """Find drivers, train what others do given these, and choose the tails of both.

    It begins with a normal with correlations, in the coordinates of the candidate: mean and
    covariance of weighted draws are too uncertain in many dimensions.
    """
    model, normal = candidate.model, candidate.fit
    if normal is None or normal.family != "full_rank":
        normal = fit(model, family="full_rank", num_starts=1, seed=seed)
    with double_precision():
        mean, covariance = np.asarray(mean_of(normal.q)), np.asarray(covariance_of(normal.q))
    half = np.random.default_rng((seed, 19)).standard_normal((_DRAWS // 2, model.dim))
    z = mean + np.concatenate([half, -half]) @ np.linalg.cholesky(covariance).T
    density = Density(model.program, model.data, {})
    gradients = density(np.zeros(1, np.intp), z[None])[1][0]
    finite = np.isfinite(gradients).all(axis=1)
    seen = z[finite], gradients[finite], mean, covariance
    drivers = find_drivers(*seen)
    if not len(drivers):
        return "no coordinate changes the widths of others"
    root = axes_after(drivers, *seen)
    shape = trained_shape(model, mean, root, len(drivers), seed)
    unit = _Noise.of(len(drivers), model.dim, (30.0, 1.0), (100.0, 1.0))
    q = Conditional.around(mean, root, shape, unit.first, unit.rest)
    steering = Straightened(model, q, seed)
    noise = _widened(steering, _chosen(steering, len(drivers)))
    q = q.over(noise.first, noise.rest)
    return Candidate(model, q, None, candidate.code, candidate.adapted)


@dataclass(frozen=True, eq=False)
class _Noise:
    """Two independent t: of the drivers, and of all others."""

    first: TMixture
    rest: TMixture

    @classmethod
    def of(
        cls, drivers: int, dim: int, first: tuple[float, float], rest: tuple[float, float]
    ) -> _Noise:
        """Return those with a df and a stretch each."""
        return cls(_t(drivers, *first), _t(dim - drivers, *rest))

    def draw(self, rng: np.random.Generator, num_draws: int) -> Floats:
        return np.concatenate([each.draw(rng, num_draws) for each in (self.first, self.rest)], 1)

    def log_density(self, u: Floats) -> Floats:
        first, rest = np.split(u, [self.first.dim], axis=1)
        return self.first.log_density(first) + self.rest.log_density(rest)


def _chosen(steering: Straightened, drivers: int) -> _Noise:
    """Choose df and stretch of drivers and others, so that no ratio is large.

    As `proposals.heavier`, but for two blocks: where a driver has a heavy tail, only it is given
    one, because one t for many axes pays for it in all of them. The draws that serve all choices
    are not so wide that in many dimensions none of them would count.
    """
    dim = steering.dim
    stretches = np.sqrt(1.0 + np.array(_LOSSES) * np.sqrt(6.0 / (dim - drivers)))
    of_rest = [(df, float(stretch)) for df in _DFS for stretch in stretches]
    wide = _Noise.of(drivers, dim, _WIDEST_OF_DRIVERS, (_DFS[0], float(stretches[2])))
    u = wide.draw(steering.rng, 2 * num_steering(dim))
    log_p, log_wide = steering.log_p(u), wide.log_density(u)
    first, rest = np.split(u, [drivers], axis=1)
    log_first = {each: _t(drivers, *each).log_density(first) for each in _OF_DRIVERS}
    log_rest = {each: _t(dim - drivers, *each).log_density(rest) for each in of_rest}

    def power(one: tuple[float, float], other: tuple[float, float]) -> float:
        return log_mean_power(log_p, log_first[one] + log_rest[other], log_wide, _ORDER)

    choices = [(one, other) for one in _OF_DRIVERS for other in of_rest]
    return _Noise.of(drivers, dim, *min(choices, key=lambda choice: power(*choice)))


def _widened(steering: Straightened, noise: _Noise) -> _Noise:
    """Return it with drivers drawn so wide that khat of its own draws is low enough, or lowest.

    Where drivers are far out in a corner, what was trained of the others may be so wrong that one
    draw in thousands has a large ratio, and the choice by a mean of ratios has not seen it.
    """
    lowest, best = np.inf, noise
    for stretch in _WIDER:
        wider = _Noise(stretched(noise.first, stretch), noise.rest)
        u = wider.draw(steering.rng, 2 * num_steering(steering.dim))
        khat = Look(u, steering.log_p(u), wider.log_density(u)).khat
        if khat < lowest:
            lowest, best = khat, wider
        if lowest < _LOW_ENOUGH:
            break
    return best


def _t(dim: int, df: float, stretch: float) -> TMixture:
    return single_t(np.zeros(dim), stretch * np.eye(dim), df)
