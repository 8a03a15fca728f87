"""The largest values of a vector, found without sorting the rest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_LINEAR_SPAN", "Tail", "log_exceedances", "select_tail"]

MAX_LINEAR_SPAN = 300.0
"""Exceedances of a tail that spans more nats than this are taken in logarithms throughout."""

Floats = NDArray[np.float64]


class Tail(NamedTuple):
    """The largest values of a vector in ascending order, and where they stand."""

    cutoff: float
    """Largest value outside the tail."""
    values: Floats
    indices: NDArray[np.intp]


def select_tail(values: Floats, tail_length: int) -> Tail:
    """Return the ``tail_length`` largest values of a vector that holds no NaN.

    Equal values keep the order of their positions. Where values tie at the cut-off, the later
    positions belong to the tail, as they would after a stable ascending sort of the whole vector.

    Examples
    --------
    >>> import numpy as np
    >>> select_tail(np.array([3.0, 9.0, 1.0, 9.0, 5.0]), 3)
    Tail(cutoff=3.0, values=array([5., 9., 9.]), indices=array([4, 1, 3]))
    """
    split = values.size - tail_length
    cutoff = np.partition(values, split - 1)[split - 1]
    indices = np.flatnonzero(values > cutoff)
    if indices.size < tail_length:
        at_cutoff = np.flatnonzero(values == cutoff)
        first = at_cutoff.size - (tail_length - indices.size)
        indices = np.sort(np.concatenate([at_cutoff[first:], indices]))
    indices = indices[np.argsort(values[indices], kind="stable")]
    return Tail(float(cutoff), values[indices], indices)


def log_exceedances(tail: Tail) -> Floats:
    """Return log(exp(value) - exp(cutoff)) of each value, -inf where it equals the cut-off."""
    values, cutoff, peak = tail.values, tail.cutoff, tail.values[-1]
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        if peak - cutoff < MAX_LINEAR_SPAN:  # the arithmetic of loo, so that roundings agree
            return np.asarray(peak + np.log(np.exp(values - peak) - np.exp(cutoff - peak)))
        return np.asarray(values + np.log(-np.expm1(cutoff - values)))
