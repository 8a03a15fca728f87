"""What of sds is believed: chains that have mixed, or weights that work, may not know them.

Where a posterior has a tail so heavy that its variance hardly exists, or does not, chains rarely go
there and R-hat and effective draws are in order; and a proposal may end before the tail does. The
draws' own tail shows it, or the weighted draws do, which come from a proposal with heavy tails.
"""

from __future__ import annotations

import numpy as np

from vicheck.results.check import Check
from vicheck.results.reference import Reference
from vicheck.stats.psis import psis_quietly
from vicheck.stats.reliability import USABLE_BELOW

__all__ = ["doubtful_sds", "endless_sds"]

_RESAMPLED, _FEWEST = 10_000, 1000
"""Equally weighted draws whose tails are looked at: half as many as count, up to so many; fewer
tell nothing."""

_TOLERANCE = np.log(1.1)
"""By which the log sds of two witnesses may differ: as for those of short chains."""


def doubtful_sds(reference: Reference, checked: Check) -> dict[str, str]:
    """Return the quantities whose sd is not to be had from draws by NUTS, each with the reason.

    The mean of squared deviations is estimated by draws as that of any other quantity: khat of
    their largest says whether it can be, by the limit that holds for weighted estimates. And where
    the weights work, NUTS must not contradict them.
    """
    table = checked.moments
    weights_work = checked.verdict.weights_work.value == "yes"
    found: dict[str, str] = {}
    for name, draws in _scalars(reference).items():
        if name not in table.index:
            continue
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            factor = float(np.log(table.loc[name, "psis_sd"] / draws.std(ddof=1)))
        khat = _khat_of_squares(draws)
        if khat >= USABLE_BELOW:
            found[name] = f"khat of their squared deviations is {khat:.2f}"
        elif weights_work and abs(factor) > _TOLERANCE:
            found[name] = (
                f"weighted draws with a khat of {checked.khat:.2f} have one "
                f"{np.exp(factor):.2g} times as large"
            )
    return found


def endless_sds(checked: Check) -> list[str]:
    """Return the quantities of which weighted draws say that there may be no sd."""
    weights = np.exp(checked.kept_log_weights)
    if not (weights.size and np.isfinite(weights).all()):
        return []
    count = min(_RESAMPLED, int(0.5 / np.square(weights / weights.sum()).sum()))
    if not count >= _FEWEST:
        return []
    rows = np.random.default_rng(0).choice(len(weights), count, p=weights / weights.sum())
    names, values = checked.names, checked.values[rows]
    return [
        name
        for name, draws in zip(names, values.T, strict=True)
        if _khat_of_squares(draws) >= USABLE_BELOW
    ]


def _khat_of_squares(draws: np.ndarray) -> float:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        deviations = 2.0 * np.log(np.abs(draws - draws.mean()))
    return float(psis_quietly(deviations, with_weights=False).khat)


def _scalars(reference: Reference) -> dict[str, np.ndarray]:
    """Return the draws of each scalar, in the order of `Reference.rhat`."""
    flat = [each.reshape(-1, int(np.prod(each.shape[2:]))) for each in reference.draws.values()]
    columns = np.concatenate(flat, axis=1).T
    return dict(zip(reference.rhat, columns, strict=True))
