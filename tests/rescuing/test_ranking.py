"""Which of two checks a rescue prefers."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from vicheck.rescuing.ranking import rank


def checked(level, khat, use, chains):
    """Return as much of a check as is looked at."""
    verdict = SimpleNamespace(level=level)
    moments = pd.DataFrame({"use": use})
    chains = SimpleNamespace() if chains else None
    return SimpleNamespace(
        verdict=verdict, khat=khat, moments=moments, chains=chains, kept_log_weights=np.empty(0)
    )


def test_what_chains_confirm_stands_first_and_what_they_have_seen_before_what_they_have_not():
    confirmed = checked("usable", 0.49, ["psis", "psis"], chains=True)
    unseen = checked("usable", 0.45, ["psis", "psis"], chains=False)
    rejected = checked("unreliable", 0.2, ["neither", "neither"], chains=True)
    unusable = checked("unreliable", 0.6, ["psis", "neither"], chains=False)
    assert rank(confirmed) > rank(unseen) > rank(rejected) > rank(unusable)
