"""Mean and sd of every quantity by plain VI, importance sampling and PSIS, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vicheck.judging import choose_estimate, drifting
from vicheck.results.chains import ShortChains
from vicheck.results.psis import PsisResult
from vicheck.stats.estimates import importance_log_weights, plain_log_weights
from vicheck.stats.moments import Moments, weighted_moments
from vicheck.stats.unseen import error_with_tail

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "moments_table", "unknown_moments", "with_drift", "worst_first"]

Floats = NDArray[np.float64]

COLUMNS = (
    "vi_mean", "vi_sd", "is_mean", "is_sd", "psis_mean", "psis_sd", "mcse", "shift", "khat", "use",
)  # fmt: skip


def moments_table(
    values: Floats, log_ratios: Floats, smoothed: PsisResult, names: tuple[str, ...]
) -> pd.DataFrame:
    """Return a row for each quantity; ``values`` has shape ``(S, Q)``.

    ``smoothed`` is the PSIS of the log ratios. ``mcse`` is that of ``psis_mean``, infinite where
    the mean may be so. ``shift`` is PSIS minus VI in sds of the posterior.
    """
    import pandas as pd

    ways = {
        "vi": plain_log_weights(len(values)),
        "is": importance_log_weights(log_ratios),
        "psis": smoothed.log_weights,
    }
    moments = weighted_moments(values, tuple(ways.values()), log_ratios)
    columns: dict[str, Floats] = {"mcse": _errors(moments, smoothed), "khat": moments.khat}
    for way, mean, sd in zip(ways, moments.mean, moments.sd, strict=True):
        columns |= {f"{way}_mean": mean, f"{way}_sd": sd}
    _settle_constants(values, columns)
    psis_sd, vi_sd = columns["psis_sd"], columns["vi_sd"]
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = (columns["psis_mean"] - columns["vi_mean"]) / psis_sd
        growth = np.log(psis_sd / vi_sd)
    columns["shift"] = np.where((psis_sd == 0.0) & (vi_sd == 0.0), 0.0, shift)
    chosen = [
        choose_estimate(khat, smoothed.threshold, moved, grown)
        for khat, moved, grown in zip(
            columns["khat"].tolist(), columns["shift"].tolist(), growth.tolist(), strict=True
        )
    ]
    ordered = {name: columns[name] for name in COLUMNS if name != "use"}
    return pd.DataFrame(ordered | {"use": chosen}, pd.Index(names))


def _errors(moments: Moments, smoothed: PsisResult) -> Floats:
    """Return the errors of the weighted means, with what lies beyond the largest weights.

    Each goes by the khat of its quantity or, where the tails of that have none because they are
    tied, by that of the ratios. From 1 on there may be no mean, and so no error.
    """
    khat = np.where(np.isnan(moments.khat), smoothed.weights_khat, moments.khat)
    error = error_with_tail(moments.mcse[-1], moments.imbalance[-1], khat, smoothed.tail_length)
    return np.where(khat >= 1.0, np.inf, error)


def _settle_constants(values: Floats, columns: dict[str, Floats]) -> None:
    """Give constant quantities their value and an sd of 0, which rounding would not."""
    for place in np.flatnonzero(values[0] == values[-1]):
        value = values[0, place]
        if (values[:, place] == value).all():
            for name, column in columns.items():
                if np.isfinite(column[place]):
                    column[place] = value if name.endswith("_mean") else 0.0


def unknown_moments(names: tuple[str, ...]) -> pd.DataFrame:
    """Return the table when there are no draws to compute anything from."""
    import pandas as pd

    table = pd.DataFrame(np.nan, pd.Index(names), list(COLUMNS[:-1]))
    return table.assign(use="neither")


def with_drift(table: pd.DataFrame, chains: ShortChains) -> pd.DataFrame:
    """Return the table with the drift of short chains, and without estimates that drift away."""
    table = table.assign(drift=chains.drift, drift_error=chains.drift_error)
    means, sds = drifting(chains.from_starts, chains.num_chains)
    contradicted = means | sds
    if chains.starts == "q":  # of weighted estimates these chains say nothing
        contradicted &= (table["use"] == "vi").to_numpy()
    table.loc[contradicted, "use"] = "neither"
    return table


def worst_first(table: pd.DataFrame) -> pd.DataFrame:
    """Sort by what can be used, neither estimate first, and by the size of the shift.

    What is not known counts as the worst.
    """
    order = table["use"].map({"neither": 0, "psis": 1, "vi": 2})
    keys = table.assign(order=order, size=-table["shift"].abs())
    places = keys.reset_index(drop=True)  # names need not be unique
    places = places.sort_values(["order", "size"], kind="stable", na_position="first")
    return table.iloc[places.index]
