"""A normal that is bent to the posterior, and a wide t beside it where ratios are still large."""

from __future__ import annotations

import numpy as np

from vicheck.model import double_precision
from vicheck.rescuing.candidate import NUM_SCREENED, Candidate, screened
from vicheck.rescuing.proposals import t_around
from vicheck.rescuing.ranking import is_promising
from vicheck.vi.families.mixture import Mixture
from vicheck.vi.families.moments import covariance_of, mean_of
from vicheck.vi.families.students import Students
from vicheck.vi.fitting import fit

__all__ = ["MOST_BENT", "bent"]

MOST_BENT = 60
"""Parameters up to which it is tried: it has about twice their square."""
_OPTIONS = {"max_draws": 512, "tolerance": 0.01, "sampling_tolerance": 0.2, "num_restarts": 0}
"""Fresh draws judge what comes of it, so the solver need not be exact, and may cost less."""
_SHARE, _WIDTH, _DF = 0.1, 1.5, 5.0
"""Of the wide t."""


def bent(candidate: Candidate, seed: int) -> Candidate:
    """Fit the family `vicheck.vi.families.bent.Bent` to the model of a candidate."""
    model = candidate.model
    found = fit(model, family="bent", num_starts=1, seed=seed, **_OPTIONS)  # type: ignore[arg-type]
    alone = Candidate(model, found.q, found, candidate.code)
    if is_promising(screened(alone, NUM_SCREENED, seed)):
        return alone
    with double_precision():
        mean, covariance = np.asarray(mean_of(found.q)), np.asarray(covariance_of(found.q))
        wide = t_around(mean, _WIDTH**2 * covariance, _DF)
        parts = np.array([1.0 - _SHARE, _SHARE])
        q = Mixture((found.q, Students.made_of(**vars(wide))), parts)  # type: ignore[arg-type]
    return Candidate(model, q, None, candidate.code)
