"""The iterates of a stochastic run: what is kept of them, and whether they have settled."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from vicheck.results.convergence import MAX_ITERATE_MCSE
from vicheck.vi.families.family import Family
from vicheck.vi.families.moments import mean_and_sd

__all__ = ["Thinned", "distance", "iterate_diagnostics", "max_rows", "row_of"]

Floats = NDArray[np.float64]

_FEWEST_ROWS = 20
"""Fewer iterates say nothing about convergence."""
_COLUMNS_AT_ONCE = 2048


def iterate_diagnostics(iterates: Floats) -> tuple[float, float]:
    """Return the largest split R-hat and Monte Carlo standard error of averaged iterates.

    Parameters
    ----------
    iterates
        Means and log sds, shape ``(n, 2 d)``, in the order of the steps.

    Returns
    -------
    rhat_max, mcse_max
        The second is the error of an average: of the means in units of the sds, and of the log
        sds. R-hat counts as 1 for an entry whose iterates vary by less than 0.05 in these units:
        it has no scale, and would separate late iterates that hardly move by their rounding errors.
        Both are NaN when there are fewer than 20 iterates.

    References
    ----------
    Dhaka, Catalina, Andersen, Magnusson, Huggins and Vehtari (2020). Robust, accurate stochastic
    optimization for variational inference.
    """
    if len(iterates) < _FEWEST_ROWS:
        return np.nan, np.nan
    dim = iterates.shape[1] // 2
    worst = []
    for first in range(0, dim, _COLUMNS_AT_ONCE):
        last = min(first + _COLUMNS_AT_ONCE, dim)
        log_sd = iterates[:, dim + first : dim + last]
        mean = iterates[:, first:last] / np.exp(log_sd.mean(axis=0))
        worst.append(_rhat_and_mcse(np.concatenate([mean, log_sd], axis=1)))
    rhat, mcse = np.max(worst, axis=0)
    return float(rhat), float(mcse)


def _rhat_and_mcse(iterates: Floats) -> tuple[float, float]:
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    half = len(iterates) // 2
    # Both halves as chains of their own: a drift from one to the other counts as error.
    chains = np.stack([iterates[:half], iterates[-half:]])
    spread = iterates.std(axis=0)
    with np.errstate(all="ignore"):
        rhat = np.where(spread < MAX_ITERATE_MCSE, 1.0, split_gelman_rubin(iterates[None]))
        ess = effective_sample_size(chains)
    # Not defined for constants, and negative for iterates that swing to and fro.
    ess = np.where((ess > 0.0) & (ess < 2 * half), ess, 2 * half)
    mcse = spread / np.sqrt(ess)
    return float(rhat.max()), float(mcse.max())


def distance(row: Floats, iterates: Floats) -> float:
    """Return the largest difference from the mean iterate, in sds or log sds."""
    if not len(iterates):
        return np.nan
    difference, dim = np.abs(row - iterates.mean(axis=0)), len(row) // 2
    return float(max((difference[:dim] / np.exp(row[dim:])).max(), difference[dim:].max()))


def max_rows(dim: int) -> int:
    """Return how many iterates are kept: about 1000, fewer where they would exceed 50 MB."""
    return max(_FEWEST_ROWS, min(1000, 3_000_000 // dim))


def row_of(q: Family) -> jax.Array:
    """Return what is kept of an iterate: means and log sds."""
    mean, sd = mean_and_sd(q)
    return jnp.concatenate([mean, jnp.log(sd)])


class Thinned:
    """Rows of a run of unknown length: every second one is dropped when there are too many."""

    def __init__(self, max_rows: int) -> None:
        self.max_rows, self.every, self.seen = max_rows, 1, 0
        self.rows: list[Floats] = []

    def append(self, rows: Floats) -> None:
        """Add rows, in the order of the steps."""
        self.rows.extend(rows[-self.seen % self.every :: self.every].copy())
        self.seen += len(rows)
        while len(self.rows) > 2 * self.max_rows:
            self.rows = self.rows[::2]
            self.every *= 2

    def last_half(self, width: int) -> Floats:
        """Return the second half of what was kept, as an array of so many columns."""
        return np.array(self.rows[len(self.rows) // 2 :]).reshape(-1, width)
