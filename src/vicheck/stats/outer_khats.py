"""khat of a quantity further out, where its usual tail is not Pareto.

The products (h - center) r of a quantity have maxima inside the bulk of q as the ratios have
(`vicheck.stats.tail_lengths`), and a cut-off that runs into one gives any khat.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vicheck.results.psis import PsisStatus
from vicheck.stats.psis import psis_quietly
from vicheck.stats.tail_lengths import tail_fits

__all__ = ["khats_further_out"]

Floats = NDArray[np.float64]


def khats_further_out(
    khats: Floats, deviations: Floats, log_ratios: Floats, threshold: float
) -> Floats:
    """Return khats of products of deviations and ratios, mended where their tails are not Pareto.

    Parameters
    ----------
    khats
        Those of the usual tails; the ones below the threshold stay as they are.
    deviations
        ``h - center`` of each quantity, shape ``(S, Q)``.
    log_ratios
        Log importance ratios.
    threshold
        Of khat.

    Returns
    -------
    NDArray
        Where tails of several lengths contradict each other, and nothing says that what lies
        further out is heavy: the khat further out, less its standard error. This is for ratios
        whose own khat is low; of a single quantity it is enough that nothing contradicts that.

    Examples
    --------
    Ratios that are bounded, of a q that is a little wider than p in the middle and in the tails:

    >>> x = 1.2 * np.random.default_rng(4).normal(size=20_000)
    >>> log_ratios = -15.5 * np.log1p(x**2 / 30) + x**2 / 2.88
    >>> khat = np.array([vicheck.khat_of(x, log_ratios)])
    >>> outer = khats_further_out(khat, x[:, None], log_ratios, 0.7)
    >>> bool(khat[0] > 2.0), bool(outer[0] < 0.7)
    (True, True)
    """
    found = khats.copy()
    for place in np.flatnonzero(khats >= threshold):
        sides = [
            khat
            for sign in (1.0, -1.0)
            if not np.isnan(khat := _of_side(sign * deviations[:, place], log_ratios, threshold))
        ]
        found[place] = max(sides, default=khats[place])
    return found


def _of_side(deviations: Floats, log_ratios: Floats, threshold: float) -> float:
    """Return khat of the products above zero, or NaN where they have none."""
    log_size = np.full(len(deviations), -np.inf)
    above = np.flatnonzero(deviations > 0.0)
    log_size[above] = np.log(deviations[above]) + log_ratios[above]
    result = psis_quietly(log_size, with_weights=False)
    if result.status is not PsisStatus.OK:
        return np.nan
    khat = float(result.khat)
    if khat < threshold:
        return khat
    fits = tail_fits(log_size, result)
    return khat if fits is None or np.isnan(fits.low) else fits.low
