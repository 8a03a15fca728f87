"""What a chart offers: members of a family around anchors, described by steps away from them."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from vicheck.vi.families.family import Family
from vicheck.vi.guided import Bowl

__all__ = ["Chart"]

Floats = NDArray[np.float64]


class Chart(abc.ABC):
    """Members of a family around anchors, one anchor for each of several fits.

    A step from an anchor is measured in its standard deviations, as `Family.displaced` says; all
    arrays have a leading axis over the fits. What is differentiated here is all that a solver needs
    to know of a family.
    """

    step_dim: int
    """How many numbers describe a step."""
    num_shifts: int
    """How many of them, the first ones, move q without changing its shape."""
    is_corrected: ClassVar[bool] = False
    """Whether there is a `correction`."""

    tells_curvature: ClassVar[bool] = False
    """Whether there is a `curvature`."""

    @abc.abstractmethod
    def draws(self, steps: Floats, noise: Floats) -> Floats:
        """Return draws, shape ``(l, n, d)``, of members ``steps`` away, made of noise."""

    @abc.abstractmethod
    def pull_back(self, steps: Floats, noise: Floats, gradients: Floats) -> Floats:
        """Return the derivative by the steps, shape ``(l, p)``, of the mean of some function.

        ``gradients``, shape ``(l, n, d)``, are those of the function at the draws.
        """

    @abc.abstractmethod
    def entropy(self, steps: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return entropies, shape ``(l,)``, and their derivatives; estimated where need be."""

    @abc.abstractmethod
    def scores(self, noise: Floats, draws: Floats) -> Floats:
        """Return the gradients of log q of the anchors at their draws, shape ``(l, n, d)``."""

    @abc.abstractmethod
    def anchors_and_directions(self) -> tuple[Family, Floats]:
        """Return the anchors, and what `Family.displaced` takes steps along, for each of them."""

    @abc.abstractmethod
    def members(self, steps: Floats) -> Family:
        """Return the members ``steps`` away, with a leading axis over them."""

    @abc.abstractmethod
    def mean_and_sd(self, steps: Floats) -> tuple[Floats, Floats]:
        """Return means and sds of the members ``steps`` away."""

    @abc.abstractmethod
    def take(self, which: Any) -> Self:
        """Return the chart of some of the fits."""

    def objective(
        self,
        steps: Floats,
        noise: Floats,
        evaluate: Callable[[Floats], tuple[Floats, Floats]],
    ) -> tuple[Floats, Floats]:
        """Return minus the ELBO of members ``steps`` away, shape ``(l,)``, and its gradient.

        ``evaluate`` returns log densities and gradients at draws, and is called once. A chart of a
        small family overrides it where that saves work.
        """
        log_p, gradients = evaluate(self.draws(steps, noise))
        entropy, slope = self.entropy(steps, noise)
        value = -log_p.mean(axis=1) - entropy
        return value, -self.pull_back(steps, noise, gradients) - slope

    def repeated(self, count: int) -> Chart:
        """Return a chart of several fits with the same anchor, from a chart of one."""
        return self.take(np.zeros(count, np.intp))

    def pulled_moments(self, half: Floats, slopes: Floats) -> tuple[Floats, Floats]:
        """Return sum and sum of squares, over antithetic pairs, of what each pair pulls back.

        For a chart of one fit. ``half`` is noise, shape ``(n, k)``, and ``slopes``, shape
        ``(2, n, d)``, are gradients at its draws and at those of its negative. The average over a
        pair is one independent observation.
        """
        pairs = np.stack([half, -half], axis=1)
        still = np.zeros((len(half), self.step_dim))
        each = self.repeated(len(half)).pull_back(still, pairs, np.swapaxes(slopes, 0, 1))
        return each.sum(axis=0), np.square(each).sum(axis=0)

    def correction(self, steps: Floats, excess: Floats) -> tuple[Floats, Floats]:
        """Return what makes the mean of a quadratic function over the noise its expectation.

        Only where the chart `is_corrected`.

        Parameters
        ----------
        steps
            Steps from the anchors.
        excess
            Hessian of the function, shape ``(l, d, d)``, times the identity minus the second
            moments of the noise, entry by entry: zero if the moments were exact.

        Returns
        -------
        tuple
            The expectation minus the mean, shape ``(l,)``, and its derivative by the steps; far
            from the anchors it stays what it is on the way there.
        """
        raise NotImplementedError

    def curvature(self, steps: Floats, coefficients: Floats) -> Bowl:
        """Return the curvature of minus the ELBO some steps away.

        Only where the chart `tells_curvature`, and its steps are in units of scales.

        Parameters
        ----------
        steps
            Steps from the anchors.
        coefficients
            Of the regression of gradients of ``-log_p`` at draws on their noise, shape
            ``(l, d, d)``.
        """
        raise NotImplementedError
