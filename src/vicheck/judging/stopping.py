"""Whether more draws could change what is said of a fit: the rule by which a check stops early.

Each function asks the same question, `side_is_certain`, of a number, its error and its cut-offs.
Looking at khat to decide when to stop is a selection, and khat moves as more of the tail is seen,
so the rule asks for more than an interval that lies on one side. Its constants were chosen, and how
often it is wrong is measured, by simulation (`benchmarks/auto_draws.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from vicheck.judging.cutoffs import (
    CERTAINTY,
    COUNTING_PART,
    DRAWS_FOR_GOOD,
    DRIFT,
    ERRORS_AWAY,
    FULL_RUN,
    GOOD_BELOW,
    LEAST_DRAWS,
    MODE_GROWTH,
    MODE_SHIFT,
    SMALL_GROWTH,
    SMALL_SHIFT,
    STEADY,
    USABLE_BELOW,
)
from vicheck.results.convergence import PooledModes
from vicheck.results.psis import PsisResult, PsisStatus

__all__ = [
    "CERTAINTY",
    "DRAWS_FOR_GOOD",
    "DRIFT",
    "FULL_RUN",
    "LEAST_DRAWS",
    "STEADY",
    "estimate_is_settled",
    "level_is_settled",
    "modes_are_settled",
    "side_is_certain",
]


def side_is_certain(low: float, high: float, cutoffs: Sequence[float]) -> bool:
    """Whether all of an interval lies on the same side of each cut-off.

    Examples
    --------
    >>> side_is_certain(0.1, 0.4, [0.5, 0.7]), side_is_certain(0.4, 0.6, [0.5, 0.7])
    (True, False)
    """
    return all(high < cutoff or low >= cutoff for cutoff in cutoffs)


def level_is_settled(result: PsisResult, earlier: Sequence[float]) -> bool:
    """Whether the level that khat means will be the same with 100,000 draws.

    The interval of khat, widened by what it may drift until then, must lie on one side of 0.5 and
    of 0.7, below 0.5 only from 8000 draws on; and khat must have been steady: a tail that is not
    Pareto yet can have a khat of 4 on its way to 0.5. NaN among the ratios stays there. Equal
    ratios have a khat of 0, and whatever else leaves khat undefined may change.

    Parameters
    ----------
    result
        The PSIS of the draws that there are.
    earlier
        khat of a quarter and of half of them.
    """
    if result.status is PsisStatus.NOT_FINITE:
        return True
    if result.status is PsisStatus.CONSTANT:
        return result.num_draws >= DRAWS_FOR_GOOD
    if result.status is not PsisStatus.OK or result.num_draws < LEAST_DRAWS:
        return False
    if result.tail_fits is not None:  # more draws move the cut-off to where the tail is Pareto
        return False
    low, high = map(float, result.khat_interval(STEADY))
    if not all(low <= khat <= high for khat in earlier):
        return False
    low, high = map(float, result.khat_interval(CERTAINTY))
    drift = _drift(result.num_draws)
    certain = side_is_certain(low - drift, high + drift, (GOOD_BELOW, USABLE_BELOW))
    return certain and (result.num_draws >= DRAWS_FOR_GOOD or low >= GOOD_BELOW)


def modes_are_settled(pooled: PooledModes | None, num_draws: int) -> bool:
    """Whether more draws would say the same about modes that q may miss."""
    if pooled is None:
        return True
    if math.isnan(pooled.khat):
        return False
    error = _khat_error(pooled.khat, num_draws)
    if pooled.khat - error >= USABLE_BELOW:  # the mass does not matter then
        return True
    if pooled.khat + error >= USABLE_BELOW:
        return False
    # Errors of a mean, in sds, and of a log sd that so many draws leave; one large change decides.
    error = ERRORS_AWAY / math.sqrt(COUNTING_PART * num_draws)
    sizes = [*(abs(x) / MODE_SHIFT for x in pooled.shift.tolist()),
             *(abs(x) / MODE_GROWTH for x in pooled.growth.tolist())]  # fmt: skip
    relative = error / min(MODE_SHIFT, MODE_GROWTH)
    return max(sizes, default=0.0) - relative > 1.0 or max(sizes, default=0.0) + relative < 1.0


def estimate_is_settled(
    khat: float,
    num_draws: int,
    shift: float,
    shift_error: float,
    growth: float,
    growth_error: float,
) -> bool:
    """Whether the same estimate of a quantity would be chosen with more draws, by its weights.

    Its own khat must be on one side of the threshold with all of its error, and if it is below, the
    corrections of mean and log sd must be on one side of what makes no difference: one of them
    above, or both below. A khat that is undefined counts as settled: there is nothing to use.
    """
    if math.isnan(khat):
        return True
    error = _khat_error(khat, num_draws)
    if khat - error >= USABLE_BELOW:
        return True
    if khat + error >= USABLE_BELOW:
        return False
    moved, moved_by = abs(shift), ERRORS_AWAY * shift_error
    grown, grown_by = abs(growth), ERRORS_AWAY * growth_error
    differ = moved - moved_by >= SMALL_SHIFT or grown - grown_by >= SMALL_GROWTH
    agree = moved + moved_by < SMALL_SHIFT and grown + grown_by < SMALL_GROWTH
    return differ or agree


def _drift(num_draws: int) -> float:
    return DRIFT * max(0.0, math.log2(FULL_RUN / num_draws))


def _khat_error(khat: float, num_draws: int) -> float:
    """Return how far a khat without an interval may be from that of a full run."""
    # The standard error of khat is about (1 + k) / sqrt(M), with M = 3 sqrt(S) in the tail.
    standard_error = (1.0 + max(khat, 0.0)) / math.sqrt(3.0 * math.sqrt(num_draws))
    return ERRORS_AWAY * standard_error + _drift(num_draws)
