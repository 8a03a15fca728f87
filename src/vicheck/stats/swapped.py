"""Whether log_p and log_q were given the wrong way round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["are_swapped"]

Floats = NDArray[np.float64]

_DRAWS, _MOST_COLUMNS = 4096, 200
"""Draws, and quantities at most, that are looked at."""
_FEWEST, _DRAWS_FOR_EACH = 400, 20
"""Draws at least, and for each column: with fewer their covariance is not known well enough."""
_LIKE_NORMAL = 0.4
"""How far the variance of a normal's log density may be from half its dimension."""
_ALIKE, _UNLIKE = 0.25, 0.5
"""How far the logarithm of a density may be from that of the draws to be taken for it, and how far
it must be not to be, in sds of the latter."""


def are_swapped(log_p: Floats, log_q: Floats, values: Floats) -> bool:
    """Whether ``log_p`` is seen to be the density of the draws, and ``log_q`` is not.

    Draws come from q. Where that is a normal in the columns as they are, or in the logarithms of
    positive ones and the logits of those within (0, 1), its density is known from the draws' own
    mean and covariance: exact up to the error of these. Of any other q, and of columns beside the
    parameters, nothing is known and nothing suspected.

    Parameters
    ----------
    log_p, log_q
        Log densities of all draws.
    values
        Quantities at the draws, or at the first of them, shape ``(S, Q)``.
    """
    size = min(len(values), _DRAWS)
    if size < _FEWEST or not 0 < values.shape[1] <= min(_MOST_COLUMNS, size // _DRAWS_FOR_EACH):
        return False
    seen, p, q = values[:size], log_p[:size], log_q[:size]
    if not (np.isfinite(seen).all() and np.isfinite(p).all() and np.isfinite(q).all()):
        return False
    own = [_log_normal(columns) for columns in (seen, _unconstrained(seen))]
    own = [each for each in own if each.size]
    if not own:
        return False
    spread = [float(np.std(each)) for each in own]

    def distance(log_density: Floats, centred: bool) -> float:
        away = [log_density - each for each in own]
        if centred:  # the constant may be missing
            away = [each - each.mean() for each in away]
        return min(
            float(np.sqrt(np.mean(each**2))) / sd for each, sd in zip(away, spread, strict=True)
        )

    return any(
        distance(p, centred) < _ALIKE and distance(q, centred) > _UNLIKE
        for centred in (False, True)
    )


def _log_normal(columns: Floats) -> Floats:
    """Return the log density of the draws by their own mean and covariance.

    Nothing where they are seen not to be normal.
    """
    centred = columns - columns.mean(axis=0)
    _, singular, directions = np.linalg.svd(centred, full_matrices=False)
    sds = singular / np.sqrt(len(columns) - 1)
    kept = sds > 1e-9 * sds.max(initial=0.0)
    dim = int(kept.sum())
    halves = 0.5 * np.square(centred @ directions[kept].T / sds[kept]).sum(axis=1)
    if not dim or abs(np.var(halves) / (0.5 * dim) - 1.0) > _LIKE_NORMAL:
        return np.empty(0)
    return np.asarray(-halves - np.log(sds[kept]).sum() - 0.5 * dim * np.log(2.0 * np.pi))


def _unconstrained(columns: Floats) -> Floats:
    """Take logarithms of columns that are positive, and logits of those within (0, 1)."""
    columns = columns.copy()
    positive = (columns > 0.0).all(axis=0)
    unit = positive & (columns < 1.0).all(axis=0)
    columns[:, unit] /= 1.0 - columns[:, unit]
    columns[:, positive] = np.log(columns[:, positive])
    return columns
