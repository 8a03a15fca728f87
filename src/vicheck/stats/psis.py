"""Pareto smoothed importance sampling: the paper's section 2.1 and Algorithm 1, lines 5 to 12."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicheck.errors import UndefinedKhatWarning
from vicheck.results.khat_posterior import KhatPosterior
from vicheck.results.psis import PsisResult, PsisStatus
from vicheck.stats import rows_numpy
from vicheck.stats.reliability import convergence_rate, khat_threshold, min_draws
from vicheck.stats.smoothing import (
    MIN_TAIL,
    SmoothedRows,
    SmoothRows,
    implementation_for,
    smooth,
)

__all__ = [
    "as_vector",
    "default_tail_length",
    "psis",
    "psis_khat",
    "psis_once",
    "psis_quietly",
    "warn_undefined",
]

_MAX_SIZE_WITHOUT_LOADING = 1_000_000
_STATUSES = tuple(PsisStatus)

Chooser = Callable[[int, int], SmoothRows]
"""Chooses the implementation by the numbers of rows and draws."""


def psis(
    log_ratios: ArrayLike, *, tail_length: int | None = None, strict: bool = False
) -> PsisResult:
    """Smooth importance ratios by Pareto smoothed importance sampling and estimate khat.

    Parameters
    ----------
    log_ratios
        Logarithms of the importance ratios, ``log_p - log_q`` at draws from q, up to a constant:
        shape ``(S,)``, or ``(..., S)`` for a batch of vectors. Real numbers of any type; they are
        converted to float64 and never modified.
    tail_length
        Number of largest ratios the generalised Pareto distribution is fitted to; by default the
        paper's min(S / 5, 3 sqrt(S)), rounded up.
    strict
        Raise `ValueError` for NaN or +inf instead of returning a result with khat `nan`.

    Returns
    -------
    PsisResult
        khat with its uncertainty, normalised log weights, and a status. The weights are
        smoothed only with status OK. With any status but OK and CONSTANT, khat is `nan` and the
        weights are raw, or `nan` if all ratios are zero or some are NaN or +inf.

    Warns
    -----
    UndefinedKhatWarning
        Once, when khat is undefined; the message is the result's ``message``.

    Notes
    -----
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), "Pareto smoothed importance sampling", JMLR
    25(72); the same khat and weights as the R package loo, up to digits that loo loses when ratios
    are nearly constant.

    Examples
    --------
    >>> import numpy as np
    >>> theta = 0.8 * np.random.default_rng(1).normal(size=10_000)     # q = N(0, 0.8^2)
    >>> log_p, log_q = -theta**2 / 2, -theta**2 / (2 * 0.8**2)         # p = N(0, 1)
    >>> vicheck.psis(log_p - log_q)                                    # true k = 1 - 0.8^2 = 0.36
    PsisResult(khat=0.328, ess=8310.8, num_draws=10000, tail_length=300, threshold=0.700, status=OK)
    """
    result = _to_result(_run(log_ratios, tail_length, strict))
    warn_undefined(result)
    return result


def psis_khat(
    log_ratios: ArrayLike, *, tail_length: int | None = None, strict: bool = False
) -> Any:
    """Estimate only khat: faster than `psis`, and float64 input is not copied.

    Parameters, warnings and errors are those of `psis`.

    Returns
    -------
    float or numpy.ndarray
        khat of a vector, or an array of shape ``(...)`` for a batch ``(..., S)``.

    Examples
    --------
    >>> import numpy as np
    >>> log_ratios = np.random.default_rng(1).normal(size=(3, 1000))
    >>> bool(np.all(vicheck.psis_khat(log_ratios) == vicheck.psis(log_ratios).khat))
    True
    """
    run = _run(log_ratios, tail_length, strict, with_weights=False)
    khat = run.smoothed.khat.copy()
    if np.isnan(khat).any():
        warn_undefined(_to_result(run))
    return khat.reshape(run.batch) if run.batch else khat.item()


def psis_quietly(
    log_ratios: ArrayLike, *, tail_length: int | None = None, with_weights: bool = True
) -> PsisResult:
    """Do the same as `psis` without a warning, for callers that report problems themselves."""
    return _to_result(_run(log_ratios, tail_length, strict=False, with_weights=with_weights))


def psis_once(log_ratios: ArrayLike, *, tail_length: int | None = None) -> PsisResult:
    """Do the same as `psis_quietly`, for a process that calls it only once.

    Up to a million numbers the compiled code takes longer to load than it saves, so it is not
    used; the numbers agree up to rounding.
    """

    def choose(num_rows: int, num_draws: int) -> SmoothRows:
        if num_rows * num_draws <= _MAX_SIZE_WITHOUT_LOADING:
            return rows_numpy.smooth_rows
        return implementation_for(num_rows, num_draws)

    return _to_result(_run(log_ratios, tail_length, strict=False, choose=choose))


def default_tail_length(num_draws: int) -> int:
    """Return the paper's tail length min(S / 5, 3 sqrt(S)), rounded up as in the R package loo.

    Examples
    --------
    >>> default_tail_length(100), default_tail_length(1000)
    (20, 95)
    """
    return min(-(-num_draws // 5), math.isqrt(9 * num_draws - 1) + 1)


class _Run(NamedTuple):
    """The result of a call, before it gets the shape of its input."""

    smoothed: SmoothedRows
    num_draws: int
    tail_length: int
    batch: tuple[int, ...]


def _run(
    log_ratios: ArrayLike,
    tail_length: int | None,
    strict: bool,
    *,
    with_weights: bool = True,
    choose: Chooser = implementation_for,
) -> _Run:
    rows, batch = _as_rows(log_ratios)
    length = _resolve_tail_length(tail_length, rows.shape[1])
    smoothed = smooth(rows, length, choose(*rows.shape), with_weights=with_weights)
    if strict:
        _refuse_invalid(smoothed, batch)
    return _Run(smoothed, rows.shape[1], length, batch)


def as_vector(log_ratios: ArrayLike, name: str = "log_ratios") -> NDArray[np.float64]:
    """Return one vector of log ratios in float64, or raise as `psis` does."""
    rows, batch = _as_rows(log_ratios, name)
    if batch:
        raise ValueError(f"{name} must have shape (S,), got shape {(*batch, rows.shape[1])}")
    return np.asarray(rows[0], dtype=np.float64)


def _as_rows(
    log_ratios: ArrayLike, name: str = "log_ratios"
) -> tuple[NDArray[Any], tuple[int, ...]]:
    """Return a matrix with one vector in each row, and the shape of the batch."""
    if isinstance(log_ratios, np.ma.MaskedArray):
        raise TypeError(
            f"{name} must not be a masked array: drop the masked draws or fill them with -inf"
        )
    try:
        array = np.asarray(log_ratios)
    except ValueError as error:
        raise ValueError(
            f"{name} must be an array of shape (S,) or (..., S), got rows of unequal length "
            f"({error})"
        ) from None
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be real numbers, got dtype {array.dtype}")
    if array.ndim == 0:
        raise ValueError(f"{name} must have shape (S,) or (..., S), got a single number")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}")
    return array.reshape(-1, array.shape[-1]), array.shape[:-1]


def _resolve_tail_length(tail_length: int | None, num_draws: int) -> int:
    if tail_length is None:
        return default_tail_length(num_draws)
    if isinstance(tail_length, bool | np.bool):
        raise TypeError(f"tail_length must be an integer, got {tail_length!r}")
    try:
        length = operator.index(tail_length)
    except TypeError:
        raise TypeError(
            f"tail_length must be an integer, got {tail_length!r} "
            f"of type {type(tail_length).__name__}"
        ) from None
    if not MIN_TAIL <= length < num_draws:
        raise ValueError(
            f"tail_length must be at least {MIN_TAIL} and below the number of draws {num_draws}, "
            f"got {length}"
        )
    return length


def _refuse_invalid(smoothed: SmoothedRows, batch: tuple[int, ...]) -> None:
    """Raise ValueError for the first vector that holds NaN or +inf."""
    _, num_invalid, first_invalid = smoothed.counts.T
    rows = np.flatnonzero(num_invalid)
    if not rows.size:
        return
    row = int(rows[0])
    index = (*np.unravel_index(row, batch), first_invalid[row])
    place = ", ".join(str(int(i)) for i in index)
    raise ValueError(
        f"log_ratios must be finite or -inf, got {num_invalid.sum()} NaN or +inf, the first "
        f"at index {place}; find the draws where log_p or log_q overflows, or use strict=False"
    )


def _to_result(run: _Run) -> PsisResult:
    smoothed, num_draws, tail_length, batch = run
    if batch:
        khat, log_normalizer, ess = (column.reshape(batch) for column in smoothed.numbers.T.copy())
        num_zero, num_invalid, first_invalid = (
            column.reshape(batch) for column in smoothed.counts.T.copy()
        )
        status: Any = np.empty(batch, dtype=object)
        status.ravel()[:] = [_STATUSES[code] for code in smoothed.codes.tolist()]
    else:
        khat, log_normalizer, ess = smoothed.numbers[0].tolist()
        num_zero, num_invalid, first_invalid = smoothed.counts[0].tolist()
        status = _STATUSES[smoothed.codes[0]]
    return PsisResult(
        khat=khat,
        log_weights=smoothed.log_weights.reshape(*batch, -1),
        ess=ess,
        log_normalizer=log_normalizer,
        num_draws=num_draws,
        tail_length=tail_length,
        threshold=khat_threshold(num_draws),
        min_draws=min_draws(khat),
        convergence_rate=convergence_rate(khat, num_draws),
        status=status,
        num_zero=num_zero,
        num_invalid=num_invalid,
        first_invalid=first_invalid,
        khat_posterior=KhatPosterior(
            k_grid=smoothed.grid[:, 0].reshape(*batch, -1),
            weights=smoothed.grid[:, 1].reshape(*batch, -1),
            num_exceedances=tail_length,
        ),
    )


def warn_undefined(result: PsisResult) -> None:
    """Warn the caller of the public function that calls this, once, if khat is undefined."""
    if np.isnan(result.khat).any():
        warnings.warn(f"khat is undefined: {result.message}", UndefinedKhatWarning, stacklevel=3)
