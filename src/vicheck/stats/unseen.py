"""What lies beyond the largest ratio: the part of a weighted mean that no draw has seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["error_with_tail", "unseen_multiple"]

Floats = NDArray[np.float64]

_ERRORS = 3.0
"""Standard errors that are added to khat. Over many repetitions the tail is as often heavier as
lighter than khat says, but only where it is heavier something is missed; and where khat came out
low by chance, so did the largest ratio."""
_GROWTH = 0.5
"""Part of khat that it may rise by further out: tails are seldom Pareto all along."""
_MOST = 0.9
"""The largest k that is reckoned with: at 1 the mean itself would be infinite."""


def unseen_multiple(khat: ArrayLike, tail_length: ArrayLike) -> Any:
    """Return how many times the largest term of a sum is missing from it, as far as khat knows.

    A Pareto tail of shape k has a mean excess that grows in proportion 1 / (1 - k): the terms
    beyond the largest of S draws are worth 1 / (1 - k) of that largest term, on average. k is
    taken three standard errors (1 + k) / sqrt(M) or half of itself above khat, whichever is more,
    and between 0 and 0.9. NaN where khat is.

    Examples
    --------
    >>> unseen_multiple([-1.0, 0.0, 0.5], 900).round(2)
    array([1.  , 1.11, 4.  ])
    """
    k = np.asarray(khat, np.float64)
    error = (1.0 + np.maximum(k, 0.0)) / np.sqrt(tail_length)
    higher = k + np.maximum(_ERRORS * error, _GROWTH * k)
    multiple = 1.0 / (1.0 - np.clip(higher, 0.0, _MOST))
    return multiple.item() if multiple.ndim == 0 else multiple


def error_with_tail(
    mcse: ArrayLike, imbalance: ArrayLike, khat: ArrayLike, tail_length: ArrayLike
) -> Any:
    """Return the standard error of a weighted mean, with what the largest weights may hide.

    Parameters
    ----------
    mcse
        Its error by the delta method, from the draws that there are.
    imbalance
        The largest positive contribution of a single draw to the weighted mean, less the largest
        negative one: what two tails of the same weight hide cancels.
    khat
        That of the contributions.
    tail_length
        The number of draws it was estimated from.
    """
    return np.hypot(mcse, unseen_multiple(khat, tail_length) * np.asarray(imbalance))
