"""A normalising flow, started from the best normal, of noise with tails as heavy as it takes."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from vicheck.adapters.flowjax import Flow, mapped_rows, trained_flow
from vicheck.model import Model
from vicheck.rescuing.candidate import Candidate
from vicheck.rescuing.proposals import heavier, t_around
from vicheck.rescuing.steering import Steering
from vicheck.stats.split_t import split_t
from vicheck.vi.families.students import Students

__all__ = ["flowing"]

Floats = NDArray[np.float64]


def flowing(candidate: Candidate, mean: Floats, covariance: Floats, seed: int) -> Candidate:
    """Train a flow by the ELBO, and then choose the noise that it is drawn from.

    The ELBO leaves tails that are too light. In the coordinates that the flow has straightened the
    posterior is nearly a normal, so that one t, which may be split, is enough there.
    """
    model = candidate.model
    unit = t_around(np.zeros(model.dim), np.eye(model.dim))
    base, root = Students.made_of(**vars(unit)), np.asarray(np.linalg.cholesky(covariance))
    flow = trained_flow(model, mean, root, base, seed)
    steering = _Straightened(model, flow, seed)
    noise = heavier(steering, unit, split_t(steering.log_p, unit))
    q = flow.over(Students.made_of(**vars(noise)))
    return Candidate(model, q, None, candidate.code, candidate.adapted)


class _Straightened(Steering):
    """The log density of a model in the coordinates in which a flow is the identity."""

    def __init__(self, model: Model, flow: Flow, seed: int) -> None:
        super().__init__(model, seed)
        self._mapped = partial(mapped_rows, flow)

    def log_p(self, z: Floats) -> Floats:
        """Return log densities at rows of the flow's noise."""
        mapped, log_det = self._mapped(z)
        return super().log_p(mapped) + log_det
