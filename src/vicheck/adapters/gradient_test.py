"""What the gradient of a guide's ELBO says of the optimiser, whoever has computed it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vicheck.results.convergence import GradientTest

__all__ = ["STREAM", "TOLERANCE", "UNTESTED", "judged_gradient"]

Floats = NDArray[np.float64]

TOLERANCE = 0.1
"""As for fits of vicheck's own."""
STREAM = 7
"""Of random numbers: other draws than those that are checked."""
_NO_EFFECT = 1e-9
"""Parameters that move q by less than this part of what the others do are left out."""

UNTESTED = GradientTest(math.nan, math.nan, TOLERANCE, "", num_draws=0)
"""For a guide whose draws have no derivatives."""


def judged_gradient(
    mean: Floats, error: Floats, scale: Floats, names: tuple[str, ...], num_draws: int
) -> GradientTest:
    """Test whether an entry of a gradient exceeds the tolerance.

    Parameters
    ----------
    mean, error
        Of the gradient's entries, and their standard errors.
    scale
        By how much each parameter moves draws, in sds of q.
    names
        Of the entries.
    num_draws
        What the gradient was averaged over.
    """
    if not np.isfinite([mean, error, scale]).all():
        return GradientTest(math.nan, math.nan, TOLERANCE, "", num_draws)
    moving = scale > _NO_EFFECT * scale.max(initial=0.0)
    if not moving.any():
        return UNTESTED
    names = tuple(name for name, moves in zip(names, moving, strict=True) if moves)
    error, mean = error[moving] / scale[moving], np.abs(mean[moving]) / scale[moving]
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(mean > TOLERANCE, (mean - TOLERANCE) / error, -np.inf)
    worst = int(np.argmax(mean))
    p_value = min(1.0, mean.size * math.erfc(float(excess.max()) / math.sqrt(2.0)))
    return GradientTest(float(mean[worst]), p_value, TOLERANCE, names[worst], num_draws)
