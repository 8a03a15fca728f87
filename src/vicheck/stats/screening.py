"""Draws that are not what they seem: copies, clipped ratios, chains, densities of few digits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vicheck.results.screening import Screening
from vicheck.stats.neighbours import likeness_of_neighbours
from vicheck.stats.psis import default_tail_length, psis_quietly
from vicheck.stats.resolution import resolution_of
from vicheck.stats.swapped import are_swapped

__all__ = ["WEIGHTLESS", "screen_draws"]

Floats = NDArray[np.float64]

_DRAWS, _COLUMNS = 4096, 6
"""Draws, and quantities at most, whose neighbours are compared."""
WEIGHTLESS = 745.0
"""Nats below the largest log ratio from which on a weight is zero in double precision."""
_LEAST_CLIPPED = 5
_PLATEAU = 0.2
"""Part of the draws from which on a shared largest ratio is a plateau of p / q, not a limit."""
_ROUNDING = 8.0
"""Spacings of the larger density within which differences of the two are the same number."""
_NEXT_TO = 1e-9
"""Ratios within this of the largest, or within a thousand times its rounding, are next to it."""
_MOST_TIES = 0.1
"""Part of the other ratios that may be tied where those of the largest are due to clipping."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio."""


def screen_draws(
    log_p: Floats, log_q: Floats, values: Floats, *, may_be_swapped: bool = False
) -> Screening:
    """Look for what makes draws or densities something else than they are taken for.

    Parameters
    ----------
    log_p, log_q
        Log densities at all draws.
    values
        Quantities at the draws, or at the first of them, shape ``(S, Q)``.
    may_be_swapped
        Whether somebody has handed over the two densities, and so may have confused them.
    """
    with np.errstate(invalid="ignore"):
        log_ratios = log_p - log_q
    size = len(log_ratios)
    # Digits of densities do not matter where there is no weight, however large these are.
    weighty = ~(log_ratios < np.nanmax(log_ratios, initial=-np.inf) - WEIGHTLESS)
    kept = len(values) or size
    tail_length = min(default_tail_length(size), kept)
    tail = np.argpartition(log_ratios[:kept], kept - tail_length)[kept - tail_length :]
    quantities = values if len(values) else np.empty((size, 0))
    likeness = [
        likeness_of_neighbours(series[:_DRAWS])
        for series in (log_ratios, log_p, log_q, *values.T[:_COLUMNS])
    ]
    densities = log_p[:kept], log_q[:kept]
    tied = _are_tied(*densities)
    discrete = tied and _is_discrete(*densities, quantities)
    of_tail = log_p[tail], log_q[tail]
    swapped = may_be_swapped and are_swapped(log_p, log_q, values)
    tied_in_tail = not discrete and _are_tied(*of_tail)
    return Screening(
        num_draws=size,
        num_copies=_num_copies(*densities, quantities) if tied and not discrete else 0,
        tail_length=tail_length,
        tail_copies=_num_copies(*of_tail, quantities[tail]) if tied_in_tail else 0,
        num_clipped=_num_clipped(*densities, quantities),
        likeness=float(np.fmax.reduce(likeness)),
        resolution=max(resolution_of(each[weighty]) for each in (log_p, log_q)),
        swapped=swapped,
        swapped_khat=float(psis_quietly(-log_ratios).khat) if swapped else np.nan,
    )


def _num_copies(log_p: Floats, log_q: Floats, quantities: Floats) -> int:
    """Count draws that repeat another one in densities and quantities."""
    return len(log_p) - len(np.unique(np.column_stack([log_p, log_q, quantities]), axis=0))


def _is_discrete(log_p: Floats, log_q: Floats, quantities: Floats) -> bool:
    """Whether draws are tied because q is discrete, each value as often as its density says.

    Or because both densities are constant, and the quantities do not tell draws apart.
    """
    if log_p.min() == log_p.max() and log_q.min() == log_q.max():
        return True
    rows = np.column_stack([log_p, log_q, quantities])
    _, first, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)
    with np.errstate(over="ignore"):
        expected = len(log_p) * np.exp(log_q[first])
    return bool((np.abs(counts - expected) <= 5.0 * np.sqrt(expected) + 3.0).all())


def _are_tied(log_p: Floats, log_q: Floats) -> bool:
    """Whether so many values of both densities are equal that draws may be copies."""
    fewest = (1.0 - _MOST_TIES) * len(log_p)
    return all(
        _least_different(each) < fewest and np.unique(each).size < fewest for each in (log_p, log_q)
    )


def _least_different(numbers: Floats) -> int:
    """Return how many numbers are different at least, without sorting them.

    Their bits are scattered over some ten times as many places, of which equal numbers share one
    and a few others do by chance (multiplicative hashing, Knuth).
    """
    num_bits = len(numbers).bit_length() + 3
    bits = (numbers + 0.0).view(np.uint64)  # which makes one zero of the two
    places = (bits * _GOLDEN) >> np.uint64(64 - num_bits)
    taken = np.zeros(1 << num_bits, bool)
    taken[places] = True
    return int(np.count_nonzero(taken))


def _num_clipped(log_p: Floats, log_q: Floats, quantities: Floats) -> int:
    """Count different draws that share the largest ratio, where nothing but a limit explains it.

    To share it is to be as close as rounding leaves it when log_p is a clipped ratio plus log_q.
    Where p / q rises to a bound smoothly, ratios come next to the largest, and where it is constant
    over a region, that may be a large part of q; where it takes few values, or there are copies,
    other ratios are tied too.
    """
    with np.errstate(invalid="ignore"):
        log_ratios = log_p - log_q
        rounding = _ROUNDING * np.spacing(np.maximum(np.abs(log_p), np.abs(log_q)))
    peak = log_ratios.max()
    if not np.isfinite(peak):
        return 0
    at_peak = log_ratios >= peak - rounding
    count = int(np.count_nonzero(at_peak))
    if not _LEAST_CLIPPED <= count <= _PLATEAU * log_ratios.size:
        return 0
    next_to = np.maximum(_NEXT_TO * max(1.0, abs(peak)), 1000.0 * rounding)
    if np.count_nonzero(log_ratios > peak - next_to) > count:
        return 0
    others = log_ratios[~at_peak]
    below = np.sort(np.partition(others, -count)[-count:])
    if np.unique(below).size < (1.0 - _MOST_TIES) * count:
        return 0
    at_limit = quantities[at_peak]
    copies = at_limit.shape[1] and len(np.unique(at_limit, axis=0)) == 1
    return 0 if copies else count
