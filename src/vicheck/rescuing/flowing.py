"""A normalising flow, started from the best normal, of noise with tails as heavy as it takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vicheck.adapters.flowjax import trained_flow
from vicheck.rescuing.candidate import Candidate
from vicheck.rescuing.proposals import heavier, t_around
from vicheck.rescuing.steering import Straightened
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
    steering = Straightened(model, flow, seed)
    noise = heavier(steering, unit, split_t(steering.log_p, unit))
    q = flow.over(Students.made_of(**vars(noise)))
    return Candidate(model, q, None, candidate.code, candidate.adapted)
