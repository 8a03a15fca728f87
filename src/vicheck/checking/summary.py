"""What may be reported of every quantity, under the names that ArviZ gives to such columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vicheck.checking.quantiles import label, quantiles_table
from vicheck.errors import ArgumentError
from vicheck.results.conclusions import table_of
from vicheck.results.reported import reported
from vicheck.stats.columns import for_each_block
from vicheck.stats.unseen import error_with_tail

if TYPE_CHECKING:
    import pandas as pd

    from vicheck.results.check import Check

__all__ = ["summary_table"]

Floats = NDArray[np.float64]


def summary_table(check: Check, ci_prob: float) -> pd.DataFrame:
    """Return a row for each quantity, NaN where no estimate may be used."""
    import pandas as pd

    if not 0.0 < ci_prob < 1.0:
        raise ArgumentError("ci_prob", f"must lie between 0 and 1, got {ci_prob!r}")
    percent = f"{100.0 * ci_prob:.6g}"
    if check.conclusions is not None:
        kept = check.conclusions.summary
        if f"eti{percent}_lb" in kept:
            return table_of(kept, check.names)
        if not len(check.values):
            raise ArgumentError(
                "ci_prob",
                "must be 0.9: this check was saved without its draws",
                hint="save it with them",
            )
    moments = check.moments
    works = check.verdict.weights_work.value == "yes"
    ends = 0.5 * (1.0 - ci_prob), 0.5 * (1.0 + ci_prob)
    quantiles = quantiles_table(check, ends)
    has_mean, has_sd = moments["use_mean"] != "neither", moments["use_sd"] != "neither"
    mean, weighted = reported(moments, "mean", works)
    sd, weighted_sd = reported(moments, "sd", works)
    columns = {"mean": mean.where(has_mean), "sd": sd.where(has_sd)}
    for end, side in zip(ends, ("lb", "ub"), strict=True):
        quantile, _ = reported(quantiles, label(end), works)
        allowed = quantiles[f"use_{label(end)}"] != "neither"
        columns[f"eti{percent}_{side}"] = quantile.where(allowed)
    mcse_mean = moments["mcse"].where(has_mean & weighted)
    columns["mcse_mean"] = mcse_mean
    columns["mcse_sd"] = pd.Series(_errors_of_sd(check), moments.index).where(has_sd)
    with np.errstate(divide="ignore", invalid="ignore"):
        columns["ess_mean"] = (moments["psis_sd"] / mcse_mean) ** 2
    by = np.where((has_mean & weighted) | (has_sd & weighted_sd), "psis", "vi")
    used = np.where(has_mean | has_sd, by, "neither")
    return pd.DataFrame(columns).assign(khat=moments["khat"], source=used)


def _errors_of_sd(check: Check) -> Floats:
    """Return the errors of the weighted sds, with what lies beyond the largest weights.

    By the delta method, sum w^2 ((h - mean)^2 - variance)^2 / (4 variance). NaN where the weights
    do not work, and infinite where no mean of squares may exist.
    """
    moments, values = check.moments, check.values
    errors = np.full(len(moments), np.nan)
    if check.verdict.weights_work.value != "yes" or not len(values):
        return errors
    mean = moments["psis_mean"].to_numpy()
    with np.errstate(under="ignore"):
        weights = np.exp(check.kept_log_weights)
    squared, imbalance, variance = np.empty((3, len(moments)))

    def work(block: slice, rows: Floats) -> None:
        with np.errstate(all="ignore"):
            rows -= mean[block, None]
            rows *= rows
            rows[:, weights == 0.0] = 0.0
            variance[block] = rows @ weights
            rows -= variance[block, None]
            rows *= weights
            squared[block] = np.einsum("qs,qs->q", rows, rows)
            imbalance[block] = rows.max(axis=1) + rows.min(axis=1)

    for_each_block(values, work)
    khat = moments["khat_sd"].to_numpy()
    khat = np.where(np.isnan(khat), check.psis.weights_khat, khat)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = error_with_tail(np.sqrt(squared), imbalance, khat, check.psis.tail_length)
        error = np.where(variance > 0.0, error / (2.0 * np.sqrt(variance)), 0.0)
    return np.where(khat >= 1.0, np.inf, error)
