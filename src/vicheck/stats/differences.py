"""By how much weighted estimates differ from plain ones, and how well that is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Difference", "differences"]

Floats = NDArray[np.float64]

_BLOCK = 2**22
"""Numbers that are worked on at a time."""


class Difference(NamedTuple):
    """Weighted minus plain estimates of one quantity, with standard errors."""

    shift: float
    """Of the means, in sds of the weighted draws."""
    shift_error: float
    growth: float
    """Of the log sds."""
    growth_error: float


def differences(values: Floats, log_weights: Floats) -> Iterator[Difference]:
    """Compare weighted with plain means and sds of quantities, from the same draws.

    Both estimates have errors from the same draws, so their difference is known better than either:
    for equal weights it is zero, without any error. By the delta method its error is the root of a
    sum of squares over draws: of ``w (h - mean) - (h - plain mean) / S``, for the means; of ``w
    ((h - mean)^2 / sd^2 - 1) / 2 - ((h - plain mean)^2 / plain sd^2 - 1) / (2 S)``, for the log
    sds. It holds where khat is below the threshold.

    Parameters
    ----------
    values
        The quantities at each draw, shape ``(S, Q)``.
    log_weights
        Normalised log weights of the draws.

    Examples
    --------
    >>> theta = np.random.default_rng(1).normal(size=(10_000, 1))
    >>> log_ratios = 0.1 * theta[:, 0]                              # p = N(0.1, 1)
    >>> (found,) = differences(theta, vicheck.psis(log_ratios).log_weights)
    >>> abs(found.shift - 0.1) < 3 * found.shift_error < 0.02
    True
    """
    width = max(1, _BLOCK // max(1, len(values)))
    with np.errstate(all="ignore"):  # tiny weights vanish, and constants have no log sd
        weights = np.exp(log_weights)
        weightless = weights == 0.0
        for start in range(0, values.shape[1], width):
            block = values[:, start : start + width]
            yield from (
                Difference(*each) for each in _of_block(block, weights, weightless).tolist()
            )


def _of_block(h: Floats, weights: Floats, weightless: NDArray[np.bool]) -> Floats:
    """Return a row of four numbers for each quantity."""
    size, w = len(h), weights[:, None]
    mean = h.mean(axis=0)
    counted = np.where(weightless[:, None], 0.0, h)  # zero times anything is nothing
    weighted_mean = weights @ counted
    plain, weighted = h - mean, counted - weighted_mean
    plain_variance, variance = (plain**2).mean(axis=0), weights @ weighted**2
    sd = np.sqrt(variance)
    shift = (weighted_mean - mean) / sd
    # What each draw contributes to the errors of the weighted log sd, of both and of the shift.
    of_sd = 0.5 * w * (weighted**2 / variance - 1.0)
    of_sds = of_sd - 0.5 / size * (plain**2 / plain_variance - 1.0)
    of_shift = (w * weighted - plain / size) / sd - shift * of_sd
    errors = (np.sqrt((each**2).sum(axis=0)) for each in (of_shift, of_sds))
    shift_error, growth_error = errors
    growth = 0.5 * np.log(variance / plain_variance)
    found = np.stack([shift, shift_error, growth, growth_error], axis=1)
    found[h.min(axis=0) == h.max(axis=0)] = 0.0  # a constant, which rounding would give an sd
    return found
