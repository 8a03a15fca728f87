"""What short chains say about an approximation."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vicheck.judging.cutoffs import (
    DRIFT_GROWTH,
    DRIFT_SHIFT,
    ENOUGH_CHAINS,
    LEAST_ACCEPTANCE,
    MOST_MEMORY,
    REJECTED_BELOW,
    STUCK,
    UNEVEN,
)
from vicheck.judging.findings import Evidence
from vicheck.judging.findings.chains import (
    ChainsAgree,
    ChainsDrift,
    ChainsDriftWeighted,
    ChainsUndecided,
)
from vicheck.results.chains import Drift, ShortChains
from vicheck.stats.drift import adjusted_beyond

__all__ = ["are_stuck", "drifting", "evidence_of_chains"]

Bools = NDArray[np.bool]


def evidence_of_chains(chains: ShortChains | None) -> list[Evidence]:
    """Return what chains show, if any were run.

    A mean has drifted when it has moved by significantly more than 0.1 sd, and an sd when it has
    changed by significantly more than 10%: the whole of its interval lies beyond, after adjustment
    for the number of quantities. That chains agree is said only if they could have disagreed.
    """
    if chains is None:
        return []
    weighted, doubt = chains.starts == "weighted", _doubt(chains)
    moved = _worst(chains, chains.from_starts)
    if moved is not None and weighted:
        return [ChainsDriftWeighted(*moved)]
    if moved is None and weighted:
        moved = _worst(chains, chains.from_q)
    if moved is not None:
        return [ChainsDrift(*moved, weights_hold=weighted and not doubt)]
    steps = chains.num_chains, chains.num_steps
    if doubt:
        return [ChainsUndecided(*steps, chains.acceptance, doubt)]
    most = int(np.nanargmax(np.abs(chains.drift)))
    error = float(np.nanmax(chains.drift_error))
    where = chains.names[most], float(chains.drift[most])
    return [ChainsAgree(*steps, chains.starts, *where, error)]


def drifting(drift: Drift, num_chains: int) -> tuple[Bools, Bools]:
    """Return which quantities have moved in mean, and which in sd, by more than is tolerated."""
    count = len(drift.shift)
    beyond = adjusted_beyond(
        np.concatenate([drift.shift, drift.growth]),
        np.concatenate([drift.shift_error, drift.growth_error]),
        np.repeat([DRIFT_SHIFT, math.log1p(DRIFT_GROWTH)], count),
        num_chains,
    )
    # Errors of sds are too small where tails are heavy: their own test must reject as well.
    at_all = np.concatenate([drift.shift_p, drift.growth_p])
    found = (beyond < REJECTED_BELOW) & (at_all < REJECTED_BELOW)
    return found[:count], found[count:]


def are_stuck(chains: ShortChains) -> bool:
    """Whether chains stay at heights of the density so different that they cannot all be right.

    Draws of a q that is far too wide lie in the basins of many modes, and chains that do not leave
    these show nothing of the posterior, of which the highest may have it all.
    """
    return chains.heights.memory > STUCK and chains.heights.variance > UNEVEN


def _worst(
    chains: ShortChains, drift: Drift
) -> tuple[int, int, str, str, float, float, int] | None:
    """Return what findings say of what has moved most, a mean if any has; None if nothing has."""
    means, sds = drifting(drift, chains.num_chains)
    if not (means.any() or sds.any()):
        return None
    of_mean = bool(means.any())
    if of_mean:
        worst = int(np.where(means, np.abs(drift.shift), 0.0).argmax())
    else:  # the surest: where tails are heavy, the largest change of an sd is that of one draw
        worst = int(np.where(sds, drift.growth_p, np.inf).argmin())
    size, error = (
        (drift.shift, drift.shift_error) if of_mean else (drift.growth, drift.growth_error)
    )
    return (
        chains.num_chains,
        chains.num_steps,
        chains.names[worst],
        "mean" if of_mean else "sd",
        float(size[worst]),
        float(error[worst]),
        int((means | sds).sum()) - 1,
    )


def _doubt(chains: ShortChains) -> str:
    """Say why chains that do not disagree do not agree either, or nothing."""
    if chains.num_chains < ENOUGH_CHAINS:
        total = chains.num_chains + chains.num_left_out
        return f"only {chains.num_chains} of {total} starts have a finite density and gradient"
    if not chains.acceptance >= LEAST_ACCEPTANCE:
        return f"only {chains.acceptance:.0%} of their steps are accepted"
    if are_stuck(chains):
        return "they stay at different heights of the density, as if in modes of different mass"
    return _doubt_of_numbers(chains)


def _doubt_of_numbers(chains: ShortChains) -> str:
    """Say why chains that have gone somewhere could not have shown a drift, or nothing."""
    if np.isnan(chains.drift).all():
        return "no quantity is finite at all starts and ends"
    error = float(np.nanmax(chains.drift_error))
    if error > DRIFT_SHIFT:
        return (
            f"with {chains.num_chains} chains, the drift of a mean has an error of {error:.2g} sd"
        )
    slowest = int(np.nanargmax(np.where(np.isnan(chains.rhat), -np.inf, chains.rhat)))
    if chains.rhat[slowest] > MOST_MEMORY:
        return (
            f"{chains.names[slowest]} has hardly moved in {chains.num_steps} steps (nested R-hat "
            f"{chains.rhat[slowest]:.2g})"
        )
    return ""
