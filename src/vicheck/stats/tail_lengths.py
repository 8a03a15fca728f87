"""Whether the tail of the ratios is Pareto at all: the khats of several lengths have to agree.

Where p / q has a local maximum inside the bulk of q, ratios pile up just below it. A cut-off that
runs into the pile leaves exceedances that are tiny but for a few, and their khat can be anything up
to 6, however good q is. More draws move the cut-off out of the pile; so does a shorter tail.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vicheck.results.psis import PsisResult, PsisStatus
from vicheck.results.tail_fits import TailFits
from vicheck.stats.estimates import importance_log_weights
from vicheck.stats.gpd import PRIOR_SHAPE, PRIOR_WEIGHT, fit_gpd, quartile_index
from vicheck.stats.psis import psis_quietly
from vicheck.stats.tail import Tail, log_exceedances

__all__ = [
    "CONTRADICTION",
    "LARGE_MULTIPLE",
    "LEAST_OUTER",
    "SMALL_MULTIPLE",
    "judged_psis",
    "tail_fits",
]

Floats = NDArray[np.float64]

CONTRADICTION = 4.0
"""Standard errors by which the khats of two lengths differ when the tail is not Pareto."""
AGREEMENT = 2.5
"""Standard errors within which the khats of shorter tails stay, where the tail is Pareto."""
LEAST_OUTER = 20
"""Fewest ratios whose khat says something of its own: with fewer the prior decides."""
SMALL_MULTIPLE = 10.0
"""A largest ratio that is this many times the mean, or less, is no sign of a heavy tail."""
LARGE_MULTIPLE = 100.0
"""A largest ratio beyond this many times the mean makes q a bad proposal, whatever its tail is."""
SAME_RATIO = 1e-9
"""Log ratios that differ by no more than this are equal but for rounding, if their tail is tied:
they are differences of two log densities."""
_TIED = (PsisStatus.TIED_AT_CUTOFF, PsisStatus.TIED_AT_MAXIMUM)
_SHORTEST = 10
_LEAST_TAIL = 4 * _SHORTEST


def judged_psis(log_ratios: Floats, smoothed: PsisResult | None = None) -> PsisResult:
    """Return the PSIS that a check rests on: plain weights where the tail is not Pareto.

    Parameters
    ----------
    log_ratios
        ``log_p - log_q``, one vector.
    smoothed
        ``psis(log_ratios)``, if it has been computed already.

    Returns
    -------
    PsisResult
        That of `vicheck.psis`. Only where khat is not below the threshold and `tail_fits` says that
        this is no Pareto tail, the weights are those of the raw ratios and ``tail_fits`` is set;
        khat is the same in any case.
    """
    result = psis_quietly(log_ratios) if smoothed is None else smoothed
    if result.status in _TIED and float(np.ptp(log_ratios)) <= SAME_RATIO:
        return replace(result, status=PsisStatus.CONSTANT, khat=np.float64(0.0))
    if result.status is not PsisStatus.OK or result.khat < result.threshold:
        return result
    fits = tail_fits(log_ratios, result)
    if fits is None:
        return result
    log_weights = importance_log_weights(log_ratios)
    peak = float(log_ratios.max())
    with np.errstate(under="ignore"):
        ess = 1.0 / float(np.exp(2.0 * log_weights).sum())
        log_normalizer = peak + math.log(float(np.exp(log_ratios - peak).sum()))
    return replace(
        result,
        log_weights=log_weights,
        ess=ess,
        log_normalizer=log_normalizer,
        tail_fits=fits,
    )


def tail_fits(log_ratios: Floats, result: PsisResult) -> TailFits | None:
    """Fit tails of several lengths; return them if they show that the usual one is not Pareto.

    That is so when the khat of a tail of twice, half, a quarter, ... of the usual length M differs
    from that of M by more than four standard errors, and nothing says that what lies further out is
    heavy: the largest ratio is no more than ten times their mean, or a hundred times where the khat
    of the outer tail is below the threshold within its error.

    Notes
    -----
    Under a Pareto tail, khat of M ratios without its prior is efficient, so the khat of L of them
    differs from it by about (1 + k) sqrt(1/L - 1/M). How often the rule is right was measured on
    p of one to three parameters with their best Gaussian q, and on heavy tails:
    ``benchmarks/tail_shape.py``.
    """
    length = result.tail_length
    if length < _LEAST_TAIL:
        return None
    lengths = [2 * length] if 4 * length <= log_ratios.size else []
    while length >= _SHORTEST:
        lengths.append(length)
        length //= 2
    ordered = np.sort(np.partition(log_ratios, -lengths[0] - 1)[-lengths[0] - 1 :])
    khats = {each: _khat(ordered, each) for each in lengths}
    raw = {each: _without_prior(khat, each) for each, khat in khats.items()}
    usual = result.tail_length
    if not any(_apart(raw, usual, each) > CONTRADICTION for each in lengths if each != usual):
        return None
    shifted = log_ratios - ordered[-1]
    with np.errstate(under="ignore"):
        largest = 1.0 / float(np.exp(shifted).mean())
    outer = _outer_length(raw, [each for each in lengths if each < usual])
    fits = TailFits(khats, khats.get(outer, math.nan), outer, largest)
    most = LARGE_MULTIPLE if fits.low < result.threshold else SMALL_MULTIPLE
    return fits if largest <= most else None


def _khat(ordered: Floats, length: int) -> float:
    """Return khat of the largest of ordered log ratios; NaN where it is undefined."""
    values = ordered[-length:]
    tail = Tail(ordered[-length - 1], values, np.arange(length))
    if tail.cutoff == -np.inf or values[0] == values[-1]:
        return math.nan
    log_x = log_exceedances(tail)
    if log_x[quartile_index(length)] == -np.inf:
        return math.nan
    return float(fit_gpd(log_x).k)


def _without_prior(khat: float, length: int) -> float:
    return (khat * (length + PRIOR_WEIGHT) - PRIOR_SHAPE * PRIOR_WEIGHT) / length


def _apart(khats: dict[int, float], one: int, other: int) -> float:
    """Return by how many standard errors the khats of two lengths differ; 0 if one is unknown."""
    long, short = max(one, other), min(one, other)
    error = (1.0 + max(khats[long], 0.0)) * math.sqrt(1.0 / short - 1.0 / long)
    distance = abs(khats[long] - khats[short]) / error
    return 0.0 if math.isnan(distance) else distance


def _outer_length(khats: dict[int, float], lengths: list[int]) -> int:
    """Return the longest length that agrees with all shorter ones, or 0 if all are too short."""
    for place, length in enumerate(lengths):
        if length < LEAST_OUTER or math.isnan(khats[length]):
            continue
        if all(_apart(khats, length, short) <= AGREEMENT for short in lengths[place + 1 :]):
            return length
    return 0
