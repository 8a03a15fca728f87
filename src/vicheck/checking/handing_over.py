"""Draws of a check for other programs: of equal weight, or with their weights."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vicheck.adapters.arviz import as_installed, to_datatree
from vicheck.errors import NotConvergedWarning, UnreliableWarning
from vicheck.runtime.seeds import Seed, as_seed

if TYPE_CHECKING:
    from vicheck.results.check import Check

__all__ = ["as_arviz", "require_draws", "resampled", "warn_unless_reliable"]

Floats = NDArray[np.float64]
Dims = Mapping[str, Sequence[str]]
Coords = Mapping[str, Sequence[Any]]

_MOST = 4000
"""Draws of equal weight that are handed over: as many as four chains of a thousand."""


def warn_unless_reliable(check: Check, what: str) -> None:
    """Warn if what is taken from a check cannot be relied on.

    The warning points to the caller of the check's method, once for each place, as usual.
    """
    verdict = check.verdict
    if verdict.level in ("good", "usable"):
        return
    kind = NotConvergedWarning if verdict.converged.value == "no" else UnreliableWarning
    warnings.warn(f"{what}: {verdict}", kind, stacklevel=3)


def require_draws(check: Check) -> None:
    """Raise unless draws were kept."""
    if not len(check.values):
        hint = "it was saved with draws=False" if check.conclusions else "none were kept"
        raise ValueError(f"this check has no draws: {hint}")


def resampled(check: Check, num_draws: int, replace: bool, seed: Seed) -> dict[str, Floats]:
    """Return draws of equal weight, by the smoothed weights."""
    rows = _rows_by_weight(check, num_draws, replace, seed)
    return {name: array[rows] for name, array in check.draws.items()}


def _rows_by_weight(check: Check, num_draws: int, replace: bool, seed: Seed) -> NDArray[np.int64]:
    require_draws(check)
    log_weights = check.kept_log_weights
    if np.isnan(log_weights).any():
        raise ValueError(f"the draws have no weights: {check.psis.message}")
    with np.errstate(under="ignore"):
        weights = np.exp(log_weights)
    weights /= weights.sum()
    positive = int(np.count_nonzero(weights))
    if num_draws < 1 or (not replace and num_draws > positive):
        raise ValueError(
            f"num_draws must lie between 1 and {positive} without replacement, got {num_draws}"
        )
    rng = np.random.default_rng(as_seed(seed))
    return rng.choice(len(weights), size=num_draws, replace=replace, p=weights)


def as_arviz(
    check: Check, equal_weights: bool, dims: Dims | None, coords: Coords | None, seed: Seed
) -> Any:
    """Return the draws as ArviZ data."""
    require_draws(check)
    size = len(check.values)
    attributes = {
        "khat": check.khat,
        "verdict": str(check.verdict),
        "level": check.verdict.level,
        "title": check.title,
        "notes": "\n".join(check.notes),
        "unnormalized": check.unnormalized,
    }
    dims = {**check.dims, **(dims or {})}
    coords = {**check.coords, **(coords or {})}
    if equal_weights:
        rows, source = _rows_of_equal_weight(check, seed)
        draws = {name: array[rows] for name, array in check.draws.items()}
        stats = {"lp": check.log_p[:size][rows]}
        attributes["source"] = source
        return as_installed(to_datatree(draws, stats, attributes, check.indexing, dims, coords))
    stats = {
        "log_p": check.log_p[:size],
        "log_q": check.log_q[:size],
        "log_weights": check.kept_log_weights,
    }
    attributes["source"] = "q"
    return as_installed(to_datatree(check.draws, stats, attributes, check.indexing, dims, coords))


def _rows_of_equal_weight(check: Check, seed: Seed) -> tuple[NDArray[np.int64], str]:
    """Choose draws by their weights, no more than count: by "psis", or by "vi" where q is right.

    There are no more of them than are effective, so that what is computed as from independent
    draws, above all an effective sample size, is not too large. Where q can be used although its
    weights cannot, these are draws of q.
    """
    usable = check.verdict.level in ("good", "usable")
    if usable and check.verdict.weights_work.value != "yes":
        return np.arange(min(_MOST, len(check.values))), "vi"
    count = _effective(check)
    return _rows_by_weight(check, count, True, seed), "psis"


def _effective(check: Check) -> int:
    """Return how many draws count, of those that were kept."""
    with np.errstate(under="ignore"):
        squares = np.exp(2.0 * check.kept_log_weights).sum()
    return 1 if np.isnan(squares) else max(1, min(_MOST, int(1.0 / squares)))
