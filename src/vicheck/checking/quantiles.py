"""Quantiles of every quantity by plain VI and by PSIS, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vicheck.checking.moments import error_by_modes
from vicheck.errors import ArgumentError
from vicheck.judging import choose_quantile, spoilt_by_modes
from vicheck.results.conclusions import Columns, table_of
from vicheck.stats.quantiles import weighted_quantiles
from vicheck.stats.unseen import unseen_multiple

if TYPE_CHECKING:
    import pandas as pd

    from vicheck.results.check import Check

__all__ = ["label", "probabilities", "quantiles_table"]

Floats = NDArray[np.float64]


def probabilities(prob: Any) -> Floats:
    """Return probabilities as an array, or raise what is wrong with them."""
    try:
        probs = np.atleast_1d(np.asarray(prob, np.float64))
    except (TypeError, ValueError):
        raise ArgumentError("prob", f"must be numbers between 0 and 1, got {prob!r}") from None
    if probs.ndim != 1 or not probs.size or not ((probs > 0.0) & (probs < 1.0)).all():
        raise ArgumentError(
            "prob",
            f"must be numbers between 0 and 1, got {prob!r}",
            hint="0.05 is the quantile of 5%",
        )
    if len(set(map(label, probs))) != len(probs):
        raise ArgumentError("prob", f"must name each quantile once, got {prob!r}")
    return probs


def label(prob: float) -> str:
    """Return what a quantile is called, as in R's posterior: ``q5``, ``q2.5``."""
    return f"q{100.0 * prob:.6g}"


def quantiles_table(check: Check, prob: Any, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a row for each quantity, or for those that are named.

    The columns of each probability are ``vi_q5``, ``psis_q5``, its error ``mcse_q5`` and
    ``use_q5``.
    """
    import pandas as pd

    probs = probabilities(prob)
    names = check.names if names is None else tuple(names)
    known = {name: place for place, name in enumerate(check.names)}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ArgumentError("quantities", f"has {unknown[0]!r}, not a quantity of this check")
    index = pd.Index(names)
    kept = None if check.conclusions is None else _kept(check, check.conclusions.quantiles, probs)
    if kept is not None:
        return kept.loc[list(names)]
    if not len(check.values):
        parts = {f"{part}_{label(each)}" for each in probs for part in ("vi", "psis", "mcse")}
        table = pd.DataFrame(np.nan, index, sorted(parts))
        return _ordered(table.assign(**{f"use_{label(each)}": "neither" for each in probs}), probs)
    places = [known[name] for name in names]
    moments = check.moments.iloc[places]
    values = check.values if names == check.names else check.values[:, places]
    with np.errstate(under="ignore"):
        weights = np.exp(check.kept_log_weights)
    khat = float(check.psis.weights_khat)
    unseen = unseen_multiple(khat, check.psis.weights_tail_length)
    found = weighted_quantiles(values, weights, probs, 0.0 if np.isnan(khat) else unseen)
    threshold, sd = check.psis.threshold, moments["psis_sd"].to_numpy()
    spoilt = spoilt_by_modes(check.names, check.pooled, check.modes, threshold)[places]
    by_modes = error_by_modes(names, sd, check.pooled, spoilt, threshold)
    errors = np.hypot(found.mcse, by_modes) if khat < 1.0 else np.full_like(found.mcse, np.inf)
    works = check.verdict.weights_work.value == "yes"
    columns: dict[str, Any] = {}
    for each, plain, weighted, error in zip(
        probs, found.plain, found.weighted, errors, strict=True
    ):
        use = choose_quantile(moments["use"], plain, weighted, error, sd, works)
        parts_of = {"vi": plain, "psis": weighted, "mcse": error, "use": use}
        columns |= {f"{part}_{label(each)}": column for part, column in parts_of.items()}
    return pd.DataFrame(columns, index)


def _kept(check: Check, columns: Columns, probs: Floats) -> pd.DataFrame | None:
    """Return the quantiles that a file holds beside what it has of the draws; or raise."""
    kept = [name.removeprefix("vi_q") for name in columns if name.startswith("vi_q")]
    if {label(each).removeprefix("q") for each in probs} <= {*kept}:
        return _ordered(table_of(columns, check.names), probs)
    if len(check.values):
        return None
    raise ArgumentError(
        "prob",
        f"must be among the quantiles in the file, {', '.join(kept)}%: this check was saved "
        "without its draws",
        hint="save it with them",
    )


def _ordered(table: pd.DataFrame, probs: Floats) -> pd.DataFrame:
    parts = ("vi", "psis", "mcse", "use")
    return table[[f"{part}_{label(each)}" for each in probs for part in parts]]
