"""A normal that is bent to the posterior."""

from __future__ import annotations

from vicheck.rescuing.candidate import Candidate
from vicheck.vi.fitting import fit

__all__ = ["MOST_BENT", "bent"]

MOST_BENT = 20
"""Parameters up to which it is tried: with 27 it took as many gradients as NUTS, for khat 0.6."""
_OPTIONS = {"max_draws": 256, "tolerance": 0.03, "sampling_tolerance": 0.2, "num_restarts": 0}
"""Fresh draws judge what comes of it, so the solver need not be exact, and may cost less."""


def bent(candidate: Candidate, seed: int) -> Candidate:
    """Fit the family `vicheck.vi.families.bent.Bent` to the model of a candidate."""
    model = candidate.model
    found = fit(model, family="bent", num_starts=1, seed=seed, **_OPTIONS)  # type: ignore[arg-type]
    return Candidate(model, found.q, found, candidate.code)
