"""Which estimate of a mean and of an sd may be used, by all witnesses together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicheck.judging.chains import are_stuck
from vicheck.judging.cutoffs import (
    ANOTHER_PART,
    DRIFT_GROWTH,
    DRIFT_SHIFT,
    ENOUGH_CHAINS,
    ENOUGH_STEPS,
    ERRORS_AWAY,
    FORGOTTEN,
    LEAST_ACCEPTANCE,
    LEVEL_ERRORS,
    MOST_COUNT,
    NO_MEAN,
    REJECTED_BELOW,
    SETTLED,
    SMALL_GROWTH,
    SMALL_SHIFT,
)
from vicheck.judging.findings import Evidence
from vicheck.judging.findings.plain import NotAllUsable
from vicheck.results.chains import Drift, ShortChains

__all__ = [
    "ORDER",
    "Use",
    "Witnesses",
    "choose_mean",
    "choose_sd",
    "evidence_of_estimates",
    "weaker",
]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Use = Literal["vi", "psis", "neither"]

ORDER: dict[str, int] = {"neither": 0, "psis": 1, "vi": 2}
"""From nothing to the plain estimate."""


_TOLERANCE = float(np.log1p(DRIFT_GROWTH))
"""Growth of a log sd along chains that is tolerated."""


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
    shift_error: Floats
    """NaN where it is not known."""
    growth: Floats
    """By which they correct the log sd."""
    growth_error: Floats
    """NaN where it is not known."""
    joint_khat: float
    effective: float
    """Share of the draws that count after weighting."""
    weights_work: bool
    """Whether the joint khat, the effective draws and the draws themselves allow for weights."""
    spoilt: Bools
    """Whether another mode changes a quantity, or may do so."""
    converged: bool
    """Whether q is known to be an optimum."""
    chains: ShortChains | None


def choose_mean(known: Witnesses) -> list[Use]:
    """Choose an estimate of each mean.

    Where the weights work, jointly and for this quantity, the weighted mean is right, and the plain
    one will do when both agree. If its own khat is not low enough, chains from weighted draws that
    stay where these are say the same. Elsewhere only chains from q can tell: when they stay, its
    mean is right under a bad joint. Where they have left q in the mean of anything else, they are
    believed only if they have arrived (`_have_arrived`): in a funnel they move on and on, and what
    depends on tau follows later. Nor are they believed in a mean that spreads slowly (`_creeps`),
    or that even bad weights contradict (`_weights_contradict`).
    """
    seen = _by_chains(known, of_sd=False)
    return _choose(known, known.khat, np.abs(known.shift) < SMALL_SHIFT, seen)


def choose_sd(known: Witnesses) -> list[Use]:
    """Choose an estimate of each sd, likewise, by the khat of its own.

    Chains from q vouch for its sds only if nothing says that they see a part of the posterior: the
    weights, as bad as they are, must not contradict them, and must not be of two populations. Their
    own sds are never recommended: along a ridge or into heavy tails they grow on and on, whatever
    R-hat says.
    """
    seen = _by_chains(known, of_sd=True)
    return _choose(known, known.khat_sd, ~(np.abs(known.growth) >= SMALL_GROWTH), seen)


def weaker(one: Use, other: Use) -> Use:
    """Return the one of two that claims less."""
    return min(one, other, key=ORDER.__getitem__)


def evidence_of_estimates(
    names: Sequence[str],
    means: Sequence[str],
    sds: Sequence[str],
    khats: tuple[Floats, Floats],
    threshold: float,
) -> list[Evidence]:
    """Say whether the weights fail for single quantities, though they work for the joint.

    A level promises all of the numbers, so it follows from the table of what may be used of each.

    Parameters
    ----------
    names
        The quantities.
    means, sds
        What may be used of each.
    khats
        Those that govern the means, and those that govern the sds.
    threshold
        Below which they must lie.
    """
    refused = np.array([means, sds]) == "neither"
    if not refused.any():
        return []
    sizes = np.where(refused, np.nan_to_num(np.stack(khats), nan=np.inf), -np.inf)
    of_sd, worst = divmod(int(sizes.argmax()), len(names))
    which, khat = ("sd" if of_sd else "mean"), float(khats[of_sd][worst])
    num_means, num_sds = (int(each.sum()) for each in refused)
    numbers = khat, threshold, num_means, num_sds, len(names)
    return [NotAllUsable(names[worst], which, *numbers)]


class _Seen(NamedTuple):
    """What chains say about each quantity."""

    stay: Bools
    """They stay with q, and there is nothing to say that they see a part only."""
    confirm: Bools
    """They stay with the weighted draws they began at."""
    contradict: Bools
    """They leave the weighted draws they began at."""


def _choose(known: Witnesses, khat: Floats, agree: Bools, seen: _Seen) -> list[Use]:
    low = known.weights_work & (khat < known.threshold)
    weighted = (low | known.weights_work & seen.confirm) & ~seen.contradict
    chosen = np.select(
        [known.spoilt, weighted & agree, weighted, ~low & seen.stay],
        ["neither", "vi", "psis", "vi"],
        "neither",
    )
    return list(chosen.tolist())


def _by_chains(known: Witnesses, of_sd: bool) -> _Seen:
    chains, no = known.chains, np.zeros(len(known.khat), bool)
    if chains is None or chains.num_chains < ENOUGH_CHAINS:
        return _Seen(no, no, no)
    if not chains.acceptance >= LEAST_ACCEPTANCE or are_stuck(chains):
        return _Seen(no, no, no)
    still, confirm, contradict = _stays(chains.from_q, chains.rhat, of_sd), no, no
    still = still & ~_weights_contradict(known, chains, of_sd)
    moved = _has_moved(chains.from_q, chains.rhat, of_sd=False).any()
    if of_sd:
        moved = moved or _has_moved(chains.from_q, chains.rhat, of_sd=True).any()
    elif not known.converged:
        still = still & ~_creeps(chains)
    if moved and not _have_arrived(chains):
        still = no
    if chains.starts == "weighted":
        confirm = _stays(chains.from_starts, chains.rhat, of_sd)
        contradict = _has_moved(chains.from_starts, chains.rhat, of_sd)
    return _Seen(still, confirm, contradict)


def _weights_contradict(known: Witnesses, chains: ShortChains, of_sd: bool) -> Bools:
    """Say what even bad weights contradict of q, although chains confirm it.

    Where the posterior has a narrow and a wide part, chains stay in the one where they began, or
    take long to the other. If both parts have the same centre, no mean moves, and sds alone are in
    question. If most draws of q count and any mean moves at all, the centres differ, and where the
    rest lies is not known.

    A mean is contradicted only if q is not known to be an optimum, and if many draws count: bad
    weights see one side of a funnel, and the mean of the optimum may be right nonetheless.
    """
    many = known.effective > ANOTHER_PART
    if many and known.joint_khat >= NO_MEAN:
        moves = np.nanmin(chains.from_q.shift_p, initial=1.0) < REJECTED_BELOW
        if of_sd or (moves and known.effective > MOST_COUNT):
            return np.ones(len(known.khat), bool)
    with np.errstate(invalid="ignore"):
        if of_sd:
            return np.abs(known.growth) - ERRORS_AWAY * known.growth_error > _TOLERANCE
        beyond = np.abs(known.shift) - ERRORS_AWAY * known.shift_error > DRIFT_SHIFT
    return beyond & (many and not known.converged)


def _have_arrived(chains: ShortChains) -> bool:
    """Whether chains that have left q are where they would stay.

    Nothing moves any more from their middle to their end; and what has moved began at least as wide
    as it ended, or they have forgotten where they began. Starts that are too narrow are no test by
    themselves: chains that spread into the neck of a funnel can seem to stand still. There, what
    they have reached in the middle still shows at their end, in the log density above all.
    """
    if chains.num_steps < ENOUGH_STEPS:
        return False
    late, began = chains.settling, chains.from_q
    with np.errstate(invalid="ignore"):
        moving = (np.abs(late.shift) > np.maximum(SETTLED, ERRORS_AWAY * late.shift_error)) | (
            np.abs(late.growth) > np.maximum(SETTLED, ERRORS_AWAY * late.growth_error)
        )
        narrow = began.growth > _TOLERANCE
    if moving.any():
        return False
    spread = _has_moved(began, chains.rhat, of_sd=False) & narrow
    return not spread.any() or _have_forgotten(chains)


def _have_forgotten(chains: ShortChains) -> bool:
    """Whether neither quantities nor the log density depend on what they were in the middle."""
    heights = chains.heights
    level = abs(heights.shift) <= max(SETTLED, LEVEL_ERRORS * heights.shift_error)
    return level and heights.memory <= FORGOTTEN and bool((chains.memory <= FORGOTTEN).all())


def _creeps(chains: ShortChains) -> Bools:
    """Say what spreads from q so slowly that a mean which is off has hardly begun to move.

    Along a direction in which q is much too narrow, chains take small steps. The mean of an optimum
    is not off there for that reason; that of a q which was left on its way may be anywhere.
    """
    spreads = _has_moved(chains.from_q, chains.rhat, of_sd=True)
    return spreads & (chains.from_q.growth > 0.0) & ~(chains.memory <= FORGOTTEN)


def _stays(drift: Drift, rhat: Floats, of_sd: bool) -> Bools:
    """Say what is right as far as chains see: an sd for sure, a mean more likely than not."""
    size, error = _projected(drift, rhat, of_sd)
    with np.errstate(invalid="ignore"):
        if of_sd:
            return np.asarray(size + error <= _TOLERANCE)
        return np.asarray((size <= DRIFT_SHIFT) & (size + error <= 1.5 * DRIFT_SHIFT))


def _has_moved(drift: Drift, rhat: Floats, of_sd: bool) -> Bools:
    """Say what is off for sure."""
    size, error = _projected(drift, rhat, of_sd)
    with np.errstate(invalid="ignore"):
        return np.asarray(size - ERRORS_AWAY * error > (_TOLERANCE if of_sd else DRIFT_SHIFT))


def _projected(drift: Drift, rhat: Floats, of_sd: bool) -> tuple[Floats, Floats]:
    """Return how far chains would have gone, and its error, had they forgotten where they began.

    They have covered a part 1 - c of the way, c being the correlation of ends with starts, of which
    nested R-hat is a measure: its square is 1 / (1 - c^2).
    """
    size, error = (drift.growth, drift.growth_error) if of_sd else (drift.shift, drift.shift_error)
    with np.errstate(invalid="ignore", divide="ignore"):
        way = 1.0 - np.sqrt(np.maximum(0.0, 1.0 - 1.0 / np.square(np.maximum(rhat, 1.0))))
        return np.abs(size) / way, error / way
