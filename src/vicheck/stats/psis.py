"""Pareto smoothed importance sampling: the paper's section 2.1 and Algorithm 1, lines 5 to 12."""

from __future__ import annotations

import math
import operator
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicheck.errors import UndefinedKhatWarning
from vicheck.records import KhatPosterior, PsisResult, PsisStatus
from vicheck.stats.gpd import grid_size
from vicheck.stats.reliability import convergence_rate, khat_threshold, min_draws

__all__ = ["MIN_DRAWS", "MIN_TAIL", "default_tail_length", "fit_khat", "psis", "psis_khat"]

MIN_TAIL = 5
"""Fewest exceedances to which a generalised Pareto distribution is fitted."""

MIN_DRAWS = 21
"""Fewest draws whose default tail is that long."""

# Up to this many rows and numbers NumPy is as fast as loading the compiled code is slow.
_MAX_NUMPY_ROWS = 8
_MAX_NUMPY_SIZE = 4096

# Short rows are worked on together, this many numbers at a time: half a MiB stays in cache.
_BLOCK = 65_536

# From this many numbers on, the rows of a batch are shared among the cores.
_MIN_THREADED_SIZE = 500_000

# Ratios that differ by no more than this many rounding errors are equal.
_ROUNDING_ERRORS = 64
_EPSILON = float(np.finfo(np.float64).eps)

_STATUSES = tuple(PsisStatus)
_CODES = {status: code for code, status in enumerate(_STATUSES)}

Floats = NDArray[np.float64]


def psis(
    log_ratios: ArrayLike, *, tail_length: int | None = None, strict: bool = False
) -> PsisResult:
    """Smooth importance ratios by Pareto smoothed importance sampling and estimate khat.

    Parameters
    ----------
    log_ratios
        Logarithms of the importance ratios, ``log_p - log_q`` at draws from q, up to a constant:
        shape ``(S,)``, or ``(..., S)`` for a batch of vectors. Real numbers of any type; they are
        raised to float64 and never changed.
    tail_length
        Number of largest ratios the generalised Pareto distribution is fitted to; by default the
        paper's min(S / 5, 3 sqrt(S)), rounded up.
    strict
        Raise `ValueError` for NaN or +inf instead of returning a result with khat `nan`.

    Returns
    -------
    PsisResult
        khat with its uncertainty, smoothed and normalised log weights, and a status: khat is
        `nan`, and the weights are raw, whenever the status is neither OK nor CONSTANT.

    Warns
    -----
    UndefinedKhatWarning
        Once, when khat is undefined; the message is the result's ``message``.

    Notes
    -----
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), "Pareto smoothed importance sampling", JMLR
    25(72), section 3; the same khat and weights as the R package loo.

    Examples
    --------
    >>> import numpy as np
    >>> theta = 0.8 * np.random.default_rng(1).normal(size=10_000)     # q = N(0, 0.8^2)
    >>> log_p, log_q = -theta**2 / 2, -theta**2 / (2 * 0.8**2)         # p = N(0, 1)
    >>> vicheck.psis(log_p - log_q)                                    # true k = 1 - 0.8^2 = 0.36
    PsisResult(khat=0.328, ess=8310.8, num_draws=10000, tail_length=300, threshold=0.700, status=OK)
    """
    rows, batch = _as_rows(log_ratios)
    num_draws = rows.shape[1]
    length = _resolve_tail_length(tail_length, num_draws)
    fits = _fit(rows, length, with_weights=True)
    if strict:
        _refuse_invalid(fits, batch)
    result = _to_result(fits, num_draws, length, batch)
    if np.isnan(fits.khat).any():
        _warn_undefined(result)
    return result


def psis_khat(
    log_ratios: ArrayLike, *, tail_length: int | None = None, strict: bool = False
) -> Any:
    """Estimate khat alone, several times faster than `psis` and without a copy of its input.

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
    rows, batch = _as_rows(log_ratios)
    num_draws = rows.shape[1]
    length = _resolve_tail_length(tail_length, num_draws)
    fits = _fit(rows, length, with_weights=False)
    if strict:
        _refuse_invalid(fits, batch)
    if np.isnan(fits.khat).any():
        _warn_undefined(_to_result(fits, num_draws, length, batch))
    return fits.khat.reshape(batch) if batch else float(fits.khat[0])


def fit_khat(rows: Floats, tail_length: int | None) -> tuple[Floats, list[PsisStatus]]:
    """Return khat and status of each row of a matrix, without a warning."""
    fits = _fit(rows, _resolve_tail_length(tail_length, rows.shape[1]), with_weights=False)
    return fits.khat, [_STATUSES[code] for code in fits.codes]


def default_tail_length(num_draws: int) -> int:
    """Return the paper's tail length min(S / 5, 3 sqrt(S)), rounded up as in the R package loo.

    Examples
    --------
    >>> default_tail_length(100), default_tail_length(1000)
    (20, 95)
    """
    return min(-(-num_draws // 5), math.isqrt(9 * num_draws - 1) + 1)


class _Fits(NamedTuple):
    """What is known of each row; arrays of shape (rows,), (rows, grid) or (rows, draws)."""

    codes: NDArray[np.int64]
    khat: Floats
    log_normalizer: Floats
    ess: Floats
    num_zero: NDArray[np.int64]
    num_invalid: NDArray[np.int64]
    first_invalid: NDArray[np.int64]
    k_grid: Floats
    grid_weights: Floats
    log_weights: Floats
    """Without columns when they are not asked for."""


def _fit(rows: NDArray[Any], tail_length: int, *, with_weights: bool) -> _Fits:
    """Run PSIS on every row of a matrix of any real type."""
    num_rows, num_draws = rows.shape
    codes, num_zero, num_invalid = np.zeros((3, num_rows), np.int64)
    khat, log_normalizer, ess = np.full((3, num_rows), np.nan)
    k_grid, grid_weights = np.full((2, num_rows, grid_size(tail_length)), np.nan)
    fits = _Fits(
        codes=codes,
        khat=khat,
        log_normalizer=log_normalizer,
        ess=ess,
        num_zero=num_zero,
        num_invalid=num_invalid,
        first_invalid=np.full(num_rows, -1),
        k_grid=k_grid,
        grid_weights=grid_weights,
        log_weights=np.empty((num_rows, num_draws if with_weights else 0)),
    )
    smooth_rows = _implementation(num_rows, num_draws)

    def smooth_block(block: slice) -> None:
        part = _Fits._make(array[block] for array in fits)
        values = rows[block]
        if values.dtype != np.float64 or not values.flags.c_contiguous:
            # The weights' own memory holds the converted values: no further copy is needed.
            converted = part.log_weights if with_weights else np.empty(values.shape)
            converted[...] = values
            values = converted
        peaks = _classify(values, part)
        smooth_rows(
            values,
            peaks,
            tail_length,
            part.codes,
            part.khat,
            part.log_normalizer,
            part.ess,
            part.k_grid,
            part.grid_weights,
            part.log_weights,
        )

    step = max(1, _BLOCK // num_draws)
    blocks = [slice(start, start + step) for start in range(0, num_rows, step)]
    if len(blocks) == 1 or rows.size < _MIN_THREADED_SIZE:
        for block in blocks:
            smooth_block(block)
    else:  # rows are independent: the result does not depend on the number of threads
        with ThreadPoolExecutor(min(_num_cores(), len(blocks))) as threads:
            list(threads.map(smooth_block, blocks))
    return fits


def _classify(values: Floats, fits: _Fits) -> Floats:
    """Set the status of rows whose tail is not worth a look; return the maxima of all rows."""
    peaks = np.asarray(values.max(axis=-1))
    lows = np.asarray(values.min(axis=-1))
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf, or a span beyond all doubles
        spans = peaks - lows
    rounding = _ROUNDING_ERRORS * _EPSILON * np.maximum(1.0, np.abs(peaks))
    regular = (spans > rounding) & (spans < np.inf)
    num_draws = values.shape[1]
    if num_draws >= MIN_DRAWS and regular.all():
        return peaks
    fits.codes[spans <= rounding] = _CODES[PsisStatus.CONSTANT]
    if num_draws < MIN_DRAWS:
        fits.codes[:] = _CODES[PsisStatus.TOO_FEW_DRAWS]
    fits.codes[peaks == -np.inf] = _CODES[PsisStatus.ALL_ZERO]
    fits.codes[~(peaks < np.inf)] = _CODES[PsisStatus.NOT_FINITE]
    fits.khat[fits.codes == _CODES[PsisStatus.CONSTANT]] = 0.0
    for row in np.flatnonzero(~regular):
        invalid = ~(values[row] < np.inf)
        fits.num_invalid[row] = np.count_nonzero(invalid)
        fits.first_invalid[row] = np.argmax(invalid) if invalid.any() else -1
        fits.num_zero[row] = np.count_nonzero(values[row] == -np.inf)
    return peaks


def _implementation(num_rows: int, num_draws: int) -> Callable[..., None]:
    """Return the NumPy version for small input, else the compiled one.

    The choice depends on the shape alone, so the same input always gives the same bits.
    """
    if num_rows <= _MAX_NUMPY_ROWS and num_rows * num_draws <= _MAX_NUMPY_SIZE:
        from vicheck.stats import rows_numpy

        return rows_numpy.smooth_rows
    from vicheck.stats import rows_compiled

    return rows_compiled.smooth_rows


def _num_cores() -> int:
    """Return how many cores this process may use, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _as_rows(log_ratios: ArrayLike) -> tuple[NDArray[Any], tuple[int, ...]]:
    """Return a matrix with one vector in each row, and the shape of the batch."""
    if isinstance(log_ratios, np.ma.MaskedArray):
        raise TypeError(
            "log_ratios must not be a masked array: drop the masked draws or fill them with -inf"
        )
    try:
        array = np.asarray(log_ratios)
    except ValueError as error:
        raise ValueError(
            f"log_ratios must be an array of shape (S,) or (..., S), got rows of unequal length "
            f"({error})"
        ) from None
    if array.dtype.kind not in "fiu":
        raise TypeError(f"log_ratios must be real numbers, got dtype {array.dtype}")
    if array.ndim == 0:
        raise ValueError("log_ratios must have shape (S,) or (..., S), got a single number")
    if array.size == 0:
        raise ValueError(f"log_ratios must not be empty, got shape {array.shape}")
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


def _refuse_invalid(fits: _Fits, batch: tuple[int, ...]) -> None:
    """Raise ValueError for the first vector that holds NaN or +inf."""
    found = np.flatnonzero(fits.num_invalid)
    if not found.size:
        return
    row = int(found[0])
    index = (*np.unravel_index(row, batch), fits.first_invalid[row])
    place = ", ".join(str(int(i)) for i in index)
    raise ValueError(
        f"log_ratios must be finite or -inf, got {fits.num_invalid.sum()} NaN or +inf, the first "
        f"at index {place}; find the draws where log_p or log_q overflows, or use strict=False"
    )


def _to_result(fits: _Fits, num_draws: int, tail_length: int, batch: tuple[int, ...]) -> PsisResult:
    def shaped(values: NDArray[Any]) -> Any:
        return values.reshape(batch) if batch else values[0].item()

    khat = shaped(fits.khat)
    statuses = np.empty(len(fits.codes), dtype=object)
    statuses[:] = [_STATUSES[code] for code in fits.codes.tolist()]
    return PsisResult(
        khat=khat,
        log_weights=fits.log_weights.reshape(*batch, -1),
        ess=shaped(fits.ess),
        log_normalizer=shaped(fits.log_normalizer),
        num_draws=num_draws,
        tail_length=tail_length,
        threshold=khat_threshold(num_draws),
        min_draws=min_draws(khat),
        convergence_rate=convergence_rate(khat, num_draws),
        status=statuses.reshape(batch) if batch else statuses[0],
        num_zero=shaped(fits.num_zero),
        num_invalid=shaped(fits.num_invalid),
        first_invalid=shaped(fits.first_invalid),
        khat_posterior=KhatPosterior(
            k_grid=fits.k_grid.reshape(*batch, -1),
            weights=fits.grid_weights.reshape(*batch, -1),
            num_exceedances=tail_length,
        ),
    )


def _warn_undefined(result: PsisResult) -> None:
    warnings.warn(f"khat is undefined: {result.message}", UndefinedKhatWarning, stacklevel=3)
