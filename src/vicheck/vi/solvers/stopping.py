"""Stan's stopping rule: the relative changes of an ELBO along a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["relative_changes"]


def relative_changes(elbo_trace: ArrayLike, window: int) -> tuple[float, float]:
    """Return mean and median of the last relative changes of an ELBO, as Stan computes them.

    Parameters
    ----------
    elbo_trace
        ELBO at regular intervals, shape ``(n,)``.
    window
        How many changes to look at; fewer when there are not as many.

    Returns
    -------
    mean, median
        Of ``|elbo[i] - elbo[i - 1]| / |elbo[i]|``. What comes before the first ELBO is taken to be
        0, so that its change is 1; of an even number the median is the upper one. Without any
        ELBO both are NaN.

    Examples
    --------
    >>> from vicheck.vi.solvers.stopping import relative_changes
    >>> relative_changes([-200.0, -100.0, -80.0], window=2)
    (0.625, 1.0)
    """
    elbo = np.asarray(elbo_trace, np.float64)
    if elbo.ndim != 1:
        raise ValueError(f"elbo_trace must have one dimension, got shape {elbo.shape}")
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}")
    if not elbo.size:
        return np.nan, np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        changes = np.abs(np.diff(elbo, prepend=0.0) / elbo)[-window:]
    return float(changes.mean()), float(np.sort(changes)[len(changes) // 2])
