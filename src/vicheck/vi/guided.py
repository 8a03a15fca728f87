"""Quasi-Newton steps where functions tell their curvature: those of variational inference do.

Draws of q are a linear function of noise, and the regression of the gradients at them on that noise
is the Hessian of the log density averaged over q: the Hessian of the ELBO by the means (Bonnet's
and Price's theorems). It costs no evaluation. So each step knows the curvature where it is, not
where the fit began; on the way through a funnel that changes by orders of magnitude. What is left,
such as how scales depend on means, is learnt from the last few steps (L-BFGS, begun anew from the
curvature at each step).

The curvature is damped, as Levenberg and Marquardt did, by a multiple of the root of the gradient:
much at first, and less with each step that gains what was foretold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from vicheck.vi.quasi_newton import Floats, Limited, Mask, Memory

__all__ = [
    "DAMPING",
    "FARTHEST_GROWTH",
    "LEAST_PIVOT",
    "PAIRS",
    "RAISED",
    "STEEP",
    "Bowl",
    "Ended",
    "Guided",
    "bowl",
    "changed_damping",
    "growth_from",
    "guided",
]

PAIRS = 2
"""Steps that are learnt from: older ones spoil what is told."""
DAMPING = 0.3
"""Damping at the start and at most, times the root of the gradient."""
LEAST_PIVOT, RAISED = 1e-9, 0.05
"""A pivot that is not above the first counts by its size, and at least as the second: q's own
scales make curvatures about 1."""
FARTHEST_GROWTH = 4.0
"""How many times the longest step the growth of a scale may be, however far steps reach."""
STEEP = 0.05
"""Gradient, in sds, up to which there is no damping."""
_LESS, _MORE = 0.1, 4.0
"""Factors of the damping after a step that gains what was foretold, and after one that fails."""
_FORETOLD = (0.7, 1.4)
"""Gains over what was foretold between which the curvature is believed more."""
_DISAPPOINTING = 0.25
"""The same, below which it is believed less."""
_LEAST_DAMPING = 1e-4
"""What damping is raised to after a failure, at least."""
_STEEPEST = 1e-3
"""Curvature of q's scale over that of the density, below which a step is as long as there."""


class Bowl(NamedTuple):
    """Curvature of functions of means and log scales; the first axis is over the functions."""

    hessian: Floats
    """Second derivatives by the means, in units of the scales now, shape ``(l, d, d)``."""
    growth: Floats
    """Positive second derivatives by the log scales, shape ``(l, d)``."""
    scale: Floats
    """The scales now, in units of x, shape ``(l, d)``."""

    def solve(self, vectors: Floats, damping: Floats) -> Floats:
        """Return a positive definite inverse of the damped curvature times vectors."""
        dim, damping = self.scale.shape[1], damping[:, None]
        damped = self.hessian.copy()
        damped.reshape(len(damped), -1)[:, :: dim + 1] += damping
        means = solved(damped, vectors[:, :dim] * self.scale) * self.scale
        return np.concatenate([means, vectors[:, dim:] / (self.growth + damping)], axis=1)

    def decrement(self, gradients: Floats, enough: Floats) -> Floats:
        """Return the roots of twice the gains that are still foretold, without damping.

        This is how far the optimum is, in sds. Where it is more than ``enough`` it may be rough.
        """
        dim = self.scale.shape[1]
        own = gradients[:, :dim] * self.scale
        of_scales = (np.square(gradients[:, dim:]) / self.growth).sum(axis=1)
        # No eigenvalue is larger than the size of all entries together.
        largest = np.sqrt(np.square(self.hessian).sum(axis=(1, 2)))
        of_means = np.square(own).sum(axis=1) / largest
        near = np.flatnonzero(of_means + of_scales < np.square(enough))
        if len(near):
            newton = solved(self.hessian[near], own[near])
            of_means[near] = (newton * own[near]).sum(axis=1)
        return np.asarray(np.sqrt(of_means + of_scales))

    def take(self, some: Any) -> Bowl:
        """Return those of some functions."""
        return Bowl(*(part[some] for part in self))


def bowl(coefficients: Floats, scale: Floats) -> Bowl:
    """Return the curvature of minus the ELBO.

    Parameters
    ----------
    coefficients
        Of the regression of gradients of ``-log_p`` on noise, times the scales of the gradients:
        the Hessian averaged over q in units of q's scales, shape ``(l, d, d)``.
    scale
        The scales of q, in units of x, shape ``(l, d)``.
    """
    finite = np.isfinite(coefficients).all(axis=(1, 2), keepdims=True)
    if not finite.all():
        coefficients = np.where(finite, coefficients, np.eye(scale.shape[1]))
    ratio = np.diagonal(coefficients, axis1=1, axis2=2)
    hessian = 0.5 * (coefficients + np.swapaxes(coefficients, 1, 2))
    return Bowl(hessian, growth_from(ratio, np), scale)


def growth_from(ratio: Any, numpy: Any) -> Any:
    """Return second derivatives by log scales from the precision of the density over that of q.

    The step that they lead to finds the best scale of a quadratic density at once.
    """
    change = numpy.maximum(ratio, _STEEPEST) - 1.0
    near = numpy.abs(change) < 1e-4
    return numpy.where(near, 1.0, change) / numpy.where(near, 1.0, numpy.log1p(change))


def changed_damping(damping: Any, ratio: Any, failed: Any, whole: Any, numpy: Any) -> Any:
    """Return the damping after a step, by its gain over what was foretold.

    Only one that was neither cut nor shortened, a ``whole`` one, makes it smaller.
    """
    believed = whole & (ratio > _FORETOLD[0]) & (ratio < _FORETOLD[1])
    doubted = failed | (ratio < _DISAPPOINTING)
    more = numpy.clip(_MORE * damping, _LEAST_DAMPING, DAMPING)
    return numpy.where(doubted, more, numpy.where(believed, _LESS * damping, damping))


@dataclass
class Guided(Limited):
    """What functions tell of their curvature, and what the last steps add to it."""

    bowl: Bowl
    damping: Floats

    @property
    def hessian(self) -> Floats:
        """Second derivatives by the means, in units of the scales, shape ``(l, d, d)``."""
        return self.bowl.hessian

    def look(self, told: Bowl, seen: Mask) -> None:
        if seen.all():
            self.bowl = told
        else:
            self._put_bowl(seen, told.take(seen))

    def compare(self, gain: Floats, foretold: Floats, failed: Mask, whole: Mask) -> None:
        self.damping = changed_damping(self.damping, gain / foretold, failed, whole, np)

    def size(self, gradient: Floats, enough: Floats | None = None) -> Floats:
        everything = np.full(len(gradient), np.inf)
        return self.bowl.decrement(gradient, everything if enough is None else enough)

    def excess(self, direction: Floats, longest: Floats, reach: Floats) -> Floats:
        dim = self.bowl.scale.shape[1]
        shift = np.abs(direction[:, :dim] / (self.bowl.scale * longest[:dim])).max(axis=1)
        growth = np.abs(direction[:, dim:] / longest[dim:]).max(axis=1)
        return np.maximum(shift / reach, growth / np.minimum(reach, FARTHEST_GROWTH))

    def _from_nothing(self, vectors: Floats, gradient: Floats) -> Floats:
        dim = self.bowl.scale.shape[1]
        shift = np.abs(gradient[:, :dim] * self.bowl.scale).max(axis=1)
        steepest = np.maximum(shift, np.abs(gradient[:, dim:]).max(axis=1))
        damping = np.where(steepest > STEEP, self.damping * np.sqrt(steepest), 0.0)
        return self.bowl.solve(vectors, damping)

    def take(self, some: Any) -> Guided:
        pairs = (self.steps[some], self.changes[some], self.num_pairs[some])
        return Guided(*pairs, self.bowl.take(some), self.damping[some])

    def put(self, some: Any, other: Self) -> None:
        super().put(some, other)
        self.damping[some] = other.damping
        self._put_bowl(some, other.bowl)

    def _put_bowl(self, some: Any, other: Bowl) -> None:
        for whole, part in zip(self.bowl, other, strict=True):
            whole[some] = part


@dataclass
class Ended(Memory):
    """What is left of it at the end."""

    decrement: Floats
    hessian: Floats

    def size(self, gradient: Floats, enough: Floats | None = None) -> Floats:
        return self.decrement


def guided(num_problems: int, dim: int) -> Guided:
    """Return the memory of functions of means and log scales before they have told anything."""
    steps, changes = np.zeros((2, num_problems, PAIRS, 2 * dim))
    growth, scale = np.ones((2, num_problems, dim))
    round_bowl = Bowl(np.tile(np.eye(dim), (num_problems, 1, 1)), growth, scale)
    count, damping = np.zeros(num_problems, np.int64), np.full(num_problems, DAMPING)
    return Guided(steps, changes, count, round_bowl, damping)


def solved(matrices: Floats, vectors: Floats) -> Floats:
    """Return inverses times vectors, of symmetric matrices whose pivots are made positive."""
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        lower = _factors(matrices)
        return _times_inverse(np.swapaxes(lower, 1, 2), _times_inverse(lower, vectors))
    return _times_inverse(matrices, vectors)


def _factors(matrices: Floats) -> Floats:
    """Return Cholesky factors, with pivots raised that are not positive."""
    lower = np.zeros_like(matrices)
    for j in range(matrices.shape[-1]):
        column = matrices[:, j:, j] - (lower[:, j:, :j] @ lower[:, j, :j, None])[..., 0]
        pivot = column[:, 0]
        raised = np.where(pivot > LEAST_PIVOT, pivot, np.maximum(np.abs(pivot), RAISED))
        column[:, 0] = raised
        lower[:, j:, j] = column / np.sqrt(raised)[:, None]
    return lower


def _times_inverse(matrices: Floats, vectors: Floats) -> Floats:
    return np.asarray(np.linalg.solve(matrices, vectors[..., None])[..., 0])
