"""Mean and sd of every quantity by plain VI, importance sampling and PSIS, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vicheck.judging import ORDER, Witnesses, choose_mean, choose_sd, weaker
from vicheck.results.chains import ShortChains
from vicheck.results.convergence import PooledModes
from vicheck.results.psis import PsisResult
from vicheck.stats.estimates import importance_log_weights, plain_log_weights
from vicheck.stats.moments import Moments, weighted_moments
from vicheck.stats.outer_khats import khats_further_out
from vicheck.stats.screening import WEIGHTLESS
from vicheck.stats.unseen import error_with_tail

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COLUMNS",
    "error_by_modes",
    "moments_table",
    "unknown_moments",
    "with_use",
    "worst_first",
]

Floats = NDArray[np.float64]

COLUMNS = (
    "vi_mean", "vi_sd", "is_mean", "is_sd", "psis_mean", "psis_sd", "mcse", "shift", "khat",
    "khat_sd", "use_mean", "use_sd", "use",
)  # fmt: skip
_FEW_VALUES = 32
"""A quantity with no more different values than this is bounded by them."""


def moments_table(
    values: Floats, log_ratios: Floats, smoothed: PsisResult, names: tuple[str, ...]
) -> pd.DataFrame:
    """Return a row for each quantity, without the columns ``use``; ``values`` has shape ``(S, Q)``.

    ``smoothed`` is the PSIS of the log ratios. ``mcse`` is that of ``psis_mean``, infinite where
    the mean may be so. ``shift`` is PSIS minus VI in sds of the posterior.
    """
    import pandas as pd

    ways = {
        "vi": plain_log_weights(len(values)),
        "is": importance_log_weights(log_ratios),
        "psis": smoothed.log_weights,
    }
    log_ratios = without_weightless(log_ratios)
    moments = weighted_moments(values, tuple(ways.values()), log_ratios)
    moments = _further_out(moments, values, log_ratios, smoothed)
    columns: dict[str, Floats] = {
        "mcse": _errors(moments, smoothed),
        "khat": _known(moments.khat, values, smoothed),
        "khat_sd": _known(moments.khat_sd, values, smoothed),
    }
    for way, mean, sd in zip(ways, moments.mean, moments.sd, strict=True):
        columns |= {f"{way}_mean": mean, f"{way}_sd": sd}
    _settle_constants(values, columns)
    psis_sd, vi_sd = columns["psis_sd"], columns["vi_sd"]
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = (columns["psis_mean"] - columns["vi_mean"]) / psis_sd
    columns["shift"] = np.where((psis_sd == 0.0) & (vi_sd == 0.0), 0.0, shift)
    ordered = {name: columns[name] for name in COLUMNS if not name.startswith("use")}
    return pd.DataFrame(ordered, pd.Index(names))


def error_by_modes(
    names: Sequence[str],
    psis_sd: Floats,
    pooled: PooledModes | None,
    spoilt: NDArray[np.bool_],
    threshold: float,
) -> Floats:
    """Return what other modes add to the errors of weighted estimates.

    That is not chance, and the mixture of all modes knows it; where its khat is not below the
    threshold, or there is none, errors of what other modes may spoil are infinite.
    """
    unknown = np.where(spoilt, np.inf, 0.0)
    if pooled is None or not pooled.khat < threshold:
        return unknown
    moved = dict(zip(pooled.names, pooled.shift * np.exp(pooled.growth), strict=True))
    by_modes = np.array([moved.get(name, np.nan) for name in names]) * psis_sd
    return np.where(np.isnan(by_modes), unknown, np.abs(by_modes))


def without_weightless(log_ratios: Floats) -> Floats:
    """Return log ratios, minus infinity where their weight is zero in double precision.

    A q with heavy tails on a log scale reaches values so large that others would pass for equal,
    where the posterior has nothing.
    """
    top = np.max(log_ratios, initial=-np.inf)
    if not np.isfinite(top) or np.isnan(log_ratios).any():
        return log_ratios
    return np.where(log_ratios < top - WEIGHTLESS, -np.inf, log_ratios)


def with_use(
    table: pd.DataFrame,
    smoothed: PsisResult,
    weights_work: bool,
    spoilt: NDArray[np.bool_],
    chains: ShortChains | None,
    correction_errors: Floats,
    converged: bool = False,
) -> pd.DataFrame:
    """Return the table with what to use of each mean and sd, and what short chains have found.

    ``correction_errors`` has two rows, the errors of ``shift`` and those of the logarithm of
    ``psis_sd / vi_sd``; ``converged`` says whether q is known to be an optimum.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = np.log(table["psis_sd"].to_numpy() / table["vi_sd"].to_numpy())
    known = Witnesses(
        khat=table["khat"].to_numpy(),
        khat_sd=table["khat_sd"].to_numpy(),
        threshold=smoothed.threshold,
        shift=table["shift"].to_numpy(),
        shift_error=correction_errors[0],
        growth=growth,
        growth_error=correction_errors[1],
        joint_khat=float(smoothed.weights_khat),
        effective=float(smoothed.ess) / smoothed.num_draws,
        weights_work=weights_work,
        spoilt=spoilt,
        converged=converged,
        chains=chains,
    )
    means, sds = choose_mean(known), choose_sd(known)
    both = [weaker(mean, sd) for mean, sd in zip(means, sds, strict=True)]
    table = table.assign(use_mean=means, use_sd=sds, use=both)
    if chains is None:
        return table
    return table.assign(
        chains_mean=chains.end_mean,
        chains_sd=chains.end_sd,
        drift=chains.drift,
        drift_error=chains.drift_error,
    )


def _known(khat: Floats, values: Floats, smoothed: PsisResult) -> Floats:
    """Give quantities with a few values only the khat of the ratios: being bounded, they need none.

    Products of ratios with such a quantity are tied, or too few of them are large.
    """
    khat = khat.copy()
    for place in np.flatnonzero(np.isnan(khat)):
        column = values[:, place]
        few = np.unique(column[: 4 * _FEW_VALUES]).size <= _FEW_VALUES
        if few and np.isfinite(column).all() and np.unique(column).size <= _FEW_VALUES:
            khat[place] = smoothed.khat
    return khat


def _further_out(
    moments: Moments, values: Floats, log_ratios: Floats, smoothed: PsisResult
) -> Moments:
    """Look further out where the weights work and the tail of a quantity may not be Pareto."""
    high = (moments.khat >= smoothed.threshold) | (moments.khat_sd >= smoothed.threshold)
    places = np.flatnonzero(high)
    if not places.size or not smoothed.weights_khat < smoothed.threshold:
        return moments
    khat, khat_sd = moments.khat.copy(), moments.khat_sd.copy()
    away = values[:, places] - moments.mean[-1, places]
    known = log_ratios, smoothed.threshold
    khat[places] = khats_further_out(khat[places], away, *known)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        squares = np.square(away)
        # Not a product of matrices: threads of BLAS take longer to wait than one to add.
        squares -= np.einsum("s,sq->q", np.exp(smoothed.log_weights), squares)
    khat_sd[places] = khats_further_out(khat_sd[places], squares, *known)
    return moments._replace(khat=khat, khat_sd=khat_sd)


def _errors(moments: Moments, smoothed: PsisResult) -> Floats:
    """Return the errors of the weighted means, with what lies beyond the largest weights.

    Each goes by the khat of its quantity or, where the tails of that have none because they are
    tied, by that of the ratios. From 1 on there may be no mean, and so no error.
    """
    khat = np.where(np.isnan(moments.khat), smoothed.weights_khat, moments.khat)
    error = error_with_tail(moments.mcse[-1], moments.imbalance[-1], khat, smoothed.tail_length)
    return np.where(khat >= 1.0, np.inf, error)


def _settle_constants(values: Floats, columns: dict[str, Floats]) -> None:
    """Give constant quantities their value and an sd of exactly 0, in spite of rounding."""
    for place in np.flatnonzero(values[0] == values[-1]):
        value = values[0, place]
        if (values[:, place] == value).all():
            for name, column in columns.items():
                if np.isfinite(column[place]):
                    column[place] = value if name.endswith("_mean") else 0.0


def unknown_moments(names: tuple[str, ...]) -> pd.DataFrame:
    """Return the table when there are no draws to compute anything from."""
    import pandas as pd

    numbers = [name for name in COLUMNS if not name.startswith("use")]
    table = pd.DataFrame(np.nan, pd.Index(names), numbers)
    return table.assign(use_mean="neither", use_sd="neither", use="neither")


def worst_first(table: pd.DataFrame) -> pd.DataFrame:
    """Sort by what can be used, neither estimate first, and by the size of the shift.

    What is not known counts as the worst.
    """
    order = table["use"].map(ORDER)
    keys = table.assign(order=order, size=-table["shift"].abs())
    places = keys.reset_index(drop=True)  # names need not be unique
    places = places.sort_values(["order", "size"], kind="stable", na_position="first")
    return table.iloc[places.index]
