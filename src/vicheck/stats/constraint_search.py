"""Which of some variables are a Gaussian's, behind which constraints, told by its log density."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicheck.stats.gaussian_recovery import NOT_GAUSSIAN, RecoveredGaussian, recover_gaussian

__all__ = ["Columns", "RecoveredColumns", "is_on_constrained_scale", "recover_from_columns"]

Floats = NDArray[np.float64]

_AMBIGUOUS = "the draws have too few digits to tell which variables are constrained"
_OTHER_CONSTRAINTS = (
    "no variables that are free, positive, negative, or between -1 or 0 and 1 explain its values"
)
_INTERVALS = (
    (0.0, 1.0),
    (-1.0, 1.0),
    (0.0, np.inf),
    (-np.inf, 0.0),
    (-np.inf, np.inf),
)
"""Constraints to try, narrowest first: draws seldom keep to one by chance."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Draws of one variable with the rounding errors of its numbers."""

    values: Floats
    """Shape ``(S, k)``."""
    rounding: Floats
    """Largest errors of the values, shape ``(S, k)``."""
    mean: Floats | None = None
    """Where the Gaussian's mean is taken to, when known: shape ``(k,)``."""
    mean_rounding: Floats | None = None
    """Largest errors of the mean, shape ``(k,)``."""


@dataclass(frozen=True, eq=False)
class RecoveredColumns:
    """Which columns are the transformed components of which Gaussian."""

    gaussian: RecoveredGaussian | None
    """Of the unconstrained components; None when it could not be found."""
    intervals: tuple[tuple[float, float], ...]
    """Each variable's constraint, for as many of the first variables as belong to the Gaussian."""
    reason: str
    """Why there is none, as a clause; empty when there is."""


def recover_from_columns(
    variables: Sequence[Columns], log_q: ArrayLike, *, full: bool, log_q_rounding: ArrayLike
) -> RecoveredColumns:
    """Find the Gaussian behind the first of some variables, when only its eta^2 / 2 are known.

    Parameters
    ----------
    variables
        Draws; the Gaussian's own components come first, transformed to a half-line or an interval
        if constrained (by the exponential or logistic function, as Stan does), and quantities
        derived from them follow.
    log_q
        Log densities at the draws less their peak: -1/2 of the squared standardised distance from
        the mean, shape ``(S,)``.
    full
        Whether there may be correlations.
    log_q_rounding
        Largest rounding errors of these.

    Returns
    -------
    RecoveredColumns
        The first variables, and their constraints, that explain every log density up to rounding.
        Where other constraints would explain them too, there is none: their constants differ.
    """
    density = np.asarray(log_q, float)
    rounding = np.broadcast_to(np.asarray(log_q_rounding, float), density.shape)
    reason = ""
    for count in _likely_counts([columns.values.shape[1] for columns in variables], density):
        candidates = [_unconstrained(columns) for columns in variables[:count]]
        search = _Search(candidates, density, full, rounding)
        choice, found = search.best()
        if found.exact:
            intervals = tuple(_allowed(v)[i] for v, i in zip(variables, choice, strict=False))
            if search.has_other(choice):
                return RecoveredColumns(None, (), _AMBIGUOUS)
            return RecoveredColumns(found, intervals, "")
        if not reason and found.reason != NOT_GAUSSIAN:
            reason = found.reason
    return RecoveredColumns(None, (), reason or _OTHER_CONSTRAINTS)


def _likely_counts(widths: list[int], density: Floats) -> list[int]:
    """Return how many variables may belong to it: eta^2 has mean d and variance 2 d."""
    dims = np.cumsum(widths)
    expected = -2.0 * density.mean()
    distance = np.abs(dims - expected)
    likely = distance <= 6.0 * np.sqrt(2.0 * np.maximum(dims, 1) / density.size)
    return [int(i) + 1 for i in np.flatnonzero(likely)]


def _allowed(columns: Columns) -> list[tuple[float, float]]:
    """Return the intervals that the values keep to."""
    seen = columns.values if columns.mean is None else np.vstack([columns.values, columns.mean])
    low, high = seen.min(), seen.max()
    return [
        (a, b) for a, b in _INTERVALS if (a < low or a == -np.inf) and (high < b or b == np.inf)
    ]


def _unconstrained(columns: Columns) -> list[Columns]:
    """Return the columns on the real line, once for each interval that they keep to."""
    return [
        Columns(
            *_logit(columns.values, columns.rounding, interval),
            *(
                (None, None)
                if columns.mean is None or columns.mean_rounding is None
                else _logit(columns.mean, columns.mean_rounding, interval)
            ),
        )
        for interval in _allowed(columns)
    ]


def _logit(x: Floats, rounding: Floats, interval: tuple[float, float]) -> tuple[Floats, Floats]:
    """Take numbers in an interval to the real line, with their rounding errors."""
    low, high = interval
    if np.isinf(low) and np.isinf(high):
        return x, rounding
    if np.isinf(high):
        return np.log(x - low), rounding / (x - low)
    if np.isinf(low):
        return np.log(high - x), rounding / (high - x)
    return np.log((x - low) / (high - x)), rounding * (1.0 / (x - low) + 1.0 / (high - x))


@dataclass(frozen=True, eq=False)
class _Search:
    """For the constraint of each variable, by what is left unexplained."""

    candidates: Sequence[Sequence[Columns]]
    density: Floats
    full: bool
    rounding: Floats

    def fit(self, choice: Sequence[int]) -> RecoveredGaussian:
        chosen = [options[i] for options, i in zip(self.candidates, choice, strict=True)]
        means = [columns.mean for columns in chosen if columns.mean is not None]
        errors = [columns.mean_rounding for columns in chosen if columns.mean_rounding is not None]
        return recover_gaussian(
            np.concatenate([columns.values for columns in chosen], axis=1),
            self.density,
            full=self.full,
            mean=np.concatenate(means) if means else None,
            peak=0.0 if means else None,
            z_rounding=np.concatenate([columns.rounding for columns in chosen], axis=1),
            mean_rounding=np.concatenate(errors) if errors else 0.0,
            log_q_rounding=self.rounding,
        )

    def best(self) -> tuple[list[int], RecoveredGaussian]:
        """Start from the narrowest constraints, and change one as long as that explains more."""
        choice = [0] * len(self.candidates)
        found = self.fit(choice)
        while not found.exact:
            tried = [(other, self.fit(other)) for other in self._neighbours(choice)]
            tried = [pair for pair in tried if not np.isnan(pair[1].misfit)]
            better = min(tried, key=lambda pair: pair[1].misfit, default=None)
            if better is None or better[1].misfit >= found.misfit:
                break
            choice, found = better
        return choice, found

    def has_other(self, choice: list[int]) -> bool:
        """Whether another constraint of one variable explains the densities as well."""
        return any(self.fit(other).exact for other in self._neighbours(choice))

    def _neighbours(self, choice: list[int]) -> list[list[int]]:
        return [
            [*choice[:variable], option, *choice[variable + 1 :]]
            for variable, options in enumerate(self.candidates)
            for option in range(len(options))
            if option != choice[variable]
        ]


def is_on_constrained_scale(values: ArrayLike, log_q: ArrayLike) -> tuple[int, ...]:
    """Return which columns ``log_q`` is a density of as they are, where that can be told.

    Parameters
    ----------
    values
        Draws of all parameters on their own scale, shape ``(S, d)``.
    log_q
        Log densities of the draws, shape ``(S,)``.

    Returns
    -------
    tuple
        The columns that keep to a half-line or an interval when ``log_q`` is the density of a
        Gaussian on the real line with the Jacobian of those columns taken off; none when it is the
        Gaussian itself, or no Gaussian at all.

    Notes
    -----
    On either scale the log density of a Gaussian of log x is quadratic in log x. But only on the
    real line is its centre where the draws are.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.random.default_rng(1).normal(size=(1000, 1))
    >>> log_q = -z[:, 0] ** 2 / 2                       # of z, up to a constant
    >>> is_on_constrained_scale(np.exp(z), log_q)
    ()
    >>> is_on_constrained_scale(np.exp(z), log_q - z[:, 0])    # of exp(z)
    (0,)
    """
    draws, density = np.asarray(values, float), np.asarray(log_q, float)
    if not (np.isfinite(draws).all() and np.isfinite(density).all()):
        return ()
    columns = [Columns(column[:, None], np.zeros((len(column), 1))) for column in draws.T]
    narrowest = [_allowed(column)[0] for column in columns]
    z = np.column_stack(
        [_logit(x, x * 0.0, interval)[0] for x, interval in zip(draws.T, narrowest, strict=True)]
    )
    log_jacobian = np.column_stack(
        [_log_slope(x, interval) for x, interval in zip(draws.T, narrowest, strict=True)]
    )
    constrained = tuple(int(i) for i in np.flatnonzero(log_jacobian.any(axis=0)))
    if not constrained or _is_gaussian_of(z, density):
        return ()
    return constrained if _is_gaussian_of(z, density + log_jacobian.sum(axis=1)) else ()


def _log_slope(x: Floats, interval: tuple[float, float]) -> Floats:
    """Return the log of how fast x moves with its number on the real line."""
    low, high = interval
    if np.isinf(low) and np.isinf(high):
        return np.zeros_like(x)
    if np.isinf(high):
        return np.asarray(np.log(x - low))
    if np.isinf(low):
        return np.asarray(np.log(high - x))
    return np.asarray(np.log(x - low) + np.log(high - x) - np.log(high - low))


def _is_gaussian_of(z: Floats, density: Floats) -> bool:
    """Whether the density is a Gaussian whose centre is that of the draws."""
    for full in (False, True):
        found = recover_gaussian(z, density, full=full)
        if found.exact:
            distance = np.abs(z.mean(axis=0) - found.mean) / found.scales
            return bool((distance < 6.0 / np.sqrt(len(z))).all())
    return False
