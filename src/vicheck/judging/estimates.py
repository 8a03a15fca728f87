"""Which estimate of a mean and of an sd may be used, by all witnesses together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from vicheck.judging.cutoffs import (
    DRIFT_GROWTH,
    DRIFT_SHIFT,
    ENOUGH_CHAINS,
    LEAST_ACCEPTANCE,
    SMALL_GROWTH,
    SMALL_SHIFT,
)
from vicheck.results.chains import Drift, ShortChains

__all__ = ["ORDER", "Use", "Witnesses", "choose_mean", "choose_sd", "weaker"]

Floats = NDArray[np.float64]
Use = Literal["vi", "psis", "neither"]

ORDER: dict[str, int] = {"neither": 0, "psis": 1, "vi": 2}
"""From nothing to the plain estimate."""


@dataclass(frozen=True)
class Witnesses:
    """What is known of the estimates of all quantities; arrays have one entry for each."""

    khat: Floats
    """Of (h - mean) r, which governs the weighted mean."""
    khat_sd: Floats
    """Of ((h - mean)^2 - variance) r, which governs the weighted sd."""
    threshold: float
    shift: Floats
    """By which the weights correct the mean, in sds."""
    growth: Floats
    """By which they correct the log sd."""
    weights_work: bool
    """Whether the joint khat, the effective draws and the draws themselves allow for weights."""
    spoilt: NDArray[np.bool_]
    """Whether another mode changes a quantity, or may do so."""
    chains: ShortChains | None


def choose_mean(known: Witnesses) -> list[Use]:
    """Choose an estimate of each mean.

    Where the weights work, jointly and for this quantity, the weighted mean is right, and the plain
    one will do when both agree. Elsewhere only short chains can tell: when they stay where q is,
    its mean is right under a bad joint. When the mean of anything moves, nothing is known but a
    bound of its error: in a funnel chains move on and on, and what depends on tau follows later.
    """
    weighted = known.weights_work & (known.khat < known.threshold)
    return _choose(known, weighted, np.abs(known.shift) < SMALL_SHIFT, of_sd=False)


def choose_sd(known: Witnesses) -> list[Use]:
    """Choose an estimate of each sd, likewise, by the khat of its own.

    Chains stay only if no sd of anything has grown or shrunk. Their own sds are never recommended:
    along a ridge or into heavy tails they grow on and on, whatever R-hat says.
    """
    weighted = known.weights_work & (known.khat_sd < known.threshold)
    return _choose(known, weighted, ~(np.abs(known.growth) >= SMALL_GROWTH), of_sd=True)


def weaker(one: Use, other: Use) -> Use:
    """Return the one of two that claims less."""
    return min(one, other, key=ORDER.__getitem__)


def _choose(
    known: Witnesses, weighted: NDArray[np.bool_], agree: NDArray[np.bool_], of_sd: bool
) -> list[Use]:
    stay, contradict = _by_chains(known.chains, len(known.khat), of_sd)
    trusted = weighted & ~contradict
    chosen = np.select(
        [known.spoilt, trusted & agree, trusted, ~weighted & stay],
        ["neither", "vi", "psis", "vi"],
        "neither",
    )
    return list(chosen.tolist())


def _by_chains(
    chains: ShortChains | None, count: int, of_sd: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say where chains stay with q, and where they contradict the weights."""
    no = np.zeros(count, bool)
    if chains is None or chains.num_chains < ENOUGH_CHAINS:
        return no, no
    if not chains.acceptance >= LEAST_ACCEPTANCE:
        return no, no
    tolerance = np.log1p(DRIFT_GROWTH) if of_sd else DRIFT_SHIFT
    size, error = _projected(chains.from_q, chains.rhat, of_sd)
    with np.errstate(invalid="ignore"):
        stay = (size <= tolerance) & (size + error <= 1.5 * tolerance)
    if _still_move(chains, of_sd=False) or (of_sd and _still_move(chains, of_sd=True)):
        stay = no
    contradict = no
    if chains.starts == "weighted":
        size, error = _projected(chains.from_starts, chains.rhat, of_sd)
        contradict = np.asarray(size - 3.0 * error > tolerance)
    return stay, contradict


def _still_move(chains: ShortChains, of_sd: bool) -> bool:
    """Whether the mean, or sd, of something has left q for sure, so that others may follow."""
    size, error = _projected(chains.from_q, chains.rhat, of_sd)
    tolerance = np.log1p(DRIFT_GROWTH) if of_sd else DRIFT_SHIFT
    with np.errstate(invalid="ignore"):
        return bool((size - 3.0 * error > tolerance).any())


def _projected(drift: Drift, rhat: Floats, of_sd: bool) -> tuple[Floats, Floats]:
    """Return how far chains would have gone, and its error, had they forgotten where they began.

    They have covered a part 1 - c of the way, c being the correlation of ends with starts, of which
    nested R-hat is a measure: its square is 1 / (1 - c^2).
    """
    size, error = (drift.growth, drift.growth_error) if of_sd else (drift.shift, drift.shift_error)
    with np.errstate(invalid="ignore", divide="ignore"):
        way = 1.0 - np.sqrt(np.maximum(0.0, 1.0 - 1.0 / np.square(np.maximum(rhat, 1.0))))
        return np.abs(size) / way, error / way
